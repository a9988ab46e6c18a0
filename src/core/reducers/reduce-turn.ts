import { appendItems, getOwn, hashKey, mapGet } from '../../base/collections.ts';
import { parseJson } from '../../base/json.ts';
import { truncate } from '../../base/strings.ts';
import type { EventOf, PlannerQuery } from '../../protocol/session/event.ts';
import { inlineText } from '../../protocol/session/log-entry.ts';
import type { ImageFile } from '../../protocol/session/message.ts';
import { saidMessage } from '../messages/commands.ts';
import { bumpRevision, openSteps, runningStep, updateStep, withExitStatus } from '../plan/plan-steps.ts';
import { pathUnderWork, proofOfCall, writesFile } from '../session/call-proof.ts';
import { isAskUserCall, isCheckKey, isListingKey } from '../session/internal-calls.ts';
import {
  addUsage,
  continueRound,
  type Run,
  standInsAfter,
  type Turn,
  type TurnCall,
  type TurnTrace,
} from '../session/run-state.ts';
import { type CallEnd, discardAnsweredTexts, type HistoryItem } from '../session/session-messages.ts';
import { activePlan } from '../session/session-queries.ts';
import type { Session } from '../session/session-state.ts';
import { reduceListing } from './reduce-child.ts';
import { isStillDue } from './reduce-meaning.ts';
import { reduceCheck } from './reduce-step.ts';

/**
 * Appends an answer to the conversation after the messages it was the first to receive, and makes it the current turn.
 */
export function reduceModelAnswer(session: Session, event: EventOf<'model.answered'>): Session {
  if (event.planner_query) return reducePlannerAnswer(session, event, event.planner_query);
  const delivered = deliveredMessages(session, event);
  const turn: Turn = {
    seq: event.seq,
    step: event.step ?? null,
    followsPerson:
      event.delivered.some((id) => mapGet(session.messages, id)?.as !== 'data') || hasAnsweredQuestion(session.turn),
    text: event.text,
    ...(event.truncated && { isTruncated: true }),
    ...(event.unfinished !== undefined && { unfinished: event.unfinished }),
    calls: event.calls.map((call, place) => ({
      key: `${event.seq}.${place}`,
      id: call.id,
      name: call.name,
      args: call.args,
      mainArgument: findMainArgument(call.args),
      state: 'asked',
      replay: 'never',
      ok: false,
      outputHead: '',
    })),
    hasClosedStep: false,
    isJudged: false,
    refusedClaim: null,
    isBlocked: false,
    declaredSteps: [],
  };
  return countIteration(
    {
      ...session,
      messages: discardAnsweredTexts(session.messages, event.delivered),
      conversation: appendItems(session.conversation, ...delivered, answerItem(event)),
      turn,
      stepHistory: appendStepHistory(session),
      ...withoutDelivered(session, event),
      notices: [
        ...session.notices.filter((notice) => notice.seq > event.seen || isStillDue(session, notice)),
        ...(event.truncated ? [{ seq: event.seq, about: 'truncated' as const }] : []),
        ...(event.unfinished ? [{ seq: event.seq, about: 'unfinished' as const, finish: event.unfinished }] : []),
      ],
    },
    event,
  );
}

/** A person has answered the last answer's question. */
const hasAnsweredQuestion = (turn: Turn | null): boolean =>
  turn?.calls.some((call) => isAskUserCall(call) && call.ok) ?? false;

/**
 * An answer to a planner query: the persons' messages it received join the conversation, its own text does not. News
 * for the model stays, since a planner does not get it.
 */
function reducePlannerAnswer(session: Session, event: EventOf<'model.answered'>, ask: PlannerQuery): Session {
  const { run, plan } = session;
  if (!run) return session;
  const delivered = deliveredMessages(session, event);
  const tries = (run.plannerQuery?.ask === ask ? run.plannerQuery.tries : 0) + 1;
  const active = activePlan(session);
  return {
    ...session,
    conversation: delivered.length > 0 ? appendItems(session.conversation, ...delivered) : session.conversation,
    ...withoutDelivered(session, event),
    plan: active && plan ? bumpRevision({ ...plan, iteration_count: plan.iteration_count + 1 }, event.at) : plan,
    run: {
      ...run,
      spent: addUsage(run.spent, { ...event.usage, iterations: 1 }),
      ...standInsAfter(run, event),
      failure: null,
      plannerQuery: { ask, tries, text: event.text, ...(event.truncated && { isTruncated: true }) },
    },
  };
}

