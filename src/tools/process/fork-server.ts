import { type ChildProcess, spawn } from 'node:child_process';
import type { Socket } from 'node:net';
import { basename } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { isProcessRunning, processState, signalName } from './call-folder.ts';
import { hasProc } from './process-group.ts';
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

/** So many wait for work, as many as run at once by default; one that nobody wanted for so long goes. */
const MAX_IDLE = 8;
const MAX_IDLE_MS = 60_000;
const POLL_MS = 25;
/** How a nursery tells that the folder to run in cannot be entered; nothing else there ends with it. */
const FOLDER_NOT_ENTERED = 9;
/** What `ulimit -f` counts in here. */
const BASH_BLOCK = 1024;

/**
 * A small shell that has read the supervisor's script once and forks for the daemon, one command at a time. A fork by
 * the daemon takes 1 ms and 3 more for each 100 MiB of its memory, in which all its sessions stand still; asking takes
 * 0.1 ms.
 *
 * On descriptor 3 it is told a line (`call`, a number, a size) and so many bytes: words in single quotes, which are the
 * folder to run in, the environment, `--` and the supervisor's arguments. Half a request is none: who wrote it died.
 * `set -m` gives what is forked a process group of its own, without a terminal only in bash. Meanwhile the supervisor
 * has descriptor 3; afterwards its end is told here. The environment begins empty: a command has what it is given.
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
  /** How many it was asked for; the last is the one at work. */
  calls: number;
  onLine: LineListener;
  /** It was killed, or could not be started, for the reason given. */
  onDeath: (why?: Error) => void;
};

const idleServers = new Map<ForkServer, NodeJS.Timeout>();

/** Whether there can be one: it must be bash (4.1 or newer), and its commands are looked up in /proc. */
export const canUseForkServer = (shell: string): boolean => hasProc && basename(shell) === 'bash';

/** A supervisor that a nursery forks: one that rests, or a new one. `folder` is that of the call. */
export function forkSupervisor(shell: string, folder: string, { words, cwd, env }: SupervisorStart): SupervisorProcess {
  const server = takeIdleServer(shell) ?? startForkServer(shell);
  let [ended, isFree, isWhole] = [false, false, false];
  let hear: LineListener = noListener;
  const gone = new Promise<ProcessExit>((resolve, reject) => {
    server.onLine = (word, numbers) => {
      ended ||= word === 'ended';
      if (word !== 'gone') return hear(word, numbers);
      const status = numbers[0] ?? 0;
      isWhole = status === 0;
      if (status === FOLDER_NOT_ENTERED) reject(new Error(`The command was not begun: ${cwd} cannot be entered.`));
      else resolve(status > 128 ? { code: null, signal: signalName(status - 128) } : { code: status, signal: null });
    };
    server.onDeath = (why) => (why ? reject(why) : waitForOrphan(folder).then(resolve, reject));
  });
  const given = Object.entries(env).flatMap(([name, value]) => (value === undefined ? [] : [`${name}=${value}`]));
  const request = [cwd, ...given, '--', ...words].map(shellQuote).join(' ');
  server.control.write(`call ${++server.calls} ${Buffer.byteLength(request)}\n${request}`);
  return {
    onLine(listener) {
      hear = listener;
    },
    exited: gone,
    dismiss() {
      server.control.write('done\n');
      isFree = true;
    },
    detach() {
      server.onLine = noListener;
      server.onDeath = noListener;
      // Only one of which nothing can come any more, and where nobody waits to read what is meant for the next.
      if (isFree && ended && isWhole) returnToPool(server);
      else server.control.destroy();
    },
  };
}

const shellQuote = (word: string): string => `'${word.replaceAll("'", `'\\''`)}'`;

function startForkServer(shell: string): ForkServer {
  const args = ['--norc', '--noprofile', '-c', FORK_SERVER_SCRIPT, 'agentd-nursery'];
  const child = spawn(shell, args, { cwd: '/', env: {}, ...detachedStdio() });
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
  // One that was killed a moment ago is still here; its end is told with the next turn of the event loop.
  const server = [...idleServers.keys()].find(
    ({ shell: its, child }) => its === shell && isProcessRunning(child.pid ?? Number.NaN),
  );
  if (!server) return undefined;
  removeFromPool(server);
  server.child.ref();
  server.control.ref();
  return server;
}

/** It keeps nobody from ending: it goes when its descriptor 3 is closed, whoever does that. */
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
 * A nursery was killed. What it began goes on and still tells of its end; whether its supervisor is there must be
 * looked up. Throws where nothing was begun, which then never is.
 */
async function waitForOrphan(folder: string): Promise<ProcessExit> {
  const life = await awaitSupervisorIdentity(folder);
  if (!life) throw new Error('The command was not begun: the process that should begin it was killed.');
  while (processState(life) === 'lives') await sleep(POLL_MS);
  return { code: null, signal: null };
}
