import { spawn } from 'node:child_process';
import { type Readable, Writable } from 'node:stream';
import { coverInheritedDescriptors } from '../process/inherited-descriptors.ts';
import { MAX_DATA_KIB, MAX_FILE_BYTES, type SandboxedCommand, type ShellCommand } from '../process/supervisor.ts';

/** The size of a terminal until the person's window is known. */
const FIRST_SIZE = 'rows 24 cols 80';
/** Keys wait for a program that does not read; with so many bytes waiting, further ones are lost. */
const MAX_WAITING_BYTES = 1024 * 1024;
/** The unit of `ulimit -f` in a POSIX shell. */
const ULIMIT_BLOCK_BYTES = 512;

/** Runs outside the sandbox, with the limits of the agent's commands, and becomes it. Descriptor 4 is its folder. */
const OUTSIDE_SCRIPT = `
{ ulimit -c 0; ulimit -f ${MAX_FILE_BYTES / ULIMIT_BLOCK_BYTES}; ulimit -d ${MAX_DATA_KIB}; } 2>/dev/null
[ ! -w /proc/self/oom_score_adj ] || echo 1000 >/proc/self/oom_score_adj
cd -P -- "$1" && [ "$PWD" = "$1" ] || exit 1
[ -z "$2" ] || echo 0 >"$2/cgroup.procs" || exit 1
shift 2
exec 4<. && cd / && unset OLDPWD || exit 1
exec "$@"`;

/**
 * Runs in the pseudo terminal that `script` makes. A child of it sets the size that each line on descriptor 3 says; the
 * shell takes its place without that descriptor.
 */
const INSIDE_SCRIPT = `
stty ${FIRST_SIZE}
while read -r rows cols; do stty rows "$rows" cols "$cols" <&1; done <&3 &
exec 3<&-
PS1='\\W \\$ ' exec bash --norc -i`;

/** What is run in the sandbox. `script` does not log: it makes the pseudo terminal, and passes on what is typed. */
export const terminalCommand = (work: string, env: NodeJS.ProcessEnv): ShellCommand => ({
  ...{ shell: '/bin/sh', cwd: work },
  command: 'exec script -qefc "$AGENTD_TERMINAL" -E always /dev/null',
  // What is typed is UTF-8, whether or not the daemon was told a language.
  env: { LANG: 'C.UTF-8', ...env, TERM: 'xterm-256color', AGENTD_TERMINAL: `unset AGENTD_TERMINAL${INSIDE_SCRIPT}` },
});

/** A shell in a terminal of its own. */
export type TerminalShell = {
  output: Readable;
  type(text: string): void;
  resize(rows: number, cols: number): void;
  /** Resolves when the shell has ended, whatever it has left running. */
  ended: Promise<void>;
  /** Ends it and all that was started in it. */
  end(): void;
};

/** Starts a prepared shell. It ends with this process, because its sandbox does. */
export function startTerminalShell({ words, env, cwd, group, release }: SandboxedCommand): TerminalShell {
  const stdio: Array<'pipe'> = ['pipe', 'pipe', 'pipe', 'pipe'];
  const child = spawn('/bin/sh', ['-c', OUTSIDE_SCRIPT, 'agentd-terminal', cwd, group, ...words], {
    ...{ cwd: '/', env, detached: true, stdio: [...stdio, ...coverInheritedDescriptors(stdio.length)] },
  });
  const [input, output, reports, sizes] = child.stdio;
  if (!input || !output || !reports || !(sizes instanceof Writable)) throw new Error('A terminal without its pipes.');
  // It may end at any moment, also while it is written to.
  for (const stream of [input, output, reports, sizes]) stream.on('error', () => undefined);
  return {
    output,
    type(text) {
      if (input.writableLength < MAX_WAITING_BYTES) input.write(text);
    },
    resize: (rows, cols) => void sizes.write(`${rows} ${cols}\n`),
    ended: new Promise((resolve) => {
      // What the sandbox says on stderr is that the shell ended, or why it could not begin.
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
        // It has ended.
      }
    },
  };
}