function deliveredMessages(session: Session, event: EventOf<'model.answered'>): HistoryItem[] {
  return event.delivered.flatMap((id) => {
    const message = mapGet(session.messages, id);
    return message ? [{ type: 'message', nonce: session.promptNonce, message: saidMessage(message) }] : [];
  });
}

const answerItem = ({ text, calls, provider_fields }: EventOf<'model.answered'>): HistoryItem => ({
  type: 'answer',
  text,
  calls,
  ...(provider_fields && { provider_fields }),
});

/** Messages this answer was the first to receive are now delivered. */
function withoutDelivered(session: Session, event: EventOf<'model.answered'>): Pick<Session, 'queue' | 'undelivered'> {
  const gone = new Set(event.delivered);
  return {
    queue: session.queue.filter((id) => !gone.has(id)),
    undelivered: session.undelivered.filter((id) => !gone.has(id)),
  };
}

/** Turns kept for completion detection; a longer step has shown its subject by then. */
const MAX_STEP_HISTORY = 30;

/**
 * Adds the current turn to the history of the current step when another turn or the end of the run follows it. Calls
 * made along with a closing answer belong to the next step.
 */
export function appendStepHistory({ run, turn, stepHistory }: Session): Session['stepHistory'] {
  if (!turn) return stepHistory;
  const calls = turn.calls.filter((call) => call.ok);
  const trace: TurnTrace = {
    text: turn.hasClosedStep || turn.unfinished !== undefined ? '' : turn.text,
    tools: turn.calls.map((call) => call.name),
    args: turn.calls.map((call) => call.mainArgument),
    files: calls.filter(writesFile).map((call) => pathUnderWork(run?.folder, call.mainArgument)),
    proof: calls.flatMap((call) => call.proof ?? []),
  };
  return [...stepHistory, trace].slice(-MAX_STEP_HISTORY);
}

const MAIN_ARGUMENTS = ['path', 'file', 'command', 'url', 'query', 'pattern'] as const;

/** The main argument of a call: its path or command, else the first string among its arguments. */
function findMainArgument(args: string): string {
  const given = parseJson(args);
  if (typeof given !== 'object' || given === null) return args;
  const texts = Object.entries(given).filter((entry): entry is [string, string] => typeof entry[1] === 'string');
  return MAIN_ARGUMENTS.flatMap((key) => texts.filter(([name]) => name === key))[0]?.[1] ?? texts[0]?.[1] ?? args;
}

/** Counts one more iteration for the run, its plan and its current step. */
function countIteration(session: Session, event: EventOf<'model.answered'>): Session {
  const { run } = session;
  if (!run) return session;
  const plan = activePlan(session);
  const step = runningStep(plan);
  const one = plan && bumpRevision({ ...plan, iteration_count: plan.iteration_count + 1 }, event.at);
  const talksOn = event.calls.length === 0 && plan !== null && openSteps(plan).length > 0;
  return {
    ...session,
    workRounds: plan && step ? continueRound(session.workRounds, plan.limits.step_iterations) : session.workRounds,
    run: {
      ...run,
      spent: addUsage(run.spent, { ...event.usage, iterations: 1 }),
      ...standInsAfter(run, event),
      idleAnswers: talksOn ? run.idleAnswers + 1 : 0,
      failure: null,
    },
    plan:
      one && step
        ? updateStep(one, step.id, (it) => ({ ...it, iterations: (it.iterations ?? 0) + 1 }), event.at)
        : (one ?? session.plan),
  };
}

