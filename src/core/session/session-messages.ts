import { mapGet, mapSet, type PersistentMap } from '../../base/persistent-collections.ts';
import type { RenderedTemplate } from '../../protocol/session/event.ts';
import type { Attachment, ImageFile, MessageOptions } from '../../protocol/session/message.ts';
import { rootOfFamily, sessionDepth } from './child-session.ts';

export type Message = {
  id: string;
  /** Name of its reply file. */
  name: string;
  at: string;
  /** Empty once it was answered and no request needs it any more. */
  text: string;
  from?: string;
  command?: string;
  options?: MessageOptions;
  attachments?: string[];
  /** What the attachments were when it was taken. */
  files?: Attachment[];
  /** Its sender gives no orders here: it is told to the model, and that is all. */
  as?: 'data';
  template?: RenderedTemplate;
  sha256: string;
  /** It came while a run was on, so it may join that run. */
  arrivedDuringRun: boolean;
  isReplied: boolean;
};

/** The conversation as the model's endpoint takes it (the OpenAI chat format). */
export type ChatMessage =
  | { role: 'system'; content: string }
  /** `images` are shown behind the text to a model that sees. */
  | { role: 'user'; content: string; images?: readonly ImageFile[] }
  | { role: 'assistant'; content: string | null; tool_calls?: ChatCall[] }
  /** `by`: the words of a person, who was asked by the call. */
  | { role: 'tool'; tool_call_id: string; content: string; by?: 'person' };

export type ChatCall = { id: string; type: 'function'; function: { name: string; arguments: string } };

/**
 * What a session still knows of a message that was answered and that no request needs any more: enough to know it
 * again.
 */
export function withoutText(message: Message): Message {
  const { id, name, at, sha256, attachments } = message;
  return {
    id,
    name,
    at,
    text: '',
    sha256,
    arrivedDuringRun: false,
    isReplied: true,
    ...(attachments && { attachments }),
  };
}

/** The texts of those that were answered already are let go. */
export function discardAnsweredTexts(messages: PersistentMap<Message>, ids: readonly string[]): PersistentMap<Message> {
  return ids.reduce((so, id) => {
    const message = mapGet(so, id);
    return message?.isReplied && message.text !== '' ? mapSet(so, id, withoutText(message)) : so;
  }, messages);
}

/**
 * Whether a message is an order: it names no sender, or one of `senders`; without that setting everybody's is. A child
 * session hears its own family, which speaks for the person.
 */
export function mayGiveOrders(
  session: string,
  from: string | undefined,
  senders: readonly string[] | undefined,
): boolean {
  if (from === undefined || senders === undefined || senders.includes(from)) return true;
  return sessionDepth(session) > 0 && rootOfFamily(from) === rootOfFamily(session);
}
