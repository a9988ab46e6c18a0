import { jsonValues } from '../../base/json.ts';
import { truncate } from '../../base/strings.ts';
import { UserError } from '../../base/user-error.ts';
import type { Client, SentMessage } from '../../client/index.ts';
import { type ConversationItem, openConversation } from '../../client/inspect/conversation.ts';
import { WaitedTooLong } from '../../client/sessions/client-errors.ts';
import type { Reply } from '../../protocol/session/reply.ts';

/** What happens until the answer is complete. `silence`: nothing new, for a connection that has to be kept alive. */
export type AnswerItem = ConversationItem | { kind: 'silence' };

/** Some clients give up after 20 s without a byte. */
const KEEP_ALIVE_MS = 10_000;

export type FollowedMessage = SentMessage & {
  /** The last event before it was sent; 0 if it was sent earlier and the event log must be read from its start. */
  after: number;
  /** The message was sent before `after`, and only what follows `after` is wanted. */
  isUnderWay?: boolean;
};

/**
 * The conversation from a message to its reply, or, if the message joined an active run, to the reply of that run; what
 * the reply adds comes as a text. Aborting `signal` throws its reason; the run itself continues.
 */
export async function* followAnswer(
  client: Client,
  { session, id, name, after, isUnderWay = false }: FollowedMessage,
  signal: AbortSignal,
): AsyncGenerator<AnswerItem, Reply> {
  const conversation = openConversation((await client.show(session)).session.plan?.steps);
  const search = openReplySearch(id, isUnderWay);
  for await (const update of client.stream(session, { after, heartbeatMs: KEEP_ALIVE_MS, signal })) {
    if (update.is === 'heartbeat') yield { kind: 'silence' };
    // The events that led to the reply may have been removed along with the oldest segments of the log.
    const kept = update.is === 'removed' ? await findReply(client, session, name) : undefined;
    if (kept && kept.status !== 'joined') {
      yield* textItems(after, kept.text);
      return kept;
    }
    if (update.is === 'text' && search.hasBegun()) yield* conversation.live(update.from, update.text);
    if (update.is !== 'event') continue;
    for (const item of conversation.event(update.event)) {
      const found = search.take(item);
      if (search.hasBegun()) yield item;
      if (!found) continue;
      yield* textItems(item.seq, found.text);
      return found.event.reply;
    }
  }
  signal.throwIfAborted();
  throw new UserError(`The session ${session} was removed before the message was answered.`);
}

function* textItems(seq: number, text: string): Generator<ConversationItem> {
  if (text !== '') yield { kind: 'text', seq, text, begins: true, soFar: text };
}

type ReplyItem = Extract<ConversationItem, { kind: 'reply' }>;

/**
 * Finds the reply to a message, item by item: its own, or that of the run it joined. A reply counts once it is in
 * `outbox/`, because a commit that a power cut loses may be replaced by a different reply after the restart.
 */
function openReplySearch(message: string, isUnderWay: boolean) {
  let begun = isUnderWay;
  /** Undefined while the run that the message joined is active. */
  let awaited: string | undefined = message;
  let reply: ReplyItem | undefined;
  return {
    hasBegun: () => begun,
    take(item: ConversationItem): ReplyItem | undefined {
      if (item.kind === 'message') begun ||= item.event.id === message;
      if (!begun) return undefined;
      if (item.event?.type === 'run.ended') awaited ??= item.event.message;
      if (item.kind === 'reply' && item.event.message === awaited) {
        if (item.event.reply.status === 'joined') awaited = undefined;
        else reply = item;
      }
      return item.event?.type === 'reply.published' && item.event.message === awaited ? reply : undefined;
    },
  };
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

/**
 * What is streamed until the answer is complete. `activity`: a line about the agent's work; `begins`: it starts a step.
 * `silence`: nothing new; sent to keep the connection alive.
 */
export type AnswerPiece =
  | { is: 'text'; text: string }
  | { is: 'activity'; text: string; begins: boolean }
  | { is: 'silence' };

const MAX_LINE_CHARS = 160;

/** The conversation up to the reply as pieces; the texts of two calls are separated by a blank line. */
export async function* answerPieces(items: AsyncGenerator<AnswerItem, Reply>): AsyncGenerator<AnswerPiece, Reply> {
  let hasText = false;
  for (;;) {
    const { done, value: item } = await items.next();
    if (done) return item;
    if (item.kind === 'silence') yield { is: 'silence' };
    else if (item.kind === 'text') {
      yield { is: 'text', text: (item.begins && hasText ? '\n\n' : '') + item.text };
      hasText = true;
    } else {
      const text = activityOf(item);
      if (text !== undefined) yield { is: 'activity', text, begins: item.event.type === 'step.started' };
    }
  }
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
  const pieces = answerPieces(followAnswer(client, message, AbortSignal.any([signal, late])));
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

/** One line about what the agent is doing; undefined for what a client need not see. */
function activityOf(item: Exclude<AnswerItem, { kind: 'text' | 'silence' }>): string | undefined {
  const { event } = item;
  switch (item.kind) {
    case 'step':
      if (event.type === 'step.started') return `step: ${toLine(item.name)}`;
      if (event.type !== 'step.failed' && event.type !== 'step.blocked') return undefined;
      return `step ${event.type.slice('step.'.length)}: ${toLine(item.name)}: ${toLine(event.error)}`;
    case 'call':
      return event.type === 'tool.started' ? `${event.name}: ${toLine(jsonValues(event.args))}` : undefined;
    case 'notice':
      if (event.type !== 'model.failed' || event.retry_at === null) return undefined;
      return `the model failed and is asked again: ${toLine(event.error)}`;
    default:
      return undefined;
  }
}

const toLine = (text: string): string => truncate(text.replace(/\s+/g, ' ').trim(), MAX_LINE_CHARS);
