import { truncate } from '../../base/strings.ts';
import { UserError } from '../../base/user-error.ts';
import type { Client, SentMessage } from '../../client/index.ts';
import { withoutDoneMarkers } from '../../client/inspect/session-details.ts';
import { WaitedTooLong } from '../../client/sessions/client-errors.ts';
import type { Event } from '../../protocol/session/event.ts';
import type { Reply } from '../../protocol/session/reply.ts';

/**
 * What is streamed on the way to an answer. `activity`: a line about the agent's work; `begins`: it starts a step.
 * `event`: what the line is made of, for clients that have words for it. `silence`: nothing is new, and the client is
 * to see that the connection lives.
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
  /** It was sent before that, and what happens from there on is all that is wanted. */
  isUnderWay?: boolean;
};

/**
 * Follows the event log from a message to its reply, or, if an active run took the message up, to the reply of that
 * run. Throws the reason of the signal where that is aborted, which ends nothing but the following.
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
    // What led to the reply may have been removed with the beginning of the event log.
    const kept = update.is === 'removed' ? await findReply(client, session, name) : undefined;
    if (kept && kept.status !== 'joined') {
      yield { is: 'text', text: kept.text };
      return kept;
    }
    if (update.is === 'text' && find.hasBegun()) yield* words(streamed.live(update.from, update.text));
    if (update.is !== 'event') continue;
    const { event } = update;
    steps.take(event);
    const reply = find.take(event);
    if (!find.hasBegun()) continue;
    if (event.type === 'model.answered') yield* words(textOfAnswer(event, streamed));
    yield { is: 'event', event };
    const line = activityOf(event, steps.name);
    if (line !== undefined) yield { is: 'activity', text: line, begins: event.type === 'step.started' };
    if (!reply) continue;
    yield* words(streamed.end(reply.text));
    return reply;
  }
  signal.throwIfAborted();
  throw new UserError(`The session ${session} was removed before the message was answered.`);
}

/** Without a reply the run goes on. */
export type WholeAnswer = { reply: Reply | undefined; text: string; activity: string[] };

/** The same, all at once; after `waitMs` without a reply and without text. */
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

/** The reply of this name where it is there already. */
export async function findReply(client: Client, session: string, name: string): Promise<Reply | undefined> {
  try {
    return await client.waitForReply(session, name, { timeoutMs: 0 });
  } catch (error) {
    if (error instanceof WaitedTooLong) return undefined;
    throw error;
  }
}

function* words(text: string): Generator<AnswerPiece> {
  if (text !== '') yield { is: 'text', text };
}

/** What a planner answers is not for people, but for its summary. */
const textOfAnswer = (
  { planner_query, text }: Extract<Event, { type: 'model.answered' }>,
  streamed: ReturnType<typeof openStreamedText>,
): string =>
  planner_query === undefined || planner_query === 'summary'
    ? streamed.answered(withoutDoneMarkers(text))
    : streamed.dropped();

/**
 * Finds the reply that answers a message, event by event: its own, or that of the run that took it up. It counts once
 * it is in `outbox/`: what was committed right before a power cut may be said otherwise after it.
 */
function openReplySearch(message: string, isUnderWay: boolean) {
  let begun = isUnderWay;
  /** Undefined while the run that took the message up goes on. */
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

/** What the steps of the plan are called, kept up to date by events. */
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

/** What the agent does, as a line; undefined for what is no news to a client. */
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

/** The values of a call's arguments; the text itself where the model did not keep to JSON. */
function argumentValues(args: string): string {
  try {
    const values: unknown[] = Object.values(Object(JSON.parse(args)));
    return values.map((value) => (typeof value === 'string' ? value : JSON.stringify(value))).join(' ');
  } catch {
    return args;
  }
}

const toLine = (text: string): string => truncate(text.replace(/\s+/g, ' ').trim(), MAX_LINE_CHARS);

/** The text that a streaming client is given of a run: what the model says, as it comes, and at last the reply. */
export type StreamedText = {
  /** Words of the call in flight, with their place in it. Like all of these, answers what is new to the client. */
  live(from: number, text: string): string;
  /** A call has ended with this text. */
  answered(text: string): string;
  /** A call has ended, and its text is not for people. */
  dropped(): string;
  /** The reply: the part not streamed yet. After it, the text as a whole ends with the reply. */
  end(reply: string): string;
};

/** So far this may be the JSON that a planner answers with, which is not for people. */
const MAYBE_JSON = /^\s*`{0,3}(?:j|js|jso|json)?\s*(?:\{|$)/;

export function openStreamedText(): StreamedText {
  let received = '';
  /** Text already streamed of the current call. */
  let sent = '';
  let isOver = true;
  let whole = '';

  /** `text` is all that a call has said so far. Texts of two calls are two paragraphs. */
  function say(text: string, isWhole: boolean): string {
    if (text.trim() === '' || (!isWhole && MAYBE_JSON.test(text))) return '';
    // Words of a call that is over may come late; those of one that is retried were streamed before.
    if (sent.startsWith(text) && !(isWhole && isOver)) return '';
    const goesOn = !isOver && text.startsWith(sent);
    const piece = goesOn ? text.slice(sent.length) : (whole === '' ? '' : '\n\n') + text;
    whole += piece;
    sent = text;
    isOver = false;
    return piece;
  }
  function endCall(text: string): void {
    [received, sent, isOver] = ['', text, true];
  }

  return {
    live(from, text) {
      if (from > received.length) return '';
      received = received.slice(0, from) + text;
      return say(received, false);
    },
    answered(text) {
      const piece = say(text, true);
      endCall(text);
      return piece;
    },
    dropped() {
      endCall('');
      return '';
    },
    end(reply) {
      const [text, last] = [reply.trim(), sent.trim()];
      if (whole.trimEnd().endsWith(text)) return '';
      if (last !== '' && text.startsWith(last) && whole.trimEnd().endsWith(last)) return text.slice(last.length);
      return (whole === '' ? '' : '\n\n') + text;
    },
  };
}
