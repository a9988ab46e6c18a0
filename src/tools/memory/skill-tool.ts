import { realpath } from 'node:fs/promises';
import { join, relative, resolve } from 'node:path';
import { z } from 'zod';
import { detectFileKind, SNIFF_BYTES } from '../../base/file-kind.ts';
import { parseFrontMatter } from '../../base/front-matter.ts';
import { UserError } from '../../base/user-error.ts';
import type { ToolContext } from '../../engine/ports/tool-ports.ts';
import type { Skill } from '../../protocol/workspace/memory-notes.ts';
import { defineTool, optional, type Tool } from '../common/define-tool.ts';
import { isInside } from '../common/path-lookup.ts';
import { escapeControlChars, formatBytes } from '../common/tool-text.ts';
import { walkFolder } from '../files/list-files.ts';
import { formatFileSize, withOpenFile } from '../files/safe-open.ts';
import { openWorkPaths, toFileError } from '../files/work-paths.ts';

const MAX_BYTES = 1024 * 1024;
const MAX_LISTED = 100;
const MAX_DEPTH = 4;

/** The skills of a workspace: their folder, and the valid ones. */
export type SkillSource = { folder: string; list(): { skills: readonly Skill[] } };

const ARGS = z.strictObject({
  name: z.string().describe('The name of the skill.'),
  file: optional(z.string().describe('A file of the skill, relative to its folder; its SKILL.md if left out.')),
});

/** `skill`: the text of a skill, and the other files in its folder. */
export function skillTool(skills: SkillSource): Tool {
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
        throw new UserError(`No skill \`${escapeControlChars(name)}\`. There are: ${shown || 'none'}.`);
      }
      const folder = join(skills.folder, name);
      if (file !== undefined) return { ok: true, text: await readSkillFile(folder, file) };
      const text = await readSkillFile(folder, 'SKILL.md');
      return { ok: true, text: `${parseFrontMatter(text)?.body ?? text}\n\n${await listSkillFiles(folder, context)}` };
    },
  });
}

/** The text of a file in the folder, links resolved. */
async function readSkillFile(folder: string, asked: string): Promise<string> {
  const home = await realpath(folder);
  const path = asked.includes('\0') ? '' : resolve(home, asked);
  const leadsOut = new UserError(
    `\`${escapeControlChars(asked)}\` leads out of the skill's folder. Name a file inside it.`,
  );
  if (!isInside(home, path)) throw leadsOut;
  const real = await realpath(path).catch((error) => {
    throw toFileError(error, asked);
  });
  if (!isInside(home, real)) throw leadsOut;
  return withOpenFile({ real, displayName: asked }, await openWorkPaths(home, []), async (file) => {
    const { size } = file;
    if (size > MAX_BYTES)
      throw new UserError(
        `\`${escapeControlChars(asked)}\` has ${formatBytes(size)}; read_file reads ${real} in pages.`,
      );
    const bytes = await file.whole();
    const kind = detectFileKind(bytes.subarray(0, SNIFF_BYTES));
    if (kind)
      throw new UserError(
        `\`${escapeControlChars(asked)}\` is binary: ${formatBytes(size)}, ${kind.kind}. It lies at ${real}.`,
      );
    return bytes.toString('utf8');
  });
}

async function listSkillFiles(folder: string, { signal }: ToolContext): Promise<string> {
  const home = await realpath(folder);
  const lines: string[] = [];
  let left = 0;
  const paths = await openWorkPaths(home, []);
  for await (const { real, kind } of walkFolder(home, paths, MAX_DEPTH)) {
    signal.throwIfAborted();
    if (kind !== 'file') continue;
    if (lines.length === MAX_LISTED) left += 1;
    else lines.push(`- ${escapeControlChars(relative(home, real))}  ${formatFileSize(real, paths)}`);
  }
  const more = left > 0 ? [`… and ${left} more; list_files shows them`] : [];
  return [`[Files of this skill, in ${home}:]`, ...lines, ...more].join('\n');
}
