import { entryOf, type Keyed, withValue } from './keyed.ts';
import type { Message } from './session.ts';

/** What a session still knows of a message that was answered and that no request needs any more: enough to know it again. */
export function settled(message: Message): Message {
  const { id, name, at, sha256, attachments } = message;
  return { id, name, at, text: '', sha256, during: false, replied: true, ...(attachments && { attachments }) };
}

/** The texts of those that were answered already are let go. */
export function letGo(messages: Keyed<Message>, ids: readonly string[]): Keyed<Message> {
  return ids.reduce((so, id) => {
    const message = entryOf(so, id);
    return message?.replied && message.text !== '' ? withValue(so, id, settled(message)) : so;
  }, messages);
}
