import { truncate } from '../../base/strings.ts';
import { UserError } from '../../base/user-error.ts';
import type { Client, SentMessage } from '../../client/index.ts';
import { withoutDoneMarkers } from '../../client/inspect/session-details.ts';
import { WaitedTooLong } from '../../client/sessions/client-errors.ts';
import type { Event } from '../../protocol/session/event.ts';
import type { Reply } from '../../protocol/session/reply.ts';

/**
 * What is streamed until the answer is complete. `activity`: a line about the agent's work; `begins`: it starts a step.
 * `event`: the event behind that line, for clients that word it themselves. `silence`: nothing new; sent to keep the
 * connection alive.
 */
export type AnswerPiece =
  | { is: 'text'; text: string }
  | { is: 'activity'; text: string; begins: boolean }
  | { is: 'event'; event: Event }
  | { is: 'silence' };

/** Some clients give up after 20 s without a byte. */
const KEEP_ALIVE_MS = 10_000;
const MAX_LINE_CHARS = 160;

export type FollowedMessage = SentMessage & {
  /** The last event before it was sent; 0 if it was sent earlier and the event log must be read from its start. */
  after: number;
  /** The message was sent before `after`, and only what follows `after` is wanted. */
  isUnderWay?: boolean;
};

/**
 * Follows the event log from a message to its reply, or, if the message joined an active run, to the reply of that run.
 * Aborting `signal` throws its reason; the run itself continues.
 */
export async function* followAnswer(
  client: Client,
  { session, id, name, after, isUnderWay = false }: FollowedMessage,
  signal: AbortSignal,
): AsyncGenerator<AnswerPiece, Reply> {
  const streamed = openStreamedText();
  const find = openReplySearch(id, isUnderWay);
  const steps = openStepNames((await client.show(session)).session.plan?.steps ?? []);
  for await (const update of client.stream(session, { after, heartbeatMs: KEEP_ALIVE_MS, signal })) {
    if (update.is === 'heartbeat') yield { is: 'silence' };
    // The events that led to the reply may have been removed along with the oldest segments of the log.
    const kept = update.is === 'removed' ? await findReply(client, session, name) : undefined;
    if (kept && kept.status !== 'joined') {
      yield { is: 'text', text: kept.text };
      return kept;
    }
    if (update.is === 'text' && find.hasBegun()) yield* textPieces(streamed.live(update.from, update.text));
    if (update.is !== 'event') continue;
    const { event } = update;
    steps.take(event);
    const reply = find.take(event);
    if (!find.hasBegun()) continue;
    if (event.type === 'model.answered') yield* textPieces(textOfAnswer(event, streamed));
    yield { is: 'event', event };
    const line = activityOf(event, steps.name);
    if (line !== undefined) yield { is: 'activity', text: line, begins: event.type === 'step.started' };
    if (!reply) continue;
    yield* textPieces(streamed.end(reply.text));
    return reply;
  }
  signal.throwIfAborted();
  throw new UserError(`The session ${session} was removed before the message was answered.`);
}

/** Without `reply`, the run is still in progress. */
export type WholeAnswer = { reply: Reply | undefined; text: string; activity: string[] };

/** Collects the same into one answer. If there is no reply within `waitMs`, `reply` is undefined and `text` empty. */
export async function collectAnswer(
  client: Client,
  message: FollowedMessage,
  { waitMs, signal }: { waitMs: number; signal: AbortSignal },
): Promise<WholeAnswer> {
  const activity: string[] = [];
  const late = AbortSignal.timeout(waitMs);
  const pieces = followAnswer(client, message, AbortSignal.any([signal, late]));
  try {
    for (;;) {
      const { done, value } = await pieces.next();
      if (done) return { reply: value, text: value.text, activity };
      if (value.is === 'activity') activity.push(value.text);
    }
  } catch (error) {
    if (!late.aborted || signal.aborted) throw error;
    return { reply: undefined, text: '', activity };
  }
}

/** The reply of this name, if it already exists. */
export async function findReply(client: Client, session: string, name: string): Promise<Reply | undefined> {
  try {
    return await client.waitForReply(session, name, { timeoutMs: 0 });
  } catch (error) {
    if (error instanceof WaitedTooLong) return undefined;
    throw error;
  }
}

function* textPieces(text: string): Generator<AnswerPiece> {
  if (text !== '') yield { is: 'text', text };
}

/** Answers to planner queries are internal, except the summary. */
const textOfAnswer = (
  { planner_query, text }: Extract<Event, { type: 'model.answered' }>,
  streamed: ReturnType<typeof openStreamedText>,
): string =>
  planner_query === undefined || planner_query === 'summary' ? streamed.answered(withoutDoneMarkers(text)) : '';

