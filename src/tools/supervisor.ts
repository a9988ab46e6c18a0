import * as fs from 'node:fs';
import { constants } from 'node:os';
import { join } from 'node:path';
import { errorCode } from '../protocol/errors.ts';
import { HEAD_BYTES, TAIL_BYTES } from './output.ts';

/** Output of a command that no daemon reads: more than this is a flood, and its writer is ended by its closed pipe. */
const MOST_BYTES = 1024 ** 3;

/** What lies in the folder of a call. `exit` is there from the start; `cut` where part of the output was not kept. */
export const callFiles = (folder: string) => ({
  pid: join(folder, 'pid'),
  out: join(folder, 'out'),
  tail: join(folder, 'tail'),
  exit: join(folder, 'exit'),
  cut: join(folder, 'cut'),
});

/**
 * Outlives the daemon. Its arguments: the folder of the call, a shell, the command, whether a daemon listens, the system's boot, and
 * the seconds of processor time a process of the command may use (should no daemon come back, nobody else ends a loop). Three
 * processes in a group of their own: the first says who it is, and runs nothing where it cannot (`set -C`: nor where somebody
 * else did). The second runs the command and puts its exit code into `exit`, behind what the shell says of a signal. The
 * third holds the command's pipe open. A daemon that lives reads it, and says `done` once the command has ended; where it dies
 * before that, the third puts what comes into files: a beginning and an end, as the daemon would have kept. All survive a signal to the group
 * that can be survived. Descriptor 3 is the daemon's; the command gets none but 0, 1 and 2.
 */
export const SUPERVISOR = `
SIGNALS='HUP INT QUIT PIPE ALRM TERM USR1 USR2'
trap : $SIGNALS
set -C
if [ -r /proc/$$/stat ]; then
  read -r stat </proc/$$/stat
else
  stat="$$ $(ps -o lstart= -p $$)"
fi && printf '%s\\n%s\\n' "$stat" "$5" >"$1/pid" || exit 1
{
  trap : $SIGNALS
  exec 2>"$1/exit"
  (ulimit -t "$6" 2>/dev/null; exec "$2" -c "$3" 2>&1 3>&-)
  printf '%s\\n' "$?" >&2
  printf 'ended\\n' 2>/dev/null >&3
} | {
  trap '' $SIGNALS
  exec 5<&0
  if [ "$4" = heard ]; then
    read -r me _ </proc/self/stat
    printf 'pipe %s\\n' "$me" >&3
    read -r order <&3 && exit
  fi
  PATH=$PATH:/usr/bin:/bin
  head -c ${HEAD_BYTES} <&5 >>"$1/out"
  head -c ${MOST_BYTES} <&5 | tail -c ${TAIL_BYTES} >"$1/tail"
}
printf 'whole\\n' >>"$1/exit"
`;

/** Where the third of the supervisor's processes has the command's pipe. */
export const pipeOf = (pid: number): string => `/proc/${pid}/fd/5`;

/** How the command ended, from `exit`. `whole`: all it said was kept as well. */
export type Exit = { code: number | null; signal: NodeJS.Signals | null; whole: boolean };

/**
 * Null where the command has not ended. A shell tells a signal only by 128 and its number, which any program may exit
 * with; but of a signal it also prints a line. (None of SIGINT and SIGPIPE: those two stay numbers.)
 */
export function exitIn(folder: string): Exit | null {
  const lines = textOf(callFiles(folder).exit).split('\n').slice(0, -1);
  const at = lines.findIndex((line) => /^\d+$/.test(line));
  if (at < 0) return null;
  const code = Number(lines[at]);
  const signal = at > 0 ? signalOf(code - 128) : null;
  return { code: signal ? null : code, signal, whole: lines[at + 1] === 'whole' };
}

function signalOf(number: number): NodeJS.Signals | null {
  const isSignal = (name: string): name is NodeJS.Signals => name in constants.signals;
  return (
    Object.keys(constants.signals)
      .filter(isSignal)
      .find((name) => constants.signals[name] === number) ?? null
  );
}

/** The text of a small file; empty where there is none, or where its process went while it was read. */
export function textOf(path: string): string {
  try {
    return fs.readFileSync(path, 'utf8');
  } catch (error) {
    if (errorCode(error) === 'ENOENT' || errorCode(error) === 'ESRCH') return '';
    throw error;
  }
}
