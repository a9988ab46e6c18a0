import { z } from 'zod';
import { defineTool, type Tool } from './define.ts';
import { bytesInWords } from './file-errors.ts';
import { openFence } from './paths.ts';
import { changed } from './permit/shown.ts';
import { replaceFile } from './replace-file.ts';

const ARGS = z.strictObject({
  path: z.string().min(1).describe('The file, relative to the work folder.'),
  content: z.string().describe('All of its text.'),
});

/** `write_file`: puts a whole file in place. */
export function writeFileTool(readAlso: string[]): Tool {
  return defineTool({
    name: 'write_file',
    description:
      'Writes a file whole, making its folders. Replaces a file that is there; to change a part use edit_file.',
    args: ARGS,
    replay: 'safe',
    touches: ['work'],
    subject: ({ path }) => path,
    kind: 'path',
    access: 'write',
    shows: ({ path, content }) => `${path}\n${changed('', content)}`,
    async run({ path, content }, context) {
      const fence = await openFence(context.work, readAlso);
      const place = await fence.toWrite(path);
      const did = await replaceFile(place, content, fence);
      return { ok: true, text: `${did} \`${place.shown}\`, ${bytesInWords(Buffer.byteLength(content))}` };
    },
  });
}
