import { mapGet, mapSet, type PersistentMap } from '../../base/collections.ts';
import type { ToolCall } from '../../protocol/session/event.ts';
import type { FileIdentity } from '../../protocol/session/log-entry.ts';
import type { MessageMeaning } from '../../protocol/session/meaning-events.ts';
import type {
  Attachment,
  ImageFile,
  MessageOptions,
  PlannedMessage,
  RenderedTemplate,
  SenderRights,
} from '../../protocol/session/message.ts';
import type { Limits } from '../../protocol/settings/run-options.ts';

export type Message = {
  id: string;
  /** Name of its reply file. */
  name: string;
  at: string;
  /** Empty once it has been answered and no request needs it any more. */
  text: string;
  from?: string;
  /** A model of another program wrote it. */
  by?: 'agent';
  /** What its sender may do; without it, everything. */
  rights?: SenderRights;
  command?: string;
  options?: MessageOptions;
  attachments?: string[];
  /** The attachments as they were when the message was taken. */
  files?: Attachment[];
  /** Its sender may not give orders here: the model receives it as data, nothing more. */
  as?: 'data';
  template?: RenderedTemplate;
  /** The schedule that was made of it. */
  planned?: PlannedMessage;
  sha256: string;
  /** What the model or a person said that it means; undefined: its words say it. */
  meaning?: MessageMeaning;
  /** It arrived during a run, so it may join that run. */
  arrivedDuringRun: boolean;
  isReplied: boolean;
};

/** The limits that a message names, or the template it runs. */
export function limitsOfMessage(message: Message | undefined): Limits {
  const template = message?.template && 'text' in message.template ? message.template.limits : undefined;
  return { ...template, ...message?.options?.limits };
}

/** What the model is to know of a message. `template`: the name of the one it runs. */
export type SaidMessage = Pick<Message, 'from' | 'as' | 'attachments' | 'files'> & { text: string; template?: string };

/**
 * What was said, as facts; `core/prompt/chat-messages.ts` writes it for the model, one chat message each. `nonce`: the
 * prompt nonce of the time.
 */
export type HistoryItem =
  | { type: 'message'; nonce: string; message: SaidMessage }
  | { type: 'answer'; text: string; calls: ToolCall[]; provider_fields?: ProviderFields }
  /** The end of a call. `began`: it was started. `isAnswer`: a person's answer to the question it asked. */
  | { type: 'result'; nonce: string; call: string; tool: string; began: boolean; isAnswer: boolean; end: CallEnd }
  /** A result cannot carry images: they follow the last one of an answer. */
  | { type: 'images'; nonce: string; images: readonly ImageFile[] }
  /** What stands for older turns that were compacted. */
  | { type: 'summary'; nonce: string; text: string }
  /** As a snapshot of an earlier version has it. */
  | ChatMessage;

/** How a call ended; `why`: it was interrupted, or never ran. */
export type CallEnd = { output?: string } | { output?: string; why: string; outcome: 'not_started' | 'unknown' };

/** A message in the format of the model's endpoint (OpenAI chat). */
export type ChatMessage =
  | { role: 'system'; content: string }
  /** `images` follow the text, for models with vision. */
  | { role: 'user'; content: string; images?: readonly ImageFile[] }
  | { role: 'assistant'; content: string | null; tool_calls?: ChatCall[]; provider_fields?: ProviderFields }
  /** `by`: the words are a person's, who answered the call's question. */
  | { role: 'tool'; tool_call_id: string; content: string; by?: 'person' };

export type ChatCall = {
  id: string;
  type: 'function';
  function: { name: string; arguments: string };
  /** The tool through which the model called it. */
  via?: string;
  provider_fields?: ProviderFields;
};

/** What the endpoint sent with an answer or a call and wants back with it. */
type ProviderFields = Readonly<Record<string, unknown>>;

/** What a session keeps of an answered message that no request needs any more: enough to recognise it. */
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

/** Drops the texts of messages that have been answered. */
export function discardAnsweredTexts(messages: PersistentMap<Message>, ids: readonly string[]): PersistentMap<Message> {
  return ids.reduce((so, id) => {
    const message = mapGet(so, id);
    return message?.isReplied && message.text !== '' ? mapSet(so, id, withoutText(message)) : so;
  }, messages);
}

/** A dropped file in the event log: its event, its message, and its identity at the time, as far as the log has it. */
export type TakenDrop = { seq: number; message: string; ctime: string; name?: string };

/**
 * The identity of a dropped file: its inode, its content, and the time the content last changed. Moving a file keeps
 * all three.
 */
export function dropKey(file: { ino: string; mtime_ns: string; sha256: string }): string {
  return `${file.ino}:${file.mtime_ns}:${file.sha256}`;
}

export function toTakenDrop(seq: number, message: string, { ctime_ns, name }: FileIdentity): TakenDrop {
  return { seq, message, ctime: ctime_ns, ...(name !== undefined && { name }) };
}

/**
 * A file in the inbox with the key of a drop that was already taken. `born` is in ns, if the file system reports it.
 */
type FoundDrop = { name: string; identity: FileIdentity; born?: bigint | undefined };

/**
 * Classifies such a file. `left over`: it has not been moved out of the inbox yet. `new`: another file, or one that
 * somebody put back on purpose. `unclear`: nothing shows whether it ever left the inbox, so it must be neither dropped
 * silently nor processed twice.
 */
export function classifyReappearedDrop(
  taken: TakenDrop,
  found: FoundDrop,
  message: { name: string; isAnswered: boolean } | undefined,
): 'left over' | 'new' | 'unclear' {
  const isSameName = found.name === (taken.name ?? message?.name ?? taken.message);
  // Every move of a file changes this time, if the file system keeps it at all.
  if (isSameName && taken.ctime === found.identity.ctime_ns) return 'left over';
  if (found.born !== undefined && found.born > BigInt(taken.ctime)) return 'new';
  // A rejected file may be checked again: nothing was done, and what was missing may be there now.
  if (!message || (message.isAnswered && !isSameName)) return 'new';
  return 'unclear';
}
