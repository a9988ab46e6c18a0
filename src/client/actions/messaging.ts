import * as fs from 'node:fs';
import { dirname, join } from 'node:path';
import { parseWrittenFrontMatter } from '../../base/front-matter.ts';
import { parseJson } from '../../base/json.ts';
import { isDiskFull, UserError } from '../../base/user-error.ts';
import { MessageFile, type MessageOptions } from '../../protocol/session/message.ts';
import { Reply } from '../../protocol/session/reply.ts';
import type { ApprovalDecision } from '../../protocol/settings/permissions.ts';
import { readableName } from '../../protocol/workspace/session-names.ts';
import { takeFromReserve } from '../../store/fs/durable-write.ts';
import { statIfExists } from '../../store/fs/file-reads.ts';
import { ifExists, wrapDiskErrors } from '../../store/fs/store-errors.ts';
import { MAX_MESSAGE_BYTES } from '../../store/inbox/dropped-file.ts';
import { assertAttachable, attachBytes, attachFile, dropMessage } from '../../store/inbox/sender.ts';
import { type SessionPaths, sessionPaths, workspacePaths } from '../../store/layout/layout.ts';
import type { ApprovalRequest } from '../inspect/approval-requests.ts';
import { FileTooLarge, NoSuchApproval, WaitedTooLong } from '../sessions/client-errors.ts';

/**
 * A message as a frontend has it. `files` are paths of any files; copies of them are attached. `attachments` are those
 * of earlier uploads.
 */
export type OutgoingMessage = {
  /** Chosen by a sender that may send twice: the same id with the same content is one message. */
  id?: string | undefined;
  text?: string | undefined;
  command?: string | undefined;
  options?: MessageOptions | undefined;
  from?: string | undefined;
  by?: MessageFile['by'];
  rights?: MessageFile['rights'];
  files?: string[] | undefined;
  attachments?: string[] | undefined;
};

/** A message that is durably in the inbox. Its reply will have the name `name`. */
export type SentMessage = { session: string; id: string; name: string };

/** Throws UserError if the message would be invalid, before anything is created or written. */
export function validateOutgoing({ files = [], attachments = [], ...message }: OutgoingMessage): void {
  for (const file of files) assertAttachable(file);
  const named = [...attachments, ...(files.length > 0 ? ['.files/x'] : [])];
  const checked = MessageFile.safeParse({ ...message, ...(named.length > 0 && { attachments: named }) });
  if (!checked.success) throw new UserError(`Not sent: ${checked.error.issues.map((one) => one.message).join('; ')}.`);
  if (Buffer.byteLength(message.text ?? '') > MAX_MESSAGE_BYTES / 2) {
    throw new UserError('Not sent: a message holds at most 5 MiB of text. Send the text as an attachment (files).');
  }
}

/**
 * The message that answers a waiting call. Throws `NoSuchApproval` if another call is waiting than the one whose hash
 * the answer has: the decision was about something else.
 */
export function approvalMessage(asked: ApprovalRequest, hash: string, decision: ApprovalDecision): OutgoingMessage {
  const { id, session } = asked;
  if (asked.hash !== hash)
    throw new NoSuchApproval(
      `Call ${id} of ${readableName(session)} is a different one now: the answer has the hash ${hash}.`,
    );
  const command = decision === 'deny' ? `deny ${id}` : `approve ${id}`;
  return { command: decision === 'always' ? `${command} always` : command };
}

/** Attachments first, then the message that names them. A failed drop leaves no attachment behind. */
export async function dropIntoInbox(
  folder: string,
  id: string,
  { files = [], attachments: uploaded = [], ...message }: OutgoingMessage,
): Promise<string> {
  const copies: string[] = [];
  try {
    for (const file of files) copies.push(await attachFile(folder, file));
    const attachments = [...uploaded, ...copies];
    const content = formatMessageFile({ ...message, id, ...(attachments.length > 0 && { attachments }) });
    return await dropFormatted(folder, id, content, uploaded);
  } catch (error) {
    for (const path of copies) fs.rmSync(join(sessionPaths(folder).inbox, path), { force: true });
    throw error;
  }
}

/** Drops the content of a message file. `uploaded` are those of its attachments that must be in the inbox already. */
export async function dropFormatted(
  folder: string,
  id: string,
  content: string,
  uploaded: readonly string[] = [],
): Promise<string> {
  for (const path of uploaded) assertUploaded(folder, path);
  const name = messageFileName(id);
  await dropOnFullDisk(folder, { name, content });
  return name;
}

function assertUploaded(folder: string, path: string): void {
  if (statIfExists(join(sessionPaths(folder).inbox, path))?.isFile()) return;
  throw new UserError(
    `Not sent: ${JSON.stringify(path)} is not an upload that waits for its message. Upload the file first.`,
  );
}

