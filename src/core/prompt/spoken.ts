import { spokenText } from '../commands.ts';
import type { Message } from '../session.ts';

/** A person's message as the model reads it: as typed, with its sender before it and its files behind it where there are any. */
export function spoken(message: Message): string {
  const sender = message.from === undefined ? '' : `[from ${message.from}]\n`;
  const files = (message.attachments ?? []).map((path) => `\n[attached: ${path}]`).join('');
  return `${sender}${spokenText(message)}${files}`;
}
