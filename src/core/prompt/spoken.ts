import { type ImageFile, MAX_IMAGE_BYTES } from '../../protocol/images.ts';
import type { ChatMessage } from '../chat.ts';
import { spokenText } from '../commands.ts';
import type { Message } from '../session.ts';

/** A person's message as the model reads it: as typed, with its sender before it and its files behind it where there are any. */
export function spoken(message: Message): string {
  const sender = message.from === undefined ? '' : `[from ${message.from}]\n`;
  const files = (message.attachments ?? []).map((path) => `\n[attached: ${path}${factsOf(message, path)}]`).join('');
  return `${sender}${templateLine(message)}${spokenText(message)}${files}`;
}

/** A person's message in the conversation, with the images among its files. */
export function spokenTurn(message: Message): ChatMessage & { role: 'user' } {
  const images = imagesOf(message);
  return { role: 'user', content: spoken(message), ...(images.length > 0 && { images }) };
}

/** The images among the files of a message that a model can be shown. */
export function imagesOf({ files = [] }: Message): ImageFile[] {
  return files.flatMap(({ path, bytes, image }) => (image ? [{ path, bytes, ...image }] : []));
}

function factsOf({ files = [] }: Message, path: string): string {
  const file = files.find((one) => one.path === path);
  if (!file) return '';
  const large = / image$/.test(file.kind) && file.bytes > MAX_IMAGE_BYTES ? ', too large to be shown' : '';
  return `, ${file.kind}, ${file.bytes} bytes${large}`;
}

/** Told before the text of a template: nobody needs to declare its steps again. */
function templateLine({ template }: Message): string {
  return template && 'name' in template ? `[template ${template.name}: its steps are in the plan]\n` : '';
}

/** What the daemon says to the model, in its tag, so that nobody takes it for a person's words. */
export function inBlock(text: string): ChatMessage & { role: 'user' } {
  return { role: 'user', content: `<daemon>\n${text}\n</daemon>` };
}
