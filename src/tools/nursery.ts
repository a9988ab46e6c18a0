import { type ChildProcess, spawn } from 'node:child_process';
import type { Socket } from 'node:net';
import { basename } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { named } from './supervised.ts';
import { FILE_BYTES, SUPERVISOR, signalOf } from './supervisor.ts';
import { hasProc, runsNow, stateOf } from './supervisor-life.ts';
import { apart, controlOf, type Gone, type Hear, readLines, type Start, type Supervisor } from './supervisor-start.ts';

/** So many wait for work, as many as run at once by default; one that nobody wanted for so long goes. */
const MOST_RESTING = 8;
const REST_MS = 60_000;
const LOOK_MS = 25;
/** How a nursery tells that the folder to run in cannot be entered; nothing else there ends with it. */
const NOT_ENTERED = 9;
/** What `ulimit -f` counts in here. */
const BASH_BLOCK = 1024;

/**
 * A small shell that has read the supervisor's script once and forks for the daemon, one command at a time. A fork by the daemon
 * takes 1 ms and 3 more for each 100 MiB of its memory, in which all its sessions stand still; asking takes 0.1 ms.
 *
 * On descriptor 3 it is told a line (`call`, a number, a size) and so many bytes: words in single quotes, which are the folder to run
 * in, the environment, `--` and the supervisor's arguments. Half a request is none: who wrote it died. `set -m` gives what is forked a
 * process group of its own, without a terminal only in bash. Meanwhile the supervisor has descriptor 3; afterwards its end is
 * told here. The environment begins empty: a command has what it is given.
 */
export const NURSERY = `
unset OLDPWD
declare +x SHLVL
blocks=${FILE_BYTES / BASH_BLOCK}
while read -r -u 3 word call size; do
  [ "$word" = call ] || continue
  IFS= read -r -u 3 -N "$size" words || exit
  set -m
  (
    eval "set -- $words"
    cd -P -- "$1" || exit ${NOT_ENTERED}
    shift
    while [ "$1" != -- ]; do export "$1"; shift; done
    shift
    ${SUPERVISOR}
  ) &
  set +m
  wait "$!"
  printf '%s gone %s\\n' "$call" "$?" >&3
done
`;

type Nursery = {
  shell: string;
  child: ChildProcess;
  control: Socket;
  /** How many it was asked for; the last is the one at work. */
  calls: number;
  hear: Hear;
  /** It was killed, or could not be started, for the reason given. */
  fell: (why?: Error) => void;
};

const resting = new Map<Nursery, NodeJS.Timeout>();

/** Whether there can be one: it must be bash (4.1 or newer), and its commands are looked up in /proc. */
export const canNurse = (shell: string): boolean => hasProc && basename(shell) === 'bash';

/** A supervisor that a nursery forks: one that rests, or a new one. `folder` is that of the call. */
export function nursed(shell: string, folder: string, { words, cwd, env }: Start): Supervisor {
  const nursery = rested(shell) ?? opened(shell);
  let [ended, isFree, isWhole] = [false, false, false];
  let hear: Hear = nobody;
  const gone = new Promise<Gone>((resolve, reject) => {
    nursery.hear = (word, numbers) => {
      ended ||= word === 'ended';
      if (word !== 'gone') return hear(word, numbers);
      const status = numbers[0] ?? 0;
      isWhole = status === 0;
      if (status === NOT_ENTERED) reject(new Error(`The command was not begun: ${cwd} cannot be entered.`));
      else resolve(status > 128 ? { code: null, signal: signalOf(status - 128) } : { code: status, signal: null });
    };
    nursery.fell = (why) => (why ? reject(why) : outlived(folder).then(resolve, reject));
  });
  const given = Object.entries(env).flatMap(([name, value]) => (value === undefined ? [] : [`${name}=${value}`]));
  const request = [cwd, ...given, '--', ...words].map(quoted).join(' ');
  nursery.control.write(`call ${++nursery.calls} ${Buffer.byteLength(request)}\n${request}`);
  return {
    hear(listener) {
      hear = listener;
    },
    gone,
    letGo() {
      nursery.control.write('done\n');
      isFree = true;
    },
    leave() {
      nursery.hear = nobody;
      nursery.fell = nobody;
      // Only one of which nothing can come any more, and where nobody waits to read what is meant for the next.
      if (isFree && ended && isWhole) rest(nursery);
      else nursery.control.destroy();
    },
  };
}

const quoted = (word: string): string => `'${word.replaceAll("'", `'\\''`)}'`;

function opened(shell: string): Nursery {
  const args = ['--norc', '--noprofile', '-c', NURSERY, 'agentd-nursery'];
  const child = spawn(shell, args, { cwd: '/', env: {}, ...apart() });
  const control = controlOf(child.stdio);
  const nursery: Nursery = { shell, child, control, calls: 0, hear: nobody, fell: nobody };
  readLines(control, (call, word, numbers) => call === nursery.calls && nursery.hear(word, numbers));
  child.once('error', (why) => nursery.fell(why));
  child.once('exit', () => {
    forget(nursery);
    nursery.fell();
  });
  return nursery;
}

const nobody = (): void => undefined;

function rested(shell: string): Nursery | undefined {
  // One that was killed a moment ago is still here; its end is told with the next turn of the event loop.
  const nursery = [...resting.keys()].find(
    ({ shell: its, child }) => its === shell && runsNow(child.pid ?? Number.NaN),
  );
  if (!nursery) return undefined;
  forget(nursery);
  nursery.child.ref();
  nursery.control.ref();
  return nursery;
}

/** It keeps nobody from ending: it goes when its descriptor 3 is closed, whoever does that. */
function rest(nursery: Nursery): void {
  nursery.child.unref();
  nursery.control.unref();
  const end = (): void => {
    forget(nursery);
    nursery.control.destroy();
  };
  if (resting.size < MOST_RESTING) resting.set(nursery, setTimeout(end, REST_MS).unref());
  else end();
}

function forget(nursery: Nursery): void {
  clearTimeout(resting.get(nursery));
  resting.delete(nursery);
}

/**
 * A nursery was killed. What it began goes on and still tells of its end; whether its supervisor is there must be looked up. Throws where nothing
 * was begun, which then never is.
 */
async function outlived(folder: string): Promise<Gone> {
  const life = await named(folder);
  if (!life) throw new Error('The command was not begun: the process that should begin it was killed.');
  while (stateOf(life) === 'lives') await sleep(LOOK_MS);
  return { code: null, signal: null };
}
