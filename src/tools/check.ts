import { isAbsolute } from 'node:path';
import { z } from 'zod';
import type { ToolContext, ToolResult } from '../engine/ports.ts';
import { UserError } from '../protocol/errors.ts';
import { DoneWhen } from '../protocol/plan.ts';
import { clip } from '../protocol/recorded.ts';
import { readArgs } from './args.ts';
import { deadline } from './deadline.ts';
import { defineTool, type Told, type Tool } from './define.ts';
import { bytesInWords, printable } from './file-errors.ts';
import { type OpenFile, statOf, withFile } from './open-file.ts';
import { openFence } from './paths.ts';
import { compile } from './pattern.ts';
import { patternThread } from './pattern-thread.ts';
import { WEB_FETCH } from './web/heads.ts';
import type { WebSettings } from './web/settings.ts';

const MATCHED_BYTES = 1024 * 1024;
const PATTERN_MS = 10_000;
const URL_MS = 30_000;
const SHOWN_LINES = 20;
/** Code points of one line of output, and of a command or a pattern, that are shown. */
const SHOWN_CHARACTERS = 200;
/** Its form is `wishOf`'s to check. One for all sessions: what the model is told of a schema is made once for each. */
const ANY = z.looseObject({});

export type CheckOptions = {
  readAlso: string[];
  /** Runs the commands. Its answer begins with the line `exit <code>` where the command ended by itself. */
  shell: Tool;
  /** What its addresses may reach; not said: the public network. */
  web?: (() => WebSettings) | undefined;
  patternMs?: number | undefined;
  urlMs?: number | undefined;
};

type FileWish = Extract<DoneWhen, { file: string }>;
type CommandWish = Extract<DoneWhen, { command: string }>;

/**
 * `check`: tries one entry of a step's `done_when`. `ok` says whether it holds, the text in one sentence what was wanted and
 * what came; of a command also the end of its output. Hidden: the engine calls it. What is for a person to say never holds.
 */
export function checkTool(options: CheckOptions): Tool {
  const tool = defineTool({
    name: 'check',
    description: 'Tries one entry of `done_when`.',
    args: ANY,
    replay: 'never',
    touches: [],
    hidden: true,
    run: (args, context) => check(wishOf(args), options, context),
    async resume(args, context) {
      const wish = wishOf(args);
      if (!('command' in wish)) return null;
      const result = await options.shell.resume?.(JSON.stringify({ command: wish.command }), context);
      return result ? commandResult(wish, result.text) : null;
    },
  });
  return { ...tool, tell: (text) => told(wishOf(readArgs('check', ANY, text)), options.shell) };
}

/** A check is held to the rules of the tool that would do the same. */
function told(wish: DoneWhen, shell: Tool): Told {
  if ('command' in wish) return shell.tell(JSON.stringify({ command: wish.command }));
  const reads: Told = { tool: 'check', text: '', kind: 'text', shows: '', always: 'check', touches: [] };
  if ('file' in wish)
    return { ...reads, tool: 'read_file', kind: 'path', access: 'read', text: wish.file, shows: wish.file };
  if (!('url' in wish)) return reads;
  const { name: tool, kind, subject, always } = WEB_FETCH;
  return { ...reads, tool, kind, text: subject(wish), shows: wish.url, always: always(wish), touches: ['network'] };
}

function wishOf(args: object): DoneWhen {
  const parsed = DoneWhen.safeParse(args);
  if (parsed.success) return parsed.data;
  throw new UserError(
    'A check wants one of { file, min_bytes?, matches? }, { command, exit? }, { url, status? } and { person }, ' +
      `came ${clip(JSON.stringify(args), SHOWN_CHARACTERS)}.`,
  );
}

async function check(wish: DoneWhen, options: CheckOptions, context: ToolContext): Promise<ToolResult> {
  if ('file' in wish) return checkFile(wish, options, context);
  if ('command' in wish) return checkCommand(wish, options.shell, context);
  if ('url' in wish) {
    const { checkUrl } = await import('./web/check-url.ts');
    return checkUrl(wish, options.web?.() ?? {}, options.urlMs ?? URL_MS, context);
  }
  return { ok: false, text: `asks a person: ${wish.person}` };
}

async function checkFile(wish: FileWish, options: CheckOptions, { work, signal }: ToolContext): Promise<ToolResult> {
  const pattern = wish.matches === undefined ? undefined : compile(wish.matches, '`matches`');
  const fence = await openFence(work, options.readAlso);
  const place = await fence.toRead(wish.file);
  const shown = isAbsolute(place.shown) ? place.shown : `work/${place.shown}`;
  const answer = (ok: boolean, wanted: string, came: string) => ({
    ok,
    text: `${shown}: wanted ${wanted}, came ${came}`,
  });
  const least = wish.min_bytes;
  const size = least === undefined ? 'a file' : `at least ${bytesInWords(least)}`;
  if (!statOf(place, fence)) return answer(false, size, 'nothing: there is no such file');
  return withFile({ ...place, shown }, fence, async (opened) => {
    const bytes = opened.size;
    if (least !== undefined && bytes < least) return answer(false, size, String(bytes));
    if (!pattern) return answer(true, size, least === undefined ? `one of ${bytesInWords(bytes)}` : String(bytes));
    const text = await beginning(opened);
    const match = await matchIn(text, pattern, signal, options.patternMs ?? PATTERN_MS);
    return answer(match === 'one', `a match of ${clip(printable(String(pattern)), SHOWN_CHARACTERS)}`, match);
  });
}

/** The first 1 MiB as text; a character that is cut there is left out. */
async function beginning(file: OpenFile): Promise<string> {
  const pieces: Buffer[] = [];
  let size = 0;
  for await (const piece of file.pieces()) {
    pieces.push(piece);
    size += piece.length;
    if (size >= MATCHED_BYTES) break;
  }
  const bytes = Buffer.concat(pieces).subarray(0, MATCHED_BYTES);
  return new TextDecoder().decode(bytes, { stream: size >= MATCHED_BYTES });
}

async function matchIn(text: string, pattern: RegExp, signal: AbortSignal, ms: number): Promise<string> {
  const limit = deadline(signal, ms);
  const thread = patternThread(limit.signal);
  try {
    const hits = await thread.matches(pattern, [text]);
    return hits.length > 0 ? 'one' : 'none';
  } catch (error) {
    if (!limit.passed()) throw error;
    return `none within ${ms / 1000} s; a repeat inside a repeat, as in (a+)+, can take for ever`;
  } finally {
    limit.clear();
    await thread.close();
  }
}

async function checkCommand(wish: CommandWish, shell: Tool, context: ToolContext): Promise<ToolResult> {
  const { text } = await shell.call(JSON.stringify({ command: wish.command }), context);
  return commandResult(wish, text);
}

function commandResult({ command, exit }: CommandWish, text: string): ToolResult {
  const [came, ...output] = text.trimEnd().split('\n');
  const last = output.slice(-SHOWN_LINES).map((line) => clip(line, SHOWN_CHARACTERS));
  const said = `\`${clip(printable(command), SHOWN_CHARACTERS)}\`: wanted exit ${exit}, came ${came}`;
  return { ok: came === `exit ${exit}`, text: [said, ...last].join('\n') };
}
