import { z } from 'zod';
import { raceAbort } from '../../base/async.ts';
import { UserError } from '../../base/user-error.ts';
import type { ToolContext, ToolResult } from '../../engine/ports/tool-ports.ts';
import { trustedPathFolders } from '../../protocol/workspace/session-names.ts';
import { type CallEffects, defineTool, optional, type Tool } from '../common/define-tool.ts';
import { findProgram } from '../common/path-lookup.ts';
import type { JobStore } from '../jobs/job-store.ts';
import { recoverJob, startJob } from '../jobs/jobs-tool.ts';
import type { CommandEnd } from '../process/process-group.ts';
import { type CommandResult, discardIfNeverStarted, recoverCommand } from '../process/recover-command.ts';
import { runSupervised } from '../process/run-command.ts';
import type { SandboxedCommand, ShellCommand } from '../process/supervisor.ts';

const DEFAULT_TIMEOUT_MS = 120_000;
const MAX_TIMEOUT_S = 3600;
/** Default timeout of a background command: an hour; at most a day. */
const JOB_TIMEOUT_S = 3600;
const MAX_JOB_TIMEOUT_S = 86_400;
/** Linux takes at most 128 KiB in one argument. */
const MAX_COMMAND_BYTES = 120_000;
const RESTARTED_NOTE =
  '[the daemon was restarted while this ran, or this session was moved; what it said at that moment may be missing from its output]';

const NOT_STARTED =
  'Nothing was begun: the daemon ended just before, and by the rules as they are now this call does not run by itself. Make it again to have it asked about.';

/** The effects of a command if no sandbox is configured. */
const UNSANDBOXED: CallEffects = { touches: ['work', 'outside'], granted: ['outside'] };

export type ShellOptions = {
  env?: NodeJS.ProcessEnv | undefined;
  timeoutMs?: number | undefined;
  /** Wraps a command in its sandbox; null if it is to run without one. */
  wrapCommand?: ((program: ShellCommand) => Promise<SandboxedCommand | null>) | undefined;
  /** Where background commands go; without it there are none. */
  jobs?: JobStore | undefined;
  /** What a command could reach if run now; default: what the daemon's user can reach, which is granted. */
  effects?: (() => CallEffects) | undefined;
};

const shellArgs = (defaultS: number) =>
  z.strictObject({
    command: z.string().min(1),
    timeout_s: optional(
      z
        .number()
        .positive()
        .max(MAX_JOB_TIMEOUT_S)
        .describe(
          `At most ${MAX_TIMEOUT_S}, by default ${defaultS}; of a job ${MAX_JOB_TIMEOUT_S}, by default ${JOB_TIMEOUT_S}.`,
        ),
    ),
    background: optional(
      z
        .boolean()
        .describe(
          'A job (see `jobs`), for servers, watchers, long builds. In a sandbox without network no other command reaches its ports.',
        ),
    ),
  });
const ARGS = shellArgs(DEFAULT_TIMEOUT_MS / 1000);

/**
 * `shell`: runs a command in `work/`, sandboxed if possible. Everything it started has ended when it answers. A command
 * left running by a killed daemon is resumed. With `background` it continues as a job, managed by `jobs`.
 */
export function shellTool(options: ShellOptions = {}): Tool {
  const defaultMs = options.timeoutMs ?? DEFAULT_TIMEOUT_MS;
  const limitOf = (seconds: number | undefined) => (seconds === undefined ? defaultMs : seconds * 1000);
  return defineTool({
    name: 'shell',
    description:
      'Runs bash in the work folder: exit code, then stdout and stderr. No input, no terminal. What it starts ends with it ' +
      'unless `background` is true.',
    args: defaultMs === DEFAULT_TIMEOUT_MS ? ARGS : shellArgs(defaultMs / 1000),
    replay: 'never',
    touches: options.effects ?? (() => UNSANDBOXED),
    subject: ({ command }) => command,
    kind: 'command',
    async run({ command, timeout_s, background }, context) {
      if (background) return runInBackground(command, timeout_s ?? JOB_TIMEOUT_S, options, context);
      if (timeout_s !== undefined && timeout_s > MAX_TIMEOUT_S) throw timeoutTooLong(timeout_s);
      return runCommand(command, limitOf(timeout_s), options, context);
    },
    async resume({ command, timeout_s, background }, context) {
      if (background) return options.jobs ? recoverJob(options.jobs, context) : null;
      const { folder, signal, mayBegin = true } = context;
      const timeoutMs = limitOf(timeout_s);
      // Call this once only: a positive answer removes the folder.
      if (discardIfNeverStarted(folder))
        return mayBegin ? runCommand(command, timeoutMs, options, context) : { ok: false, text: NOT_STARTED };
      const result = await recoverCommand(folder, { signal, timeoutMs });
      return result && commandToolResult(result, timeoutMs, [RESTARTED_NOTE]);
    },
  });
}

