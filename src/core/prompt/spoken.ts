import { type ImageFile, MAX_IMAGE_BYTES } from '../../protocol/images.ts';
import { daemonBlock, daemonNote, dataBlock, personsWords } from '../../protocol/provenance.ts';
import type { ChatMessage } from '../chat.ts';
import { spokenText } from '../commands.ts';
import type { Message } from '../session.ts';

/**
 * A message as the model reads it: what a person said as typed, what a sender who gives no orders said as data. What the daemon knows
 * of it stands in a line before it, which no text can forge; the images among its files go along.
 */
export function spoken(message: Message, seal: string): ChatMessage & { role: 'user' } {
  const { from, as, attachments = [] } = message;
  const files = attachments.map((path) => `${plain(path)}${factsOf(message, path)}`);
  const facts = [
    ...templateFact(message),
    ...(from === undefined ? [] : [`from ${plain(from)}${as === 'data' ? ', who gives no orders here' : ''}`]),
    ...(files.length > 0 ? [`attached: ${files.join(', ')}`] : []),
  ];
  const note = facts.length > 0 ? daemonNote(seal, facts.join('; ')) : '';
  const text = spokenText(message);
  const images = imagesOf(message);
  return {
    role: 'user',
    content: note + (as === 'data' ? dataBlock(seal, text) : personsWords(seal, text)),
    ...(images.length > 0 && { images }),
  };
}

/** A name that could be read as more than one is quoted. */
const plain = (name: string): string => (/["';,()]|\p{Cc}|^\s|\s$/u.test(name) ? JSON.stringify(name) : name);

/** The images among the files of a message that a model can be shown. */
export function imagesOf({ files = [] }: Message): ImageFile[] {
  return files.flatMap(({ path, bytes, image }) => (image ? [{ path, bytes, ...image }] : []));
}

function factsOf({ files = [] }: Message, path: string): string {
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
export function inBlock(text: string, seal: string): ChatMessage & { role: 'user' } {
  return { role: 'user', content: daemonBlock(seal, text) };
}
