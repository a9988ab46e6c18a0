import type { ChatMessage } from '../chat.ts';
import { spokenText } from '../commands.ts';
import type { Message } from '../session.ts';

/** A person's message as the model reads it: as typed, with its sender before it and its files behind it where there are any. */
export function spoken(message: Message): string {
  const sender = message.from === undefined ? '' : `[from ${message.from}]\n`;
  const files = (message.attachments ?? []).map((path) => `\n[attached: ${path}]`).join('');
  return `${sender}${templateLine(message)}${spokenText(message)}${files}`;
}

/** Told before the text of a template: nobody needs to declare its steps again. */
function templateLine({ template }: Message): string {
  return template && 'name' in template ? `[template ${template.name}: its steps are in the plan]\n` : '';
}

/** What the daemon says to the model, in its tag, so that nobody takes it for a person's words. */
export function inBlock(text: string): ChatMessage & { role: 'user' } {
  return { role: 'user', content: `<daemon>\n${text}\n</daemon>` };
}
