import { mapGet } from '../../base/collections.ts';
import { errorText } from '../../base/user-error.ts';
import { runningStep } from '../../core/plan/plan-steps.ts';
import { countMessageTokens, countTokens } from '../../core/prompt/context-window.ts';
import { buildMeaningQuery, parseMeaning } from '../../core/prompt/meaning-query.ts';
import { buildModelRequest } from '../../core/prompt/model-request.ts';
import type { Decision } from '../../core/runs/decision.ts';
import type { Run } from '../../core/session/run-state.ts';
import type { Message } from '../../core/session/session-messages.ts';
import { activePlan, modelForCall } from '../../core/session/session-queries.ts';
import type { EventBody, EventOf } from '../../protocol/session/event.ts';
import type { Rules } from '../../protocol/settings/effective-settings.ts';
import type { CallEstimate, ModelRequest, Reservation, SessionPorts } from '../ports/session-ports.ts';
import { type AskOptions, type ChatMessage, type ModelAnswer, ModelError } from '../ports/session-ports.ts';
import type { SessionLog } from '../state/session-log.ts';
import { listOfferedTools, toolNames, unwrapMoreTools } from './permission-gate.ts';
import { cleanUpCalls } from './tool-call.ts';

/** The failure in a row that the log of the daemon tells: one alone is often over at once. */
const LOGGED_ATTEMPT = 3;
const BACKOFF_FIRST_MS = 500;
const BACKOFF_MAX_MS = 60_000;
/** An endpoint that answers, but never usably, costs tokens on each try, also with outages in between. */
const MAX_MALFORMED_TRIES = 4;
/** An endpoint may ask for a longer pause than ours, such as until its quota of the week begins. */
const RETRY_AFTER_MAX_MS = 7 * 86_400_000;

/** The pause before retrying a call that has failed `attempt` times in a row: doubled each time, at most a minute. */
export function backoffMs(attempt: number): number {
  return Math.min(BACKOFF_MAX_MS, BACKOFF_FIRST_MS * 2 ** Math.min(attempt - 1, 20));
}

/**
 * Makes one model call. Whatever happens becomes one event; the signal ends the call within moments. The request is
 * made ready while the log is synced. Nothing is sent, no MCP server is started and no failure is returned before that.
 */
export async function callModel(
  decision: Decision & { do: 'think' },
  ports: SessionPorts,
  sessionLog: SessionLog,
  rules: Rules,
  signal: AbortSignal,
): Promise<EventBody[]> {
  const { session } = sessionLog;
  const { deliver, plannerQuery } = decision;
  // Of what a planner writes, only the summary is for people.
  const isForPeople = plannerQuery === undefined || plannerQuery === 'summary';
  const onText = (delta: string) => {
    if (isForPeople) ports.store.live.write(delta);
  };
  let messages: ChatMessage[] = [];
  let began = ports.clock.elapsed();
  const work = async () => {
    await synced;
    return ports.store.work(session.run?.folder);
  };
  ports.store.live.begin();
  const synced = sessionLog.sync();
  // Awaited below. This keeps an early rejection from ending the process.
  synced.catch(() => {});
  try {
    await cleanUpCalls(ports, sessionLog);
    const notices = plannerQuery
      ? []
      : [...(await ports.tools.refresh({ work, signal })), ...(ports.jobs?.listUnreported() ?? [])];
    const tools = plannerQuery ? [] : listOfferedTools(session, ports, rules);
    messages = sessionLog.runGuarded('building a request', () =>
      buildModelRequest(session, rules, deliver, {
        plannerQuery,
        tools: { names: toolNames(tools), notices },
      }),
    );
    const image: ModelRequest['image'] = (one) => ports.store.image(one);
    const request = { messages, tools, model: modelForCall(session, rules, plannerQuery), image };
    await Promise.all([synced, ports.model.prepare?.(request)]);
    const message = mapGet(session.messages, session.run?.message ?? '');
    const counted = await beginCountedCall(ports, message, request, signal);
    if ('type' in counted) return [counted];
    began = ports.clock.elapsed();
    const took = () => Math.round(ports.clock.elapsed() - began);
    const answer = await ports.model
      .ask(request, { signal, onText, budget: budgetOf(session.run, messages) })
      .catch(async (error) => {
        await counted.failed(error, took());
        throw error;
      });
    const ms = took();
    await counted.answered(answer, ms);
    if (plannerQuery && answer.unfinished !== undefined) throw unfinishedFault(answer.unfinished);
    if (!plannerQuery) ports.jobs?.markAllReported();
    const step = runningStep(activePlan(session))?.id;
    return [
      {
        type: 'model.answered',
        ...answer,
        calls: answer.calls.map(unwrapMoreTools),
        ms,
        delivered: decision.deliver,
        seen: session.seq,
        ...(step !== undefined && { step }),
        ...(decision.plannerQuery && { planner_query: decision.plannerQuery, calls: [] }),
      },
    ];
  } catch (error) {
    await synced;
    const failed = modelFailedEvent(error, { before: session.run?.failure, now: ports.clock.now(), signal, messages });
    if (failed.retry_at !== null && failed.attempt === LOGGED_ATTEMPT)
      ports.log('warn', `the model does not answer, and is asked again until it does: ${failed.error}`);
    return [{ ...failed, ms: Math.round(ports.clock.elapsed() - began) }];
  } finally {
    ports.store.live.end();
  }
}

