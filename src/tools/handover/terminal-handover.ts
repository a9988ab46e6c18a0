import { spawn } from 'node:child_process';
import { type Readable, Writable } from 'node:stream';
import type { TerminalControl } from '../../engine/ports/tool-ports.ts';
import type { SandboxSettings } from '../../protocol/settings/effective-settings.ts';
import { TerminalInput, type TerminalLost } from '../../protocol/workspace/handover.ts';
import { findProgram } from '../common/path-lookup.ts';
import { startedChild } from '../process/process-group.ts';
import {
  coverInheritedDescriptors,
  MAX_DATA_KIB,
  MAX_FILE_BYTES,
  type SandboxedCommand,
  type ShellCommand,
} from '../process/supervisor.ts';
import type { Sandbox } from '../sandbox/sandbox.ts';
import { commandEnv } from '../shell/shell-tool.ts';
import { openPersonSocket, type Visitor } from './person-socket.ts';

/** The most unacknowledged output; a program that prints more has to wait. */
const MAX_UNREAD_BYTES = 128 * 1024;
/** A pause after each piece of output, so that a program that prints endlessly does not occupy the daemon. */
const GAP_MS = 4;
/** How much output is repeated to a person who reconnects. */
const KEPT_BYTES = 64 * 1024;

export type TerminalOptions = {
  /** The session's `work/`; created if missing. */
  work: () => Promise<string>;
  sandbox: { of: Sandbox; settings: () => SandboxSettings };
  /** Further folders that commands may read. */
  readAlso: string[];
  env: NodeJS.ProcessEnv;
  /** Path of the socket, in a folder that commands cannot see. */
  socket: string;
  /** Called if the terminal ends without an order. */
  onLost: () => void;
  nobodyMs?: number | undefined;
};

/** Lets a person use a shell in `work/` over a Unix socket that exists only while they have it. */
export function openTerminalControl(options: TerminalOptions): TerminalControl {
  let hold: { end(): void } | undefined;
  let lost: TerminalLost | null = null;
  return {
    state: {
      get problem() {
        return problemOf(options);
      },
      get lost() {
        return lost;
      },
    },
    give() {
      if (hold || lost) return;
      hold = beginTerminal(options, (why) => {
        lost = why;
        options.onLost();
      });
    },
    takeBack() {
      hold?.end();
      hold = undefined;
      lost = null;
    },
  };
}

/** Why there can be no terminal, and what to do. */
function problemOf({ sandbox, env }: TerminalOptions): string | null {
  const status = sandbox.of.statusFor(sandbox.settings());
  if (!status.isSandboxed)
    return status.isChosen
      ? `${status.why}. Set it to "auto" in agentd.json, and install bubblewrap.`
      : `there is none: ${status.why}. Install what is missing; agentctl doctor checks it.`;
  if (process.platform !== 'linux')
    return 'only the Linux sandbox (bubblewrap) supports a terminal. Run agentd on Linux.';
  if (findProgram(commandEnv(env, '/').PATH, 'script') === undefined)
    return 'the terminal needs `script`, which is not installed (Debian: apt-get install bsdutils).';
  return null;
}

function beginTerminal(options: TerminalOptions, loseTo: (why: TerminalLost) => void): { end(): void } {
  let isOver = false;
  let shell: TerminalShell | undefined;
  let output: ReturnType<typeof readOutput> | undefined;
  const person = openPersonSocket({
    ...{ path: options.socket, nobodyMs: options.nobodyMs, lose },
    arrived: (visitor) => output?.show(visitor),
    left: () => output?.show(undefined),
    take(came) {
      const input = TerminalInput.safeParse(came);
      if (!input.success) return false;
      const { data } = input;
      if ('type' in data) shell?.type(data.type);
      else if ('size' in data) shell?.resize(data.size.rows, data.size.cols);
      else output?.acknowledge(data.ack);
      return true;
    },
  });

  function end(): void {
    isOver = true;
    person.close();
    shell?.end();
  }
  function lose(why: TerminalLost): void {
    if (isOver) return;
    end();
    loseTo(why);
  }
  async function run(): Promise<void> {
    const { sandbox, readAlso, env } = options;
    const work = await options.work();
    const program = terminalCommand(work, commandEnv(env, work));
    const command = await sandbox.of.wrapCommand(program, sandbox.settings(), readAlso);
    // The settings may have changed since the order; a terminal never runs without a sandbox.
    if (isOver || command?.endReportedBy !== 'inside') return command?.release();
    try {
      shell = startTerminalShell(command);
    } catch (error) {
      command.release();
      throw error;
    }
    output = readOutput(shell.output);
    if (person.visitor) output.show(person.visitor);
    await shell.ended;
  }
  void run()
    .catch(() => undefined)
    .then(() => lose('shell_ended'));
  return { end };
}

