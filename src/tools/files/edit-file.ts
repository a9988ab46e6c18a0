import { z } from 'zod';
import { sha256 } from '../../base/sha256.ts';
import { diffLines, formatBytes, similarityTo, truncate } from '../../base/strings.ts';
import { attempt, UserError } from '../../base/user-error.ts';
import { defineTool, optional, type Tool } from '../common/define-tool.ts';
import { withOpenFile } from './safe-open.ts';
import { openWorkPaths } from './work-paths.ts';
import { writeWorkFile } from './write-file.ts';

const MAX_BYTES = 8 * 1024 * 1024;
const MAX_SHOWN_LINES = 12;
const MAX_LINE = 300;
/** Lines shown before the first that differs, if it is far down. */
const SHOWN_BEFORE = 3;
/** The most lines compared to find the nearest match; more would block the daemon. */
const MAX_COMPARED = 20_000;

const ARGS = z.strictObject({
  path: z.string().min(1),
  old: z.string().min(1),
  new: z.string(),
  all: optional(z.boolean()),
});

/** `edit_file`: replaces an exact piece of a file's text. */
export function editFileTool(readAlso: string[]): Tool {
  return defineTool({
    name: 'edit_file',
    description: 'Replaces `old` in a text file by `new`. `old` must be there exactly, and once unless `all` is true.',
    args: ARGS,
    replay: 'never',
    touches: ['work'],
    subject: ({ path }) => path,
    kind: 'path',
    access: 'write',
    display: (args) => `${args.path}${args.all ? ' (everywhere)' : ''}\n${diffLines(args.old, args.new)}`,
    async run({ path, old, new: replacement, all = false }, context) {
      const paths = await openWorkPaths(context.work, readAlso);
      const resolved = await paths.resolveForWrite(path);
      const text = await withOpenFile(resolved, paths, async (file) => {
        if (file.size > MAX_BYTES) throw new UserError(fileTooLong(resolved.displayName, file.size));
        return decodeUtf8(await file.whole());
      });
      if (text === undefined) throw new UserError(`\`${resolved.displayName}\` is not UTF-8 text; edit it with shell.`);
      if (old === replacement) throw new UserError('`old` and `new` are the same text; nothing to do.');
      const lines = findOccurrences(old, text);
      if (lines.length === 0) {
        // The call was permitted to change the file; what is in it is shown only where it may be read as well.
        const permit = context.permits?.(JSON.stringify({ path }), 'read_file') ?? { is: 'allow' };
        throw new UserError(notFound(resolved.displayName, old, text, permit.is === 'allow'));
      }
      if (lines.length > 1 && !all) throw new UserError(ambiguous(resolved.displayName, lines));
      if (wouldMixLineEnds(old, replacement, text)) throw new UserError(wrongLineEnds('new', resolved.displayName));
      const changed = text.split(old).join(replacement);
      await writeWorkFile(resolved, changed, paths);
      const did = `replaced ${describeLines(lines)} of \`${resolved.displayName}\``;
      return { ok: true, text: did, sha256: sha256(changed) };
    },
  });
}

function fileTooLong(shown: string, size: number): string {
  return `\`${shown}\` has ${formatBytes(size)}, more than the ${MAX_BYTES} that can be edited; use shell, with sed for instance.`;
}

/** The line of each occurrence of the text, in order. */
function findOccurrences(old: string, text: string): number[] {
  const lines: number[] = [];
  let line = 1;
  let from = 0;
  for (let at = text.indexOf(old); at >= 0; at = text.indexOf(old, at + old.length)) {
    for (let next = text.indexOf('\n', from); next >= 0 && next < at; next = text.indexOf('\n', from)) {
      line++;
      from = next + 1;
    }
    lines.push(line);
  }
  return lines;
}

function describeLines(lines: number[]): string {
  const named = lines.slice(0, MAX_SHOWN_LINES).join(', ') + (lines.length > MAX_SHOWN_LINES ? ', …' : '');
  return lines.length === 1 ? `line ${named}` : `${lines.length} places (lines ${named})`;
}

function ambiguous(shown: string, lines: number[]): string {
  return `\`old\` is in \`${shown}\` at ${describeLines(lines)}. Give more of the text around the one you mean, or all: true.`;
}

function notFound(shown: string, old: string, text: string, mayRead: boolean): string {
  if (text.includes('\r\n') && text.replaceAll('\r\n', '\n').includes(old)) return wrongLineEnds('old', shown);
  const nearest = mayRead
    ? nearestLines(old, text) || 'Read the file again.'
    : 'Its lines are not shown: a rule of the settings forbids reading it.';
  return `\`old\` is not in \`${shown}\`. ${nearest}`;
}

function wrongLineEnds(what: 'old' | 'new', shown: string): string {
  return what === 'old'
    ? `\`old\` is not in \`${shown}\` as written: its lines end in \\r\\n. Write the line ends so.`
    : `The lines of \`${shown}\` end in \\r\\n, those of \`new\` in \\n. Write the line ends so; nothing was replaced.`;
}

/** Whether an edit would put \n into a file whose lines all end in \r\n, with no sign that this is intended. */
function wouldMixLineEnds(old: string, replacement: string, text: string): boolean {
  const bare = /(?<!\r)\n/;
  return !old.includes('\n') && bare.test(replacement) && text.includes('\r\n') && !bare.test(text);
}

/**
 * The part of the file whose first line is most similar to that of `old`, as many lines as `old` has, with line
 * numbers, and where it begins to differ from `old`. Empty if there is none.
 */
function nearestLines(old: string, text: string): string {
  const wanted = old.split('\n');
  const lead = wanted.findIndex((line) => line.trim() !== '');
  const lines = text.split('\n');
  const like = similarityTo(truncate(wanted[lead] ?? '', MAX_LINE));
  let best = { score: 0, at: -1 };
  lines.slice(0, MAX_COMPARED).forEach((line, at) => {
    const score = line.length > 0 && line.length <= 4 * MAX_LINE ? like(line) : 0;
    if (score > best.score) best = { score, at };
  });
  if (best.at < 0) return '';
  const from = Math.max(0, best.at - Math.max(0, lead));
  const differs = wanted.findIndex((line, index) => !isSameLine(line, lines[from + index], index, wanted.length));
  // The first difference is shown even if the text is long.
  const first = from + (differs < MAX_SHOWN_LINES ? 0 : differs - SHOWN_BEFORE);
  const shown = lines
    .slice(first, Math.min(from + wanted.length, first + MAX_SHOWN_LINES))
    .map((line, index) => `${first + index + 1}: ${truncate(line, MAX_LINE)}`);
  return `Nearest is:\n${shown.join('\n')}\n${differenceNote(from + differs, differs, lines)}Copy the text exactly.`;
}

/** The first line of a text may be the end of a line of the file, its last line the beginning of one. */
function isSameLine(wanted: string, line: string | undefined, index: number, count: number): boolean {
  if (line === undefined || index === 0) return line?.endsWith(wanted) ?? false;
  return index === count - 1 ? line.startsWith(wanted) : line === wanted;
}

function differenceNote(at: number, differs: number, lines: string[]): string {
  if (differs <= 0) return '';
  return at < lines.length
    ? `It first differs in line ${at + 1}. `
    : `It is the same up to the end of the file, which has no line end after line ${at}. `;
}

/** The bytes as text; undefined if they are not UTF-8. A byte order mark is kept. */
function decodeUtf8(bytes: Buffer): string | undefined {
  return attempt(() => new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes));
}