/** Even a run that has almost used its limit up gets this much of an answer. */
const LEAST_TOKENS = 500;
const LEAST_MS = 1000;

/** What a call may take at most: a limit that is reached within it ends it, and the run pauses. */
function budgetOf(run: Run | null, messages: readonly ChatMessage[]): NonNullable<AskOptions['budget']> {
  if (!run) return {};
  const { tokens, minutes } = run.limits;
  return {
    ...(minutes !== null && { ms: Math.max(LEAST_MS, minutes * MINUTE_MS - run.elapsedMs) }),
    ...(tokens !== null && { tokens: Math.max(LEAST_TOKENS, tokens - run.spent.tokens - countTokens(messages)) }),
  };
}

const MINUTE_MS = 60_000;

/** How long the model may take to say what a message means. */
const MEANING_MAX_MS = 10_000;

/**
 * Asks the model what a queued message means, without tools. Whatever comes becomes one event: no answer in time, or
 * none that says it, is `unclear`. Throws only if `signal` ends it.
 */
export async function askMessageMeaning(
  message: string,
  ports: SessionPorts,
  { session, runGuarded }: SessionLog,
  rules: Rules,
  signal: AbortSignal,
): Promise<EventBody> {
  const control = new AbortController();
  const end = () => control.abort(signal.reason);
  signal.addEventListener('abort', end);
  const cancel = ports.clock.after(MEANING_MAX_MS, () =>
    control.abort(new Error(`no answer within ${MEANING_MAX_MS / 1000} s`)),
  );
  const began = ports.clock.elapsed();
  const took = () => ({ ms: Math.round(ports.clock.elapsed() - began) });
  try {
    const messages = runGuarded('building a request', () => buildMeaningQuery(session, message));
    const request = { messages, tools: [], model: modelForCall(session, rules, undefined) };
    const counted = await beginCountedCall(ports, mapGet(session.messages, message), request, control.signal);
    if ('type' in counted) throw new Error(counted.error);
    const answer = await ports.model.ask(request, { signal: control.signal, onText: () => {} }).catch(async (error) => {
      await counted.failed(error, took().ms);
      throw error;
    });
    await counted.answered(answer, took().ms);
    const { usage, model } = answer;
    const meaning = parseMeaning(answer.text);
    return { type: 'message.interpreted', message, meaning, by: 'model', usage, model, ...took() };
  } catch (error) {
    if (signal.aborted) throw error;
    return {
      type: 'message.interpreted',
      message,
      meaning: 'unclear',
      by: 'model',
      error: errorText(error),
      ...took(),
    };
  } finally {
    cancel();
    signal.removeEventListener('abort', end);
  }
}

type ModelFailedEvent = Extract<EventBody, { type: 'model.failed' }>;

type FailedCall = {
  /** The failures in a row before this one. */
  before: Run['failure'] | undefined;
  now: Date;
  signal: AbortSignal;
  messages: readonly ChatMessage[];
};

