import { type ChildProcess, spawn } from 'node:child_process';
import type { Socket } from 'node:net';
import { basename } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { hasProc, isProcessRunning } from '../../store/fs/process-identity.ts';
import { processState, signalName } from './call-folder.ts';
import { startedChild } from './process-group.ts';
import { awaitSupervisorIdentity } from './recover-command.ts';
import {
  controlSocket,
  detachedStdio,
  type LineListener,
  MAX_FILE_BYTES,
  type ProcessExit,
  readControlLines,
  SUPERVISOR_SCRIPT,
  type SupervisorProcess,
  type SupervisorStart,
} from './supervisor.ts';

/** How many idle fork servers are kept (as many as commands run at once by default), and for how long. */
const MAX_IDLE = 8;
const MAX_IDLE_MS = 60_000;
const POLL_MS = 25;
/** How a fork server reports that the working folder cannot be entered; nothing else exits with it. */
const FOLDER_NOT_ENTERED = 9;
/** The unit of `ulimit -f` here. */
const BASH_BLOCK = 1024;

/**
 * A small shell that has read the supervisor's script once and forks for the daemon, one command at a time. A fork by
 * the daemon takes 1 ms plus 3 ms per 100 MiB of its memory, during which all its sessions are blocked; a request to
 * the fork server takes 0.1 ms.
 *
 * A request on descriptor 3 is a line (`call`, a number, a size) followed by that many bytes: words in single quotes,
 * which are the working folder, the environment, `--` and the supervisor's arguments. An incomplete request is ignored:
 * its writer died. `set -m` puts each fork into its own process group, without a terminal only in bash. The supervisor
 * uses descriptor 3 meanwhile; afterwards its end is reported here. The environment starts empty: a command gets only
 * what the request contains.
 */
export const FORK_SERVER_SCRIPT = `
unset OLDPWD
declare +x SHLVL
blocks=${MAX_FILE_BYTES / BASH_BLOCK}
while read -r -u 3 word call size; do
  [ "$word" = call ] || continue
  IFS= read -r -u 3 -N "$size" words || exit
  set -m
  (
    eval "set -- $words"
    cd -P -- "$1" || exit ${FOLDER_NOT_ENTERED}
    shift
    while [ "$1" != -- ]; do export "$1"; shift; done
    shift
    ${SUPERVISOR_SCRIPT}
  ) &
  set +m
  wait "$!"
  printf '%s gone %s\\n' "$call" "$?" >&3
done
`;

type ForkServer = {
  shell: string;
  child: ChildProcess;
  control: Socket;
  /** The number of requests so far; the last is the current one. */
  calls: number;
  onLine: LineListener;
  /** Called if it was killed, or could not be started for the given reason. */
  onDeath: (why?: Error) => void;
};

const idleServers = new Map<ForkServer, NodeJS.Timeout>();

/**
 * Whether a fork server is possible: the shell must be bash (4.1 or newer), and /proc must exist to find its commands.
 */
export const canUseForkServer = (shell: string): boolean => hasProc && basename(shell) === 'bash';

/** A supervisor forked by a fork server, an idle or a new one. `folder` is that of the call. */
export function forkSupervisor(shell: string, folder: string, { words, cwd, env }: SupervisorStart): SupervisorProcess {
  const server = takeIdleServer(shell) ?? startForkServer(shell);
  let [ended, isFree, isWhole] = [false, false, false];
  let notify: LineListener = noListener;
  const gone = new Promise<ProcessExit>((resolve, reject) => {
    server.onLine = (word, numbers) => {
      ended ||= word === 'ended';
      if (word !== 'gone') return notify(word, numbers);
      const status = numbers[0] ?? 0;
      isWhole = status === 0;
      if (status === FOLDER_NOT_ENTERED) reject(new Error(`The command was not started: ${cwd} cannot be entered.`));
      else resolve(status > 128 ? { code: null, signal: signalName(status - 128) } : { code: status, signal: null });
    };
    server.onDeath = (why) => (why ? reject(why) : waitForOrphan(folder).then(resolve, reject));
  });
  const given = Object.entries(env).flatMap(([name, value]) => (value === undefined ? [] : [`${name}=${value}`]));
  const request = [cwd, ...given, '--', ...words].map(shellQuote).join(' ');
  server.control.write(`call ${++server.calls} ${Buffer.byteLength(request)}\n${request}`);
  return {
    onLine(listener) {
      notify = listener;
    },
    exited: gone,
    dismiss() {
      server.control.write('done\n');
      isFree = true;
    },
    detach() {
      server.onLine = noListener;
      server.onDeath = noListener;
      // Only if no more output can come, and no old reader could receive lines of the next command.
      if (isFree && ended && isWhole) returnToPool(server);
      else server.control.destroy();
    },
  };
}

const shellQuote = (word: string): string => `'${word.replaceAll("'", `'\\''`)}'`;

function startForkServer(shell: string): ForkServer {
  const args = ['--norc', '--noprofile', '-c', FORK_SERVER_SCRIPT, 'agentd-fork-server'];
  const child = startedChild(() => spawn(shell, args, { cwd: '/', env: {}, ...detachedStdio() }));
  const control = controlSocket(child.stdio);
  const server: ForkServer = { shell, child, control, calls: 0, onLine: noListener, onDeath: noListener };
  readControlLines(control, (call, word, numbers) => call === server.calls && server.onLine(word, numbers));
  child.once('error', (why) => server.onDeath(why));
  child.once('exit', () => {
    removeFromPool(server);
    server.onDeath();
  });
  return server;
}

const noListener = (): void => undefined;

function takeIdleServer(shell: string): ForkServer | undefined {
  // One that was killed a moment ago is still listed; its exit is reported in the next turn of the event loop.
  const server = [...idleServers.keys()].find(
    ({ shell: its, child }) => its === shell && isProcessRunning(child.pid ?? Number.NaN),
  );
  if (!server) return undefined;
  removeFromPool(server);
  server.child.ref();
  server.control.ref();
  return server;
}

/** An idle server does not keep the process alive: it exits when its descriptor 3 is closed. */
function returnToPool(server: ForkServer): void {
  server.child.unref();
  server.control.unref();
  const end = (): void => {
    removeFromPool(server);
    server.control.destroy();
  };
  if (idleServers.size < MAX_IDLE) idleServers.set(server, setTimeout(end, MAX_IDLE_MS).unref());
  else end();
}

function removeFromPool(server: ForkServer): void {
  clearTimeout(idleServers.get(server));
  idleServers.delete(server);
}

/**
 * For a fork server that was killed. The supervisor that it forked continues and still reports its end, if it exists.
 * Throws if nothing was started, and makes sure that nothing will be.
 */
async function waitForOrphan(folder: string): Promise<ProcessExit> {
  const life = await awaitSupervisorIdentity(folder);
  if (!life) throw new Error('The command was not started: the process that should start it was killed.');
  while (processState(life) === 'lives') await sleep(POLL_MS);
  return { code: null, signal: null };
}
