import { isAbsolute } from 'node:path';
import { z } from 'zod';
import { startDeadline } from '../../base/async.ts';
import { escapeControlChars, formatBytes, truncate } from '../../base/strings.ts';
import { UserError } from '../../base/user-error.ts';
import type { ToolContext, ToolResult } from '../../engine/ports/tool-ports.ts';
import { StepCheck } from '../../protocol/session/plan.ts';
import { parseToolArgs } from '../../protocol/tool-calls/tool-args.ts';
import { type CallDescription, defineTool, type Tool } from '../common/define-tool.ts';
import { compilePattern, openPatternThread } from '../files/pattern-thread.ts';
import { type OpenFile, statIfExists, withOpenFile } from '../files/safe-open.ts';
import { openWorkPaths } from '../files/work-paths.ts';
import { WEB_FETCH_HEAD, type WebSettings } from '../web/web-tool-heads.ts';

const MAX_MATCHED_BYTES = 1024 * 1024;
const PATTERN_MS = 10_000;
const URL_MS = 30_000;
const SHOWN_LINES = 20;
/** Code points shown of one line of output, and of a command or a pattern. */
const SHOWN_CHARACTERS = 200;
/**
 * `parseCheck` validates the form. Shared by all sessions: the schema sent to the model is built once per schema
 * object.
 */
const ANY_ARGS = z.looseObject({});

export type CheckOptions = {
  readAlso: string[];
  /** Runs the commands. Its answer begins with the line `exit <code>` if the command exited by itself. */
  shell: Tool;
  /** Which addresses may be reached; default: the public network. */
  web?: (() => WebSettings) | undefined;
  patternMs?: number | undefined;
  urlMs?: number | undefined;
};

type FileCheck = Extract<StepCheck, { file: string }>;
type CommandCheck = Extract<StepCheck, { command: string }>;

/**
 * `check`: evaluates one entry of a step's `done_when`. `ok` is whether it passes; the text says in one sentence what
 * was expected and what was found, and for a command shows the end of its output. Hidden: the engine calls it. An entry
 * that a person must confirm never passes.
 */
export function checkTool(options: CheckOptions): Tool {
  const tool = defineTool({
    name: 'check',
    description: 'Evaluates one entry of `done_when`.',
    args: ANY_ARGS,
    replay: 'never',
    touches: [],
    hidden: true,
    run: (args, context) => runCheck(parseCheck(args), options, context),
    async resume(args, context) {
      const entry = parseCheck(args);
      if (!('command' in entry)) return null;
      const result = await options.shell.resume?.(JSON.stringify({ command: entry.command }), context);
      return result ? compareCommandResult(entry, result.text) : null;
    },
  });
  return {
    ...tool,
    describeCall: (text) => describeCheck(parseCheck(parseToolArgs('check', ANY_ARGS, text)), options.shell),
  };
}

/** A check is subject to the rules of the tool that would do the same. */
function describeCheck(entry: StepCheck, shell: Tool): CallDescription {
  if ('command' in entry) return shell.describeCall(JSON.stringify({ command: entry.command }));
  const reads: CallDescription = { tool: 'check', text: '', kind: 'text', display: '', always: 'check', touches: [] };
  if ('file' in entry)
    return { ...reads, tool: 'read_file', kind: 'path', access: 'read', text: entry.file, display: entry.file };
  if (!('url' in entry)) return reads;
  const { name: tool, kind, subject, always } = WEB_FETCH_HEAD;
  return {
    ...reads,
    tool,
    kind,
    text: subject(entry),
    display: entry.url,
    always: always(entry),
    touches: ['network'],
  };
}

function parseCheck(args: object): StepCheck {
  const parsed = StepCheck.safeParse(args);
  if (parsed.success) return parsed.data;
  throw new UserError(
    'Expected one of { file, min_bytes?, matches? }, { command, exit? }, { url, status? } and { person }, ' +
      `got ${truncate(JSON.stringify(args), SHOWN_CHARACTERS)}.`,
  );
}

