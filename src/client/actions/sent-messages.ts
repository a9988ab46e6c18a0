import * as fs from 'node:fs';
import { join } from 'node:path';
import { mapEntries, mapGet } from '../../base/collections.ts';
import { sha256 } from '../../base/sha256.ts';
import { ifExists } from '../../store/fs/store-errors.ts';
import type { SessionPaths } from '../../store/layout/layout.ts';
import { MessageConflict } from '../sessions/client-errors.ts';
import { type NamedSession, readSession, readUnlessMentioned } from '../sessions/session-folders.ts';
import { dropFormatted, formatMessageFile, messageFileName, type OutgoingMessage } from './messaging.ts';

/**
 * Drops a message under the id its sender chose, unless it was sent before: then nothing is left to do. Returns the
 * name of its reply. Throws `MessageConflict` if the id belongs to another message. For messages without `files`.
 */
export async function dropOnce(
  paths: NamedSession,
  { files: _, id = '', attachments = [], ...message }: OutgoingMessage,
): Promise<string> {
  const content = formatMessageFile({ ...message, id, ...(attachments.length > 0 && { attachments }) });
  const earlier = await findSent(paths, id, content);
  if (earlier !== undefined) return earlier;
  try {
    return await dropFormatted(paths.folder, id, content, attachments);
  } catch (error) {
    // Somebody may have sent the same message at this very moment.
    const same = await findSent(paths, id, content);
    if (same === undefined) throw error;
    return same;
  }
}

/**
 * The name of the reply to a message that was sent before. The inbox is read first: what leaves it is in the event log.
 */
async function findSent(paths: NamedSession, id: string, content: string): Promise<string | undefined> {
  const name = messageFileName(id);
  const waiting = ifExists(() => fs.readFileSync(join(paths.inbox, name), 'utf8'));
  // A new id is what most senders have: to see that it is new, the events since the last look need not be understood.
  const before = waiting === undefined ? readUnlessMentioned(paths, id) : undefined;
  if (before && !mapGet(before.messages, id) && !mapGet(before.replyNames, name)) return undefined;
  const { messages, replyNames } = await readSession(paths);
  const known = mapGet(messages, id);
  const isOther = known ? known.sha256 !== sha256(content) : waiting !== undefined && waiting !== content;
  if (isOther)
    throw new MessageConflict(`The id ${JSON.stringify(id)} was already used for another message. Use a new id.`);
  if (!known && waiting === undefined && mapGet(replyNames, name))
    throw new MessageConflict(`There is already a reply named ${name}. Use another id.`);
  return known?.name ?? (waiting === undefined ? undefined : name);
}

/**
 * A message and its progress: it waits in the inbox, the daemon has taken it, its reply is in `outbox/`, or a frontend
 * has read that. `at`: when it was taken, ISO 8601; `readAt`: when its reply was read, ms since 1970; 0 if unknown.
 */
export type MessageProgress =
  | { id: string; name: string; at: string; state: 'waiting' | 'taken' | 'replied' }
  | { id: string; name: string; at: string; state: 'read'; readAt: number };

/** Messages whose id has this prefix, in the order in which they were taken; waiting ones come last. */
export async function listSentMessages(paths: NamedSession, prefix: string): Promise<MessageProgress[]> {
  // The inbox is read first: what leaves it is in the event log.
  const inbox = ifExists(() => fs.readdirSync(paths.inbox)) ?? [];
  const { messages } = await readSession(paths);
  const taken = mapEntries(messages)
    .filter(([id]) => id.startsWith(prefix))
    .map(([, { id, name, at, isReplied }]): MessageProgress => {
      if (!isReplied) return { id, name, at, state: 'taken' };
      if (fs.existsSync(join(paths.outbox, name))) return { id, name, at, state: 'replied' };
      const read = fs.statSync(join(paths.outboxRead, name), { throwIfNoEntry: false });
      return { id, name, at, state: 'read', readAt: read?.ctimeMs ?? 0 };
    })
    .sort((one, other) => (one.at < other.at ? -1 : one.at > other.at ? 1 : 0));
  const known = new Set(taken.map(({ name }) => name));
  const ending = messageFileName('');
  const waiting = inbox
    .filter((name) => name.startsWith(prefix) && name.endsWith(ending) && !known.has(name))
    .map((name) => ({ id: name.slice(0, -ending.length), name, at: '', state: 'waiting' as const }));
  return [...taken, ...waiting];
}

/**
 * Moves a reply to `outbox/read/`, as a frontend does once it has consumed it. A reply that is not in `outbox/` is left
 * alone.
 */
export function markReplyRead(paths: SessionPaths, name: string): void {
  ifExists(() => fs.renameSync(join(paths.outbox, name), join(paths.outboxRead, name)));
}