function timeoutTooLong(seconds: number): UserError {
  return new UserError(
    `\`timeout_s\` is at most ${MAX_TIMEOUT_S}, got ${seconds}. Run a command that takes longer with \`background\`.`,
  );
}

async function runInBackground(
  command: string,
  timeoutS: number,
  options: ShellOptions,
  context: ToolContext,
): Promise<ToolResult> {
  if (!options.jobs) throw new UserError('Commands cannot run in the background here; leave `background` out.');
  const { program, sandboxed } = await prepareCommand(command, options, context);
  return startJob(options.jobs, program, sandboxed, timeoutS, context);
}

async function runCommand(
  command: string,
  timeoutMs: number,
  options: ShellOptions,
  context: ToolContext,
): Promise<ToolResult> {
  const { program, sandboxed } = await prepareCommand(command, options, context);
  const { folder, signal } = context;
  return commandToolResult(await runSupervised(program, sandboxed, folder, { signal, timeoutMs }), timeoutMs, []);
}

/** The command with everything it needs to run. Throws UserError if it is invalid. */
async function prepareCommand(
  command: string,
  { env = process.env, wrapCommand = async () => null }: ShellOptions,
  { work, signal }: ToolContext,
): Promise<{ program: ShellCommand; sandboxed: SandboxedCommand | null }> {
  if (command.includes('\0')) throw new UserError('The command contains a NUL character; remove it.');
  const bytes = Buffer.byteLength(command);
  if (bytes > MAX_COMMAND_BYTES) {
    const limit = `The command has ${bytes} bytes, more than ${MAX_COMMAND_BYTES}.`;
    throw new UserError(`${limit} Put the long part into a file with write_file first.`);
  }
  const clean = commandEnv(env, work);
  const program = { shell: findProgram(clean.PATH, 'bash') ?? '/bin/sh', command, cwd: work, env: clean };
  return { program, sandboxed: await unlessStopped(wrapCommand(program), signal) };
}

/** A stop does not wait for a sandbox: looking at the system's folders may take long, or never end. */
async function unlessStopped(
  wrapping: Promise<SandboxedCommand | null>,
  signal: AbortSignal,
): Promise<SandboxedCommand | null> {
  try {
    return await raceAbort(wrapping, signal);
  } catch (error) {
    wrapping.then(
      (late) => late?.release(),
      () => undefined,
    );
    throw error;
  }
}

/** The headline, the output, and notes on separate lines. */
function commandToolResult({ ending, output }: CommandResult, timeoutMs: number, also: string[]): ToolResult {
  const text = output || '(no output)';
  const notes = [...leftBehindNotes(ending), ...also].join('\n');
  const ok = ending.how === 'exit' && ending.code === 0;
  const exit = ending.how === 'exit' && ending.signal === null ? ending.code : null;
  return {
    ok,
    exit,
    text: `${endHeadline(ending, timeoutMs)}\n${text}${notes && !text.endsWith('\n') ? '\n' : ''}${notes}`,
  };
}

function endHeadline(ending: CommandEnd, timeoutMs: number): string {
  if (ending.how === 'timeout') return `timed out after ${timeoutMs / 1000} s`;
  if (ending.signal) return `ended by signal ${ending.signal}`;
  return ending.code === null ? 'ended with an unknown exit code' : `exit ${ending.code}`;
}

function leftBehindNotes(ending: CommandEnd): string[] {
  if (ending.how === 'timeout' || ending.leftBehind === 'nothing') return [];
  return ending.leftBehind === 'ended'
    ? ['[left behind: processes were ended; what a command starts in the background ends with it]']
    : ['[left behind: a process that left the command’s group keeps its output open; it was not ended]'];
}

/**
 * The part of the environment a command gets: program paths, language, temporary folder, and the session. A variable
 * whose name suggests a secret is never passed on.
 */
export function commandEnv(env: NodeJS.ProcessEnv, work: string): NodeJS.ProcessEnv & { PATH: string } {
  const kept = Object.entries(env).filter(
    ([name]) =>
      /^(?:PATH|LANG|LC_\w+|TMPDIR|AGENTD_SESSION(?:_FOLDER)?)$/.test(name) && !/KEY|TOKEN|SECRET|PASSWORD/i.test(name),
  );
  const path = env['PATH'] ?? '/usr/local/bin:/usr/bin:/bin';
  return { ...Object.fromEntries(kept), PATH: trustedPathFolders(path).join(':'), HOME: work, TERM: 'dumb' };
}