async function runCheck(entry: StepCheck, options: CheckOptions, context: ToolContext): Promise<ToolResult> {
  if ('file' in entry) return checkFile(entry, options, context);
  if ('command' in entry) return checkCommand(entry, options.shell, context);
  if ('url' in entry) {
    const { checkUrl } = await import('../web/outbound-request.ts');
    return checkUrl(entry, options.web?.() ?? {}, options.urlMs ?? URL_MS, context);
  }
  return { ok: false, text: `asks a person: ${entry.person}` };
}

async function checkFile(entry: FileCheck, options: CheckOptions, { work, signal }: ToolContext): Promise<ToolResult> {
  const pattern = entry.matches === undefined ? undefined : compilePattern(entry.matches, '`matches`');
  const paths = await openWorkPaths(work, options.readAlso);
  const resolved = await paths.resolveForRead(entry.file);
  const shown = isAbsolute(resolved.displayName) ? resolved.displayName : `work/${resolved.displayName}`;
  const answer = (ok: boolean, expected: string, found: string) => ({
    ok,
    text: `${shown}: expected ${expected}, got ${found}`,
  });
  const least = entry.min_bytes;
  const size = least === undefined ? 'a file' : `at least ${formatBytes(least)}`;
  if (!statIfExists(resolved, paths)) return answer(false, size, 'nothing: there is no such file');
  return withOpenFile({ ...resolved, displayName: shown }, paths, async (opened) => {
    const bytes = opened.size;
    if (least !== undefined && bytes < least) return answer(false, size, String(bytes));
    if (!pattern) return answer(true, size, least === undefined ? `one of ${formatBytes(bytes)}` : String(bytes));
    const text = await readBeginning(opened);
    const match = await findMatch(text, pattern, signal, options.patternMs ?? PATTERN_MS);
    return answer(
      match === 'one',
      `a match of ${truncate(escapeControlChars(String(pattern)), SHOWN_CHARACTERS)}`,
      match,
    );
  });
}

/** The first 1 MiB as text, without a character cut at the end. */
async function readBeginning(file: OpenFile): Promise<string> {
  const pieces: Buffer[] = [];
  let size = 0;
  for await (const piece of file.pieces()) {
    pieces.push(piece);
    size += piece.length;
    if (size >= MAX_MATCHED_BYTES) break;
  }
  const bytes = Buffer.concat(pieces).subarray(0, MAX_MATCHED_BYTES);
  return new TextDecoder().decode(bytes, { stream: size >= MAX_MATCHED_BYTES });
}

async function findMatch(text: string, pattern: RegExp, signal: AbortSignal, ms: number): Promise<string> {
  const limit = startDeadline(signal, ms);
  const thread = openPatternThread(limit.signal);
  try {
    const hits = await thread.matches(pattern, [text]);
    return hits.length > 0 ? 'one' : 'none';
  } catch (error) {
    if (!limit.hasPassed()) throw error;
    return `none within ${ms / 1000} s; a repeat inside a repeat, as in (a+)+, can take forever`;
  } finally {
    limit.clear();
    await thread.close();
  }
}

async function checkCommand(entry: CommandCheck, shell: Tool, context: ToolContext): Promise<ToolResult> {
  const { text } = await shell.call(JSON.stringify({ command: entry.command }), context);
  return compareCommandResult(entry, text);
}

function compareCommandResult({ command, exit }: CommandCheck, text: string): ToolResult {
  const [ending, ...output] = text.trimEnd().split('\n');
  const last = output.slice(-SHOWN_LINES).map((line) => truncate(line, SHOWN_CHARACTERS));
  const problem = `\`${truncate(escapeControlChars(command), SHOWN_CHARACTERS)}\`: expected exit ${exit}, got ${ending}`;
  return { ok: ending === `exit ${exit}`, text: [problem, ...last].join('\n') };
}
