import * as fs from 'node:fs';
import { join } from 'node:path';
import { UserError } from '../protocol/errors.ts';
import { MessageFile, type MessageOptions } from '../protocol/message.ts';
import { attachFile, checkAttachable } from '../store/attach.ts';
import { dropMessage } from '../store/drop-message.ts';
import { sessionPaths } from '../store/layout.ts';
import { MAX_MESSAGE_BYTES } from '../store/message-file.ts';

/** A message as a frontend has it. `files` are paths of files anywhere; copies of them go along. */
export type Outgoing = {
  text?: string | undefined;
  command?: string | undefined;
  options?: MessageOptions | undefined;
  from?: string | undefined;
  files?: string[] | undefined;
};

/** A message that is in the inbox, durably. Its reply will have the name `name`. */
export type Sent = { session: string; id: string; name: string };

/** Throws UserError where the message could not be read, before anything is made or written. */
export function checkOutgoing({ files = [], ...message }: Outgoing): void {
  for (const file of files) checkAttachable(file);
  const checked = MessageFile.safeParse({ ...message, ...(files.length > 0 && { attachments: ['.files/x'] }) });
  if (!checked.success) throw new UserError(`Not sent: ${checked.error.issues.map((one) => one.message).join('; ')}.`);
  if (Buffer.byteLength(message.text ?? '') > MAX_MESSAGE_BYTES / 2) {
    throw new UserError('Not sent: a message holds at most 5 MiB of text. Send the text as an attachment (files).');
  }
}

/** Attachments first, then the message that names them. A drop that fails leaves no attachment behind. */
export async function putIntoInbox(folder: string, id: string, { files = [], ...message }: Outgoing): Promise<string> {
  const attachments: string[] = [];
  const name = `${id}.msg.json`;
  try {
    for (const file of files) attachments.push(await attachFile(folder, file));
    const content: MessageFile = MessageFile.parse({
      id,
      ...message,
      ...(attachments.length > 0 && { attachments }),
    });
    await dropMessage(folder, { name, content: `${JSON.stringify(content, null, 2)}\n` });
    return name;
  } catch (error) {
    for (const path of attachments) fs.rmSync(join(sessionPaths(folder).inbox, path), { force: true });
    throw error;
  }
}
