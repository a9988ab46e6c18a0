import * as fs from 'node:fs';
import { constants, totalmem } from 'node:os';
import { join } from 'node:path';
import { errorCode } from '../protocol/errors.ts';
import { HEAD_BYTES, TAIL_BYTES } from './output.ts';

/** What the fence says of itself, in lines and in memory, is bounded: a command can reach the pipe it says it through. */
const FENCE_LINES = 9;
const FENCE_KIB = 65_536;
/** A file of a fenced command may have this size. */
export const FILE_BYTES = 4 * 1024 ** 3;
/** What `ulimit -f` counts in, unless the shell that runs the script has said `blocks`. */
const BLOCK = 512;
/** One process of a fenced command may have half of the machine's memory, in KiB. */
export const DATA_KIB = Math.max(1024 * 1024, Math.floor(totalmem() / 2048));

/** Output of a command that no daemon reads: more than this is a flood, and its writer is ended by its closed pipe. */
const MOST_BYTES = 1024 ** 3;

export const SIGNALS = 'HUP INT QUIT PIPE ALRM TERM USR1 USR2';

/** What lies in the folder of a call. `boot` and `exit` are there from the start; `cut` where part of the output was not kept. */
export const callFiles = (folder: string) => ({
  boot: join(folder, 'boot'),
  pid: join(folder, 'pid'),
  out: join(folder, 'out'),
  tail: join(folder, 'tail'),
  exit: join(folder, 'exit'),
  cut: join(folder, 'cut'),
});

/**
 * The first process of a supervisor, which says who it is: the beginning of its script. `$$` would be the shell that it was
 * forked from, where that is a nursery. It ignores signals rather than trapping them, so that the third, forked from it, is never without:
 * a command can signal its group before that one has said so itself.
 */
export const WHO = `
SIGNALS='${SIGNALS}'
trap '' $SIGNALS
set -C
if [ -r /proc/self/stat ]; then
  read -r stat </proc/self/stat
else
  stat="$$ $(ps -o lstart= -p $$)"
fi && printf '%s\\n%s\\n' "$stat" "$5" >"$1/pid" || exit 1
`;

/** The second, which runs the command and tells its end and exit code by descriptor 3; its output goes on into a pipe. */
export const RUNS = `
{
  trap : $SIGNALS
  exec 2>"$1/exit"
  if [ "$7" = inside ]; then
    trap '' $SIGNALS
    exec 8>&1
    {
      (
        ulimit -t "$6"; ulimit -c 0; ulimit -f "\${blocks:-${FILE_BYTES / BLOCK}}"; ulimit -d ${DATA_KIB}
        [ ! -w /proc/self/oom_score_adj ] || echo 1000 >|/proc/self/oom_score_adj
        cd -P -- "$8" && [ "$PWD" = "$8" ] || { echo 'fault: the work folder is not where it was'; exit; }
        [ -z "$9" ] || echo 0 >|"$9/cgroup.procs" || { echo 'fault: its processes cannot be counted'; exit; }
        shift 9
        exec 4<. && cd / && unset OLDPWD || exit
        exec "$@" 2>&1 >&8 8>&- 3>&-
      ) &
      exec 8>&- 3>&-
      wait $!
      printf 'fence %s\n' "$?"
    } 2>&1 | {
      exec >&- 8>&-
      ulimit -d ${FENCE_KIB}
      n=0 code=
      while [ $((n += 1)) -lt ${FENCE_LINES} ] && read -r line; do
        printf '%s\n' "$line" >&2
        case $line in fence*) break ;; *[!0-9]*) ;; ?*) code=$line; break ;; esac
      done
      printf '%s ended%s\n' "$call" "\${code:+ $code}" 2>/dev/null >&3
    } &
    exec >&- 8>&-
    wait
    exit
  fi
  (
    ulimit -t "$6" 2>/dev/null
    [ "$7" != itself ] || { cd -P -- "$8" || exit; shift 9; exec "$@" 2>&1 3>&-; }
    exec "$2" -c "$3" 2>&1 3>&-
  )
  code=$?
  printf '%s\\n' "$code" >&2
  printf '%s ended %s\\n' "$call" "$code" 2>/dev/null >&3
}`;