/** As much as one upload may hold. */
const MAX_UPLOAD_BYTES = 100 * 1024 * 1024;

/** A file in the inbox that a message can refer to. `attachment` is its entry in `attachments`. */
export type UploadedFile = { session: string; attachment: string; bytes: number };

/** Puts bytes into the inbox as a file, durably. Throws `FileTooLarge`; then nothing stays behind. */
export async function receiveUpload(
  { folder }: SessionPaths,
  name: string,
  pieces: AsyncIterable<Uint8Array>,
): Promise<Omit<UploadedFile, 'session'>> {
  let bytes = 0;
  async function* counted() {
    for await (const piece of pieces) {
      bytes += piece.length;
      if (bytes > MAX_UPLOAD_BYTES) throw new FileTooLarge(MAX_UPLOAD_BYTES);
      yield piece;
    }
  }
  return { attachment: await attachBytes(folder, name, counted()), bytes };
}

/**
 * Withdraws a message that has not been taken yet, with its attachments; false if there is none of that name any more.
 * A running daemon may have read it already, and then carries it out.
 */
export function withdrawFromInbox(folder: string, name: string): boolean {
  const { inbox } = sessionPaths(folder);
  const text = ifExists(() => fs.readFileSync(join(inbox, name), 'utf8'));
  if (text === undefined) return false;
  fs.rmSync(join(inbox, name), { force: true });
  const message = MessageFile.safeParse(parseJson(text));
  for (const path of message.data?.attachments ?? []) fs.rmSync(join(inbox, path), { force: true });
  return true;
}

/** A short message to a daemon on a full disk, such as a cancel, may use the disk reserve. */
async function dropOnFullDisk(folder: string, message: { name: string; content: string }): Promise<void> {
  for (;;) {
    try {
      return await dropMessage(folder, message);
    } catch (error) {
      const { reserve } = workspacePaths(dirname(dirname(folder)));
      const isSmall = message.content.length <= MAX_RESERVED_CHARS;
      if (!isDiskFull(error) || !isSmall || !takeFromReserve(reserve, message.content.length)) throw error;
    }
  }
}
/** Longest message that may use the reserve: a command, not a task. */
const MAX_RESERVED_CHARS = 2000;

/** The inbox file name of a message with this id. */
export const messageFileName = (id: string): string => `${id}.msg.json`;
/** The content of a message file. Throws zod's error if the message is invalid. */
export const formatMessageFile = (message: object): string =>
  `${JSON.stringify(MessageFile.parse(message), null, 2)}\n`;

/** Milliseconds; without `timeoutMs` there is no limit. */
export type WaitOptions = { timeoutMs?: number | undefined; signal?: AbortSignal | undefined };

/** The reply of that name, in `outbox/` or, if a frontend consumed it, in `outbox/read/`. Replies appear atomically. */
function readReply(paths: SessionPaths, name: string): Reply | undefined {
  for (const folder of [paths.outbox, paths.outboxRead]) {
    const path = join(folder, name);
    const text = wrapDiskErrors('read', path, () => ifExists(() => fs.readFileSync(path, 'utf8')));
    if (text === undefined) continue;
    const reply = Reply.safeParse(/\.json$/i.test(name) ? parseJson(text) : parseWrittenFrontMatter(text));
    if (reply.success) return reply.data;
    throw new UserError(`${path} is not a reply written by agentd: ${reply.error.issues[0]?.message}. Was it edited?`);
  }
  return undefined;
}

/** Waits for a reply. Throws `WaitedTooLong` after `timeoutMs`, the signal's reason if that aborts. */
export async function waitForReply(
  paths: SessionPaths,
  name: string,
  { timeoutMs, signal }: WaitOptions,
): Promise<Reply> {
  const { watchFolders } = await import('../sessions/follow-log.ts');
  const changes = watchFolders([paths.outbox]);
  const deadline = performance.now() + (timeoutMs ?? Number.POSITIVE_INFINITY);
  try {
    for (;;) {
      const reply = readReply(paths, name);
      if (reply) return reply;
      signal?.throwIfAborted();
      const left = deadline - performance.now();
      if (left <= 0) throw new WaitedTooLong(`No reply within ${(timeoutMs ?? 0) / 1000} s. ${REPLY_COMES_LATER}`);
      await changes.next(left < 5000 ? anySignal(signal, AbortSignal.timeout(Math.ceil(left))) : signal);
    }
  } finally {
    changes.close();
  }
}

const REPLY_COMES_LATER = 'The message is not lost; its reply will appear in outbox/.';

const anySignal = (...signals: Array<AbortSignal | undefined>) =>
  AbortSignal.any(signals.filter((one) => one !== undefined));