/** Reads a terminal's output as fast as the person acknowledges it, or at a steady pace while nobody is connected. */
function readOutput(from: Readable) {
  let visitor: Visitor | undefined;
  let [latest, unread, isPausing] = [Buffer.alloc(0), 0, false];
  const resume = (): void => {
    if (!isPausing && unread < MAX_UNREAD_BYTES) from.resume();
  };
  from.on('data', (piece: Buffer) => {
    from.pause();
    isPausing = true;
    setTimeout(() => {
      isPausing = false;
      resume();
    }, GAP_MS);
    latest = Buffer.concat([latest, piece]).subarray(-KEPT_BYTES);
    if (!visitor) return;
    unread += piece.length;
    visitor.send({ output: piece.toString('base64') });
  });
  return {
    show(next: Visitor | undefined): void {
      visitor = next;
      unread = next ? latest.length : 0;
      if (latest.length > 0) next?.send({ screen: latest.toString('base64') });
      resume();
    },
    acknowledge(bytes: number): void {
      unread = Math.max(0, unread - bytes);
      resume();
    },
  };
}

/** The size of a terminal until that of the person's window is known. */
const FIRST_SIZE = 'rows 24 cols 80';
/** Keys are queued for a program that does not read; beyond this size, further ones are dropped. */
const MAX_WAITING_BYTES = 1024 * 1024;
/** The unit of `ulimit -f` in a POSIX shell. */
const ULIMIT_BLOCK_BYTES = 512;

/** Runs outside the sandbox: sets the limits of the agent's commands, then execs the sandbox. Descriptor 4: folder. */
const OUTSIDE_SCRIPT = `
{ ulimit -c 0; ulimit -f ${MAX_FILE_BYTES / ULIMIT_BLOCK_BYTES}; ulimit -d ${MAX_DATA_KIB}; } 2>/dev/null
[ ! -w /proc/self/oom_score_adj ] || echo 1000 >/proc/self/oom_score_adj
cd -P -- "$1" && [ "$PWD" = "$1" ] || exit 1
[ -z "$2" ] || echo 0 >"$2/cgroup.procs" || exit 1
shift 2
exec 4<. && cd / && unset OLDPWD || exit 1
exec "$@"`;

/**
 * Runs in the pseudo terminal of `script`. A child sets the terminal's size to that in each line on descriptor 3; then
 * the shell replaces this script, without that descriptor.
 */
const INSIDE_SCRIPT = `
stty ${FIRST_SIZE}
while read -r rows cols; do stty rows "$rows" cols "$cols" <&1; done <&3 &
exec 3<&-
PS1='\\W \\$ ' exec bash --norc -i`;

/** The command in the sandbox. `script` does not log; it provides the pseudo terminal and passes on what is typed. */
const terminalCommand = (work: string, env: NodeJS.ProcessEnv): ShellCommand => ({
  ...{ shell: '/bin/sh', cwd: work },
  command: 'exec script -qefc "$AGENTD_TERMINAL" -E always /dev/null',
  // Input is UTF-8, even if the daemon has no locale.
  env: { LANG: 'C.UTF-8', ...env, TERM: 'xterm-256color', AGENTD_TERMINAL: `unset AGENTD_TERMINAL${INSIDE_SCRIPT}` },
});

/** A shell in its own terminal. */
type TerminalShell = {
  output: Readable;
  type(text: string): void;
  resize(rows: number, cols: number): void;
  /** Resolves when the shell has ended, whatever it has left running. */
  ended: Promise<void>;
  /** Ends the shell and everything started in it. */
  end(): void;
};

/** Starts a prepared shell. It ends with this process, because its sandbox does. */
function startTerminalShell({ words, env, cwd, group, release }: SandboxedCommand): TerminalShell {
  const stdio: Array<'pipe'> = ['pipe', 'pipe', 'pipe', 'pipe'];
  const args = ['-c', OUTSIDE_SCRIPT, 'agentd-terminal', cwd, group, ...words];
  const options = { cwd: '/', env, detached: true, stdio: [...stdio, ...coverInheritedDescriptors(stdio.length)] };
  const child = startedChild(spawn('/bin/sh', args, options));
  const [input, output, reports, sizes] = child.stdio;
  if (!input || !output || !reports || !(sizes instanceof Writable)) throw new Error('A terminal without its pipes.');
  // It may end at any moment, even during a write.
  for (const stream of [input, output, reports, sizes]) stream.on('error', () => undefined);
  return {
    output,
    type(text) {
      if (input.writableLength < MAX_WAITING_BYTES) input.write(text);
    },
    resize: (rows, cols) => void sizes.write(`${rows} ${cols}\n`),
    ended: new Promise((resolve) => {
      // The sandbox writes to stderr only when the shell has ended, or if it could not start.
      reports.once('data', () => resolve());
      child.once('error', () => resolve());
      child.once('exit', () => {
        release();
        resolve();
      });
    }),
    end() {
      output.destroy();
      try {
        if (child.pid !== undefined) process.kill(-child.pid, 'SIGKILL');
      } catch {
        // It has already ended.
      }
    },
  };
}