/**
 * Finds the reply to a message, event by event: its own, or that of the run it joined. A reply counts once it is in
 * `outbox/`, because a commit that a power cut loses may be replaced by a different reply after the restart.
 */
function openReplySearch(message: string, isUnderWay: boolean) {
  let begun = isUnderWay;
  /** Undefined while the run that the message joined is active. */
  let awaited: string | undefined = message;
  let reply: Reply | undefined;
  return {
    hasBegun: () => begun,
    take(event: Event): Reply | undefined {
      if (event.type === 'message.received') begun ||= event.id === message;
      if (!begun) return undefined;
      if (event.type === 'run.ended') awaited ??= event.message;
      if (event.type === 'reply.committed' && event.message === awaited) {
        if (event.reply.status === 'joined') awaited = undefined;
        else reply = event.reply;
      }
      return event.type === 'reply.published' && event.message === awaited ? reply : undefined;
    },
  };
}

type NamedStep = { id: string; description: string };

/** The descriptions of the plan's steps by id, kept up to date by events. */
function openStepNames(steps: readonly NamedStep[]) {
  const names = new Map<string, string>();
  const add = ({ id, description }: NamedStep) => names.set(id, description);
  steps.forEach(add);
  return {
    name: (id: string) => names.get(id) ?? id,
    take(event: Event): void {
      if (event.type === 'step.added') add(event.step);
      if (event.type === 'plan.started') event.steps?.forEach(add);
      if (event.type !== 'plan.revised' && event.type !== 'plan.edited') return;
      for (const change of event.changes) {
        if (change.what === 'added') add(change.step);
        if (change.what === 'step' && change.set.description !== undefined)
          add({ id: change.step, description: change.set.description });
      }
    },
  };
}

/** One line about what the agent is doing; undefined for events that a client need not see. */
function activityOf(event: Event, nameOf: (step: string) => string): string | undefined {
  switch (event.type) {
    case 'step.started':
      return `step: ${toLine(nameOf(event.step))}`;
    case 'step.failed':
    case 'step.blocked':
      return `step ${event.type.slice('step.'.length)}: ${toLine(nameOf(event.step))}: ${toLine(event.error)}`;
    case 'tool.started':
      return `${event.name}: ${toLine(argumentValues(event.args))}`;
    case 'model.failed':
      return event.retry_at === null ? undefined : `the model failed and is asked again: ${toLine(event.error)}`;
    default:
      return undefined;
  }
}

/** The values of a call's arguments, or the raw text if it is not valid JSON. */
function argumentValues(args: string): string {
  try {
    const values: unknown[] = Object.values(Object(JSON.parse(args)));
    return values.map((value) => (typeof value === 'string' ? value : JSON.stringify(value))).join(' ');
  } catch {
    return args;
  }
}

const toLine = (text: string): string => truncate(text.replace(/\s+/g, ' ').trim(), MAX_LINE_CHARS);

/** The text that a streaming client gets: what the model writes, as it arrives, and finally the reply. */
export type StreamedText = {
  /** Text of the call in flight, at offset `from`. Like the others, returns the part that the client does not have. */
  live(from: number, text: string): string;
  /** A call has ended with this text. */
  answered(text: string): string;
  /** The run has ended with this reply. Afterwards the streamed text ends with it. */
  end(reply: string): string;
};

export function openStreamedText(): StreamedText {
  let received = '';
  /** What has been streamed of the current call. */
  let sent = '';
  let isOver = true;
  let whole = '';

  /** `text`: the whole text of the call so far. The texts of two calls are separated by a blank line. */
  function streamText(text: string, isWhole: boolean): string {
    if (text.trim() === '') return '';
    // Text of a finished call may arrive late, and a retried call may repeat text that was streamed before.
    if (sent.startsWith(text) && !(isWhole && isOver)) return '';
    const isContinued = !isOver && text.startsWith(sent);
    const piece = isContinued ? text.slice(sent.length) : (whole === '' ? '' : '\n\n') + text;
    whole += piece;
    sent = text;
    isOver = false;
    return piece;
  }

  return {
    live(from, text) {
      if (from > received.length) return '';
      received = received.slice(0, from) + text;
      return streamText(received, false);
    },
    answered(text) {
      const piece = streamText(text, true);
      [received, sent, isOver] = ['', text, true];
      return piece;
    },
    end(reply) {
      const [text, last] = [reply.trim(), sent.trim()];
      if (whole.trimEnd().endsWith(text)) return '';
      if (last !== '' && text.startsWith(last) && whole.trimEnd().endsWith(last)) return text.slice(last.length);
      return (whole === '' ? '' : '\n\n') + text;
    },
  };
}
