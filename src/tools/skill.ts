import { realpath } from 'node:fs/promises';
import { join, relative, resolve } from 'node:path';
import { z } from 'zod';
import type { ToolContext } from '../engine/ports.ts';
import { UserError } from '../protocol/errors.ts';
import { binaryKind, KIND_BYTES } from '../protocol/file-kind.ts';
import { frontMatter } from '../protocol/front-matter.ts';
import type { Skill } from '../protocol/notes.ts';
import { defineTool, optional, type Tool } from './define.ts';
import { bytesInWords, inWords, printable } from './file-errors.ts';
import { sizeOf, withFile } from './open-file.ts';
import { isInside, openFence } from './paths.ts';
import { walk } from './walk.ts';

const MAX_BYTES = 1024 * 1024;
const MAX_LISTED = 100;
const DEPTH = 4;

/** The skills of a workspace: where they lie, and which of them hold. */
export type Skills = { folder: string; list(): { skills: readonly Skill[] } };

const ARGS = z.strictObject({
  name: z.string().describe('The name of the skill.'),
  file: optional(z.string().describe('A file of the skill, relative to its folder; its SKILL.md if left out.')),
});

/** `skill`: what a skill says, and the other files in its folder. */
export function skillTool(skills: Skills): Tool {
  return defineTool({
    name: 'skill',
    description:
      'Opens a skill of the list in the system message: its SKILL.md and the names of its files, or, with `file`, one of those. ' +
      'The file tools may read them too.',
    args: ARGS,
    replay: 'safe',
    touches: [],
    async run({ name, file }, context) {
      const known = skills.list().skills.map((skill) => skill.name);
      if (!known.includes(name)) {
        const shown = known.slice(0, MAX_LISTED).join(', ');
        throw new UserError(`No skill \`${printable(name)}\`. There are: ${shown || 'none'}.`);
      }
      const folder = join(skills.folder, name);
      if (file !== undefined) return { ok: true, text: await textIn(folder, file) };
      const text = await textIn(folder, 'SKILL.md');
      return { ok: true, text: `${frontMatter(text)?.body ?? text}\n\n${await filesIn(folder, context)}` };
    },
  });
}

/** The text of a file that lies in the folder, links resolved. */
async function textIn(folder: string, asked: string): Promise<string> {
  const home = await realpath(folder);
  const path = asked.includes('\0') ? '' : resolve(home, asked);
  const leadsOut = new UserError(`\`${printable(asked)}\` leads out of the skill's folder. Name a file inside it.`);
  if (!isInside(home, path)) throw leadsOut;
  const real = await realpath(path).catch((error) => {
    throw inWords(error, asked);
  });
  if (!isInside(home, real)) throw leadsOut;
  return withFile({ real, shown: asked }, await openFence(home, []), async (file) => {
    const { size } = file;
    if (size > MAX_BYTES)
      throw new UserError(`\`${printable(asked)}\` has ${bytesInWords(size)}; read_file reads ${real} in pages.`);
    const bytes = await file.whole();
    const kind = binaryKind(bytes.subarray(0, KIND_BYTES));
    if (kind)
      throw new UserError(
        `\`${printable(asked)}\` is binary: ${bytesInWords(size)}, ${kind.kind}. It lies at ${real}.`,
      );
    return bytes.toString('utf8');
  });
}

async function filesIn(folder: string, { signal }: ToolContext): Promise<string> {
  const home = await realpath(folder);
  const lines: string[] = [];
  let left = 0;
  const fence = await openFence(home, []);
  for await (const { real, kind } of walk(home, fence, DEPTH)) {
    signal.throwIfAborted();
    if (kind !== 'file') continue;
    if (lines.length === MAX_LISTED) left += 1;
    else lines.push(`- ${printable(relative(home, real))}  ${sizeOf(real, fence)}`);
  }
  const more = left > 0 ? [`… and ${left} more; list_files shows them`] : [];
  return [`[Files of this skill, in ${home}:]`, ...lines, ...more].join('\n');
}