/** A call of the current turn goes from asked to started to finished or interrupted; each end is a tool message. */
export function reduceToolCall(
  session: Session,
  event: EventOf<'tool.started'> | EventOf<'tool.finished'> | EventOf<'tool.interrupted'>,
): Session {
  if (isCheckKey(event.call)) return reduceCheck(session, event);
  if (isListingKey(event.call)) return reduceListing(session, event);
  const call = session.turn?.calls.find((one) => one.key === event.call);
  if (!session.turn || !call) return session.question?.call === event.call ? { ...session, question: null } : session;
  if (event.type === 'tool.started') return updateCall(session, { ...call, state: 'started', replay: event.replay });
  const end = callEnd(event);
  const output = [...('why' in end ? [end.why] : []), ...(end.output === undefined ? [] : [end.output])].join('\n');
  const ok = event.type === 'tool.finished' && event.ok;
  const state = event.type === 'tool.finished' ? 'finished' : 'interrupted';
  const isAnswer = session.question?.call === call.key;
  const images = event.type === 'tool.finished' && event.images ? { images: event.images } : {};
  const proof = ok && event.type === 'tool.finished' ? proofOfCall(call, event, session.run?.folder) : undefined;
  const outcome = { state, ok, outputHead: truncate(output, 400), ...(proof !== undefined && { proof }) } as const;
  const after = updateCall(session, { ...call, ...outcome, ...images });
  const nonce = session.promptNonce;
  return {
    ...after,
    conversation: appendItems(
      session.conversation,
      ...[
        {
          type: 'result',
          nonce,
          call: call.id,
          tool: call.name,
          began: call.state !== 'asked',
          isAnswer,
          end,
        } as const,
      ],
      ...imagesOfTurn(after.turn).map((images) => ({ type: 'images', nonce, images }) as const),
    ),
    question: isAnswer ? null : session.question,
    ...keepExitStatus(after, event),
    toolFailures:
      event.type === 'tool.finished' ? countToolFailures(session.toolFailures, call.name, ok) : session.toolFailures,
    run: after.run && {
      ...after.run,
      repeatedCall: countRepeatedCall(after.run, call, output),
      exitStatus: exitStatusOf(event) === undefined ? after.run.exitStatus : (exitStatusOf(event) ?? null),
    },
  };
}

function callEnd(event: EventOf<'tool.finished'> | EventOf<'tool.interrupted'>): CallEnd {
  const output = event.output && { output: inlineText(event.output) };
  return event.type === 'tool.finished' ? { ...output } : { ...output, why: event.why, outcome: event.outcome };
}

/** The images of an answer's calls, once the last of them has ended. */
function imagesOfTurn(turn: Turn | null): Array<readonly ImageFile[]> {
  const calls = turn?.calls ?? [];
  const images = calls.flatMap((call) => call.images ?? []);
  const isOpen = calls.some((call) => call.state === 'asked' || call.state === 'started');
  return images.length === 0 || isOpen ? [] : [images];
}

/** For a command: its exit status, null if it has none; undefined if no command ran. */
const exitStatusOf = (event: EventOf<'tool.finished'> | EventOf<'tool.interrupted'>): number | null | undefined =>
  event.type === 'tool.finished' ? event.exit : undefined;

/** The current step keeps the exit status of its last command. */
function keepExitStatus(
  session: Session,
  event: EventOf<'tool.finished'> | EventOf<'tool.interrupted'>,
): Pick<Session, 'plan'> {
  const { plan } = session;
  const exit = exitStatusOf(event);
  const step = runningStep(activePlan(session));
  if (!plan || !step || exit === undefined || (step.exit ?? null) === exit) return { plan };
  return { plan: updateStep(plan, step.id, (one) => withExitStatus(one, exit ?? undefined), event.at) };
}

function updateCall(session: Session, call: TurnCall): Session {
  const { turn } = session;
  return turn
    ? { ...session, turn: { ...turn, calls: turn.calls.map((one) => (one.key === call.key ? call : one)) } }
    : session;
}

/** So many calls made in turn, each with the result it had before, are repeats. */
const MAX_CYCLE = 6;
function countRepeatedCall({ repeatedCall: { counts } }: Run, call: TurnCall, output: string): Run['repeatedCall'] {
  const args = call.args.replace(/\s+/g, ' ');
  const key = `${call.name} ${hashKey(args)} ${output.length} ${hashKey(output)}`;
  const count = (getOwn(counts, key) ?? 0) + 1;
  const latest = Object.keys(counts).slice(1 - MAX_CYCLE);
  const others = count > 1 ? counts : Object.fromEntries(latest.map((one) => [one, 1]));
  return { counts: { ...others, [key]: count }, count, call: `${call.name} ${truncate(call.args, 120)}` };
}

/** How often each tool has failed in a row in the current step, after this call. */
function countToolFailures(before: Session['toolFailures'], tool: string, ok: boolean): Session['toolFailures'] {
  if (!ok) return { ...before, [tool]: (getOwn(before, tool) ?? 0) + 1 };
  const { [tool]: _, ...others } = before;
  return others;
}