/**
 * Outlives the daemon. Its arguments: the folder of the call, a shell, the command, whether a daemon listens, the system's boot, and
 * the seconds of processor time a process of the command may use (should no daemon come back, nobody else ends a loop). Three
 * processes in a group of their own: the first says who it is, and runs nothing where it cannot (`set -C`: nor where somebody
 * else did). The second runs the command and puts its exit code into `exit`, behind what the shell says of a signal. The
 * third holds the command's pipe open. A daemon that lives reads it, and says `done` once the command has ended; where it dies
 * before that, the third puts what comes into files: a beginning and an end, as the daemon would have kept. All survive a signal to the group
 * that can be survived. Descriptor 3 is the daemon's; the command gets none but 0, 1 and 2. What is said there begins with `$call`, the
 * number that a nursery gave it, which forks this for the daemon where there is one.
 *
 * A fenced command has more arguments: whether its fence tells of its end or becomes the command, the real path of its folder (a command beside it may have
 * put a link there since it was looked at; then nothing runs), a control group or nothing, and the words that run it behind its fence. Those keep the group's signals off
 * the fence itself, which ends only with what is in it or by SIGKILL. The end of the command is told through the fence's stderr,
 * before the fence ends: what the command left in the background is in there with it. Only limits that every process
 * inherits are set out here; how many there may be counts from inside.
 */
export const SUPERVISOR = `${WHO}${RUNS} | {
  trap '' $SIGNALS
  exec 5<&0
  if [ "$4" = heard ]; then
    read -r me _ _ _ group _ </proc/self/stat
    printf '%s pipe %s %s\\n' "$call" "$me" "$group" >&3
    read -r order <&3 && exit
  fi
  PATH=$PATH:/usr/bin:/bin
  head -c ${HEAD_BYTES} <&5 >>"$1/out"
  head -c ${MOST_BYTES} <&5 | tail -c ${TAIL_BYTES} >"$1/tail"
}
printf 'whole\\n' >>"$1/exit"
`;

/**
 * The first process behind a fence. Its arguments: how many processes there may be, a shell, and the command. It tells the end of
 * the command by its stderr, and stays until nothing else is left in there.
 */
export const FENCED = `
exec 4<&-
trap : ${SIGNALS}
ulimit -u "$1" 2>/dev/null || ulimit -p "$1" 2>/dev/null
(exec "$2" -c "$3" 2>&1)
code=$?
printf '%s\n' "$code" >&2
exec >&- 2>&-
PATH=$PATH:/usr/bin:/bin
while set -- /proc/[0-9]*; [ $# -gt 2 ]; do sleep 0.02; done
exit "$code"
`;

/** Where the third of the supervisor's processes has the command's pipe. */
export const pipeOf = (pid: number): string => `/proc/${pid}/fd/5`;

/** How the command ended, from `exit`. `whole`: all it said was kept as well. */
export type Exit = {
  code: number | null;
  signal: NodeJS.Signals | null;
  whole: boolean;
  /** Why the command was not begun: its fence could not be put up. */
  fault?: string;
};

/**
 * Null where the command has not ended. A shell tells a signal only by 128 and its number, which any program may exit
 * with; but of a signal it also prints a line. (None of SIGINT and SIGPIPE: those two stay numbers.)
 */
export function exitIn(folder: string): Exit | null {
  const lines = textOf(callFiles(folder).exit).split('\n').slice(0, -1);
  const at = lines.findIndex((line) => /^\d+$/.test(line));
  if (at < 0) return unfinished(lines);
  const code = Number(lines[at]);
  const signal = at > 0 ? signalOf(code - 128) : null;
  return { code: signal ? null : code, signal, whole: lines[at + 1] === 'whole' };
}

/** A fence that ended and did not tell how its command did; its own complaint, where it has one, came before that began. */
function unfinished(lines: string[]): Exit | null {
  if (!lines.some((line) => /^fence \d+$/.test(line))) return null;
  const fault = lines.find((line) => /^(?:bwrap|fault|env): /.test(line));
  return { code: null, signal: null, whole: lines.at(-1) === 'whole', ...(fault !== undefined && { fault }) };
}

/** The name of a signal; null where it has none here. */
export function signalOf(number: number): NodeJS.Signals | null {
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
