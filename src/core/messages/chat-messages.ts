import { type ImageFile, MAX_IMAGE_BYTES } from '../../protocol/session/message.ts';
import { daemonBlock, daemonNote, dataBlock, escapeUserText } from '../../protocol/session/prompt-tags.ts';
import type { ChatMessage, Message } from '../session/session-messages.ts';
import { textWithoutCommand } from './commands.ts';

/**
 * A message as the model reads it: what a person said as typed, what a sender who gives no orders said as data. What
 * the daemon knows of it stands in a line before it, which no text can forge; the images among its files go along.
 */
export function toUserMessage(message: Message, nonce: string): ChatMessage & { role: 'user' } {
  const { from, as, attachments = [] } = message;
  const files = attachments.map((path) => `${quoteAmbiguousName(path)}${fileFacts(message, path)}`);
  const facts = [
    ...templateFact(message),
    ...(from === undefined
      ? []
      : [`from ${quoteAmbiguousName(from)}${as === 'data' ? ', who gives no orders here' : ''}`]),
    ...(files.length > 0 ? [`attached: ${files.join(', ')}`] : []),
  ];
  const note = facts.length > 0 ? daemonNote(nonce, facts.join('; ')) : '';
  const text = textWithoutCommand(message);
  const images = imagesOfMessage(message);
  return {
    role: 'user',
    content: note + (as === 'data' ? dataBlock(nonce, text) : escapeUserText(nonce, text)),
    ...(images.length > 0 && { images }),
  };
}

/** A name that could be read as more than one is quoted. */
const quoteAmbiguousName = (name: string): string =>
  /["';,()]|\p{Cc}|^\s|\s$/u.test(name) ? JSON.stringify(name) : name;

/** The images among the files of a message that a model can be shown. */
export function imagesOfMessage({ files = [] }: Message): ImageFile[] {
  return files.flatMap(({ path, bytes, image }) => (image ? [{ path, bytes, ...image }] : []));
}

function fileFacts({ files = [] }: Message, path: string): string {
  const file = files.find((one) => one.path === path);
  if (!file) return '';
  const large = / image$/.test(file.kind) && file.bytes > MAX_IMAGE_BYTES ? ', too large to be shown' : '';
  return ` (${file.kind}, ${file.bytes} bytes${large})`;
}

/** Told before the text of a template: nobody needs to declare its steps again. */
function templateFact({ template }: Message): string[] {
  return template && 'name' in template ? [`template ${template.name}: its steps are in the plan`] : [];
}

/** What the daemon says to the model, in its tag, so that nobody takes it for a person's words. */
export function toDaemonMessage(text: string, nonce: string): ChatMessage & { role: 'user' } {
  return { role: 'user', content: daemonBlock(nonce, text) };
}