function modelFailedEvent(error: unknown, { before, now, signal, messages }: FailedCall): ModelFailedEvent {
  const attempt = (before?.last.attempt ?? 0) + 1;
  if (signal.aborted) return { type: 'model.failed', kind: 'aborted', error: 'stopped', attempt, retry_at: null };
  if (!(error instanceof ModelError)) throw error;
  // Only the pause grows with failures of every kind: an outage says nothing about answers or the window.
  const tries = (before?.tries?.[error.kind] ?? 0) + 1;
  if (error.kind === 'too_long') return requestTooLongEvent(error, { attempt, tries, now, messages });
  const hopeless = error.kind === 'malformed' && tries >= MAX_MALFORMED_TRIES;
  const pause = error.retry && !hopeless ? Math.min(error.waitMs ?? backoffMs(attempt), RETRY_AFTER_MAX_MS) : null;
  const retry_at = pause === null ? null : new Date(now.getTime() + pause).toISOString();
  const hint = error.hint && { hint: error.hint };
  return { type: 'model.failed', kind: error.kind, error: error.message, attempt, retry_at, ...hint };
}

/** Half a plan or half a summary is of no use: it is asked for again. */
const unfinishedFault = (finish: string): ModelError =>
  new ModelError('malformed', `The endpoint stopped the answer (finish_reason "${finish}").`, { retry: true });

/** How often a request is shortened to fit a window that is only known from refusals. */
const MAX_SHRINK_TRIES = 5;

/** The request exceeds the window, whatever our rough token count says: the next one is shorter. */
function requestTooLongEvent(
  error: ModelError,
  { attempt, tries, now, messages }: Pick<FailedCall, 'now' | 'messages'> & { attempt: number; tries: number },
): ModelFailedEvent {
  const sent = messages.reduce((sum, message) => sum + countMessageTokens(message), 0);
  const window = Math.max(1, Math.floor(Math.min(error.window ?? sent, sent * 0.8)));
  const retry_at = tries < MAX_SHRINK_TRIES ? now.toISOString() : null;
  return { type: 'model.failed', kind: 'too_long', error: error.message, attempt, retry_at, window };
}

/** The longest answer that money is held back for, in tokens: few models answer with more at once. */
const MAX_ANSWER_TOKENS = 16_384;

/** A call whose cost is counted. */
type CountedCall = {
  answered(answer: ModelAnswer, ms: number): Promise<void>;
  /** It failed or was aborted; the money that is held back for it is free again, but for what it must have cost. */
  failed(error: unknown, ms: number): Promise<void>;
};

type Refused = Pick<EventOf<'model.failed'>, 'type' | 'kind' | 'error' | 'attempt' | 'retry_at'>;

/**
 * Holds back what a request for a message may cost. A budget that is used up refuses it: a run waits, as for an
 * endpoint, but until a time that is known, and goes on by itself. Throws the signal's reason if aborted while it waits
 * for other calls.
 */
async function beginCountedCall(
  { spending, model }: Pick<SessionPorts, 'spending' | 'model'>,
  message: Message | undefined,
  request: ModelRequest,
  signal: AbortSignal,
): Promise<CountedCall | Refused> {
  if (!spending || !message) return { answered: async () => {}, failed: async () => {} };
  const prices = await model.prices?.(request.model);
  const offered = request.tools.filter(({ line }) => line === undefined);
  const input = countTokens(request.messages) + Math.ceil(JSON.stringify(offered).length / 4);
  const estimate: CallEstimate = {
    tokens: input + MAX_ANSWER_TOKENS,
    cost: prices ? (input * prices.input + MAX_ANSWER_TOKENS * prices.output) / 1e6 : null,
  };
  const reserved = await spending.reserve({ ...estimate, model: request.model ?? '', message }, signal);
  if ('why' in reserved) {
    const kind = reserved.until === null ? 'unconfigured' : 'budget';
    return { type: 'model.failed', kind, error: reserved.why, attempt: 1, retry_at: reserved.until };
  }
  return countCall(reserved, { tokens: input, cost: prices ? (input * prices.input) / 1e6 : null });
}

function countCall(reserved: Reservation, prompt: CallEstimate): CountedCall {
  return {
    answered: ({ usage, model, instead_of: other }, ms) =>
      reserved.settle({ ...usage, ...(other && { model }), ms, isAnswered: true }),
    failed(error, ms) {
      // What was refused, or never arrived, costs nothing. An answer that was cut off has been paid for.
      const isFree = error instanceof ModelError && error.kind !== 'malformed';
      const spent = isFree ? { tokens: 0, cost: 0 } : { ...prompt, estimated: true as const };
      return reserved.settle({ ...spent, ms, isAnswered: false });
    },
  };
}
