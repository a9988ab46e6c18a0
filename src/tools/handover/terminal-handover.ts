import type { Readable } from 'node:stream';
import type { TerminalControl } from '../../engine/ports/tool-ports.ts';
import type { SandboxSettings } from '../../protocol/settings/effective-settings.ts';
import { TerminalInput, type TerminalLost } from '../../protocol/workspace/terminal-control.ts';
import { findProgram } from '../common/path-lookup.ts';
import type { Sandbox } from '../sandbox/sandbox.ts';
import { commandEnv } from '../shell/shell-tool.ts';
import { openPersonSocket, type Visitor } from './person-socket.ts';
import { startTerminalShell, type TerminalShell, terminalCommand } from './terminal-shell.ts';

/** So many bytes of output are sent before some are acknowledged; what prints more waits. */
const MAX_UNREAD_BYTES = 128 * 1024;
/** Between two pieces of output, in ms: a program that prints without end leaves the daemon time for its sessions. */
const GAP_MS = 4;
/** How much output is repeated to a person who connects again. */
const KEPT_BYTES = 64 * 1024;

export type TerminalOptions = {
  /** The session's `work/`; created if it is not there. */
  work: () => Promise<string>;
  sandbox: { of: Sandbox; settings: () => SandboxSettings };
  /** Folders that commands may read besides. */
  readAlso: string[];
  env: NodeJS.ProcessEnv;
  /** Where its socket is, in a folder that commands do not see. */
  socket: string;
  /** The person no longer has the terminal, though nobody closed it. */
  onLost: () => void;
  nobodyMs?: number | undefined;
};

/** Lets a person use a shell in `work/` over a Unix socket that is there only while they have it. */
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
  if (process.platform !== 'linux') return 'only that of Linux (bubblewrap) can hold a terminal. Run agentd on Linux.';
  if (findProgram(commandEnv(env, '/').PATH, 'script') === undefined)
    return 'it makes the terminal with `script`, which is not installed (Debian: apt-get install bsdutils).';
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
    // The settings may have changed since it was asked for: it is never without a sandbox.
    if (command?.endReportedBy !== 'inside') return;
    if (isOver) return command.release();
    shell = startTerminalShell(command);
    output = readOutput(shell.output);
    if (person.visitor) output.show(person.visitor);
    await shell.ended;
  }
  void run()
    .catch(() => undefined)
    .then(() => lose('shell_ended'));
  return { end };
}

/** Reads what a terminal prints no faster than it is shown, or at an even pace while nobody looks. */
function readOutput(from: Readable) {
  let visitor: Visitor | undefined;
  let [latest, unread, isResting] = [Buffer.alloc(0), 0, false];
  const goOn = (): void => {
    if (!isResting && unread < MAX_UNREAD_BYTES) from.resume();
  };
  from.on('data', (piece: Buffer) => {
    from.pause();
    isResting = true;
    setTimeout(() => {
      isResting = false;
      goOn();
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
      goOn();
    },
    acknowledge(bytes: number): void {
      unread = Math.max(0, unread - bytes);
      goOn();
    },
  };
}
