import { mapGet } from '../../base/collections.ts';
import { truncate } from '../../base/strings.ts';
import { parseCommand } from '../../core/messages/commands.ts';
import { messageKind } from '../../core/messages/message-actions.ts';
import type { MessageKind } from '../../core/messages/message-table.ts';
import type { Session } from '../../core/session/session-state.ts';
import type { Event } from '../../protocol/session/event.ts';
import type { MessageMeaning } from '../../protocol/session/meaning-events.ts';
import { messageAsTyped, replayEvents } from '../sessions/replay.ts';
import type { FormatTime } from './explain-steps.ts';

/** What one message in plain words was taken to mean, and who said so. */
export type MessageExplanation = {
  id: string;
  meaning: MessageKind | MessageMeaning;
  /** `rules`: its words are clear. The others were asked, since its words are not. */
  by: 'rules' | 'model' | 'person' | 'nobody';
  /** Number of the event that tells it: the answer of who was asked, else what was done about the message first. */
  event: number;
  /** The answer, in one sentence. */
  text: string;
};

/** Words that are work as they stand need no explanation. */
const PLAIN_KINDS: ReadonlySet<string> = new Set<MessageKind>(['task', 'run', 'data']);

/** What the plain words of each message were taken to mean, oldest first, without those that were simply work. Pure. */
export function explainMessages(name: string, events: readonly Event[], time: FormatTime): MessageExplanation[] {
  const found = new Map<string, MessageExplanation>();
  for (const { event, before, after } of replayEvents(name, events)) {
    if (event.type === 'message.received' || !('message' in event) || typeof event.message !== 'string') continue;
    const told = event.type === 'message.interpreted' || event.type === 'meaning.asked';
    if (found.has(event.message) && !told) continue;
    const read = readingOf(event.message, before, after);
    if (!read) continue;
    const by = event.type === 'meaning.asked' ? 'nobody' : event.type === 'message.interpreted' ? event.by : 'rules';
    const meaning = event.type === 'message.interpreted' ? event.meaning : by === 'nobody' ? 'unclear' : read.meaning;
    if (by === 'rules' && PLAIN_KINDS.has(meaning)) continue;
    const why = event.type === 'message.interpreted' && event.error !== undefined ? `; ${event.error}` : '';
    const text = `"${read.words}" ${describe(meaning, by)} at event ${event.seq} (${time(event.at)})${why}.`;
    found.set(event.message, { id: event.message, meaning, by, event: event.seq, text });
  }
  return [...found.values()];
}

function readingOf(id: string, before: Session, after: Session): { words: string; meaning: MessageKind } | null {
  const message = mapGet(before.messages, id) ?? mapGet(after.messages, id);
  if (!message || message.text === '' || message.template || parseCommand(message) !== null) return null;
  const kind = messageKind(before, message);
  if (!('kind' in kind)) return null;
  return { words: truncate(messageAsTyped(message).replace(/\s+/g, ' ').trim(), MAX_WORDS), meaning: kind.kind };
}

/** Code points of a message shown in a sentence. */
const MAX_WORDS = 120;

function describe(meaning: MessageExplanation['meaning'], by: MessageExplanation['by']): string {
  if (by === 'nobody') return 'was not clear, so its sender was asked what it means';
  if (meaning === 'unclear') return `was not clear, and the ${by} did not say what it means`;
  return `was taken as "${meaning}", by ${by === 'rules' ? 'the rules of words' : `what the ${by} said`},`;
}
