import { spawn } from 'node:child_process';
import { Socket } from 'node:net';
import { totalmem } from 'node:os';
import { HEAD_BYTES, TAIL_BYTES } from './command-output.ts';
import { coverInheritedDescriptors } from './inherited-descriptors.ts';

/**
 * What the fence says of itself, in lines and in memory, is bounded: a command can reach the pipe it says it through.
 */
const MAX_SANDBOX_LINES = 9;
const SANDBOX_READER_KIB = 65_536;
/** A file of a fenced command may have this size. */
export const MAX_FILE_BYTES = 4 * 1024 ** 3;
/** What `ulimit -f` counts in, unless the shell that runs the script has said `blocks`. */
const ULIMIT_BLOCK_BYTES = 512;
/** One process of a fenced command may have half of the machine's memory, in KiB. */
export const MAX_DATA_KIB = Math.max(1024 * 1024, Math.floor(totalmem() / 2048));

/** Output of a command that no daemon reads: more than this is a flood, and its writer is ended by its closed pipe. */
const MAX_UNREAD_BYTES = 1024 ** 3;

export const IGNORED_SIGNALS = 'HUP INT QUIT PIPE ALRM TERM USR1 USR2';

/**
 * The first process of a supervisor, which says who it is: the beginning of its script. `$$` would be the shell that it
 * was forked from, where that is a nursery. It ignores signals rather than trapping them, so that the third, forked
 * from it, is never without: a command can signal its group before that one has said so itself.
 */
export const IDENTIFY_SCRIPT = `
SIGNALS='${IGNORED_SIGNALS}'
trap '' $SIGNALS
set -C
if [ -r /proc/self/stat ]; then
  read -r stat </proc/self/stat
else
  stat="$$ $(ps -o lstart= -p $$)"
fi && printf '%s\\n%s\\n' "$stat" "$5" >"$1/pid" || exit 1
`;

/**
 * The second, which runs the command and tells its end and exit code by descriptor 3; its output goes on into a pipe.
 */
export const RUN_SCRIPT = `
{
  trap : $SIGNALS
  exec 2>"$1/exit"
  if [ "$7" = inside ]; then
    trap '' $SIGNALS
    exec 8>&1
    {
      (
        ulimit -t "$6"; ulimit -c 0; ulimit -f "\${blocks:-${MAX_FILE_BYTES / ULIMIT_BLOCK_BYTES}}"; ulimit -d ${MAX_DATA_KIB}
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
      ulimit -d ${SANDBOX_READER_KIB}
      n=0 code=
      while [ $((n += 1)) -lt ${MAX_SANDBOX_LINES} ] && read -r line; do
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
 * Outlives the daemon. Its arguments: the folder of the call, a shell, the command, whether a daemon listens, the
 * system's boot, and the seconds of processor time a process of the command may use (should no daemon come back, nobody
 * else ends a loop). Three processes in a group of their own: the first says who it is, and runs nothing where it
 * cannot (`set -C`: nor where somebody else did). The second runs the command and puts its exit code into `exit`,
 * behind what the shell says of a signal. The third holds the command's pipe open. A daemon that lives reads it, and
 * says `done` once the command has ended; where it dies before that, the third puts what comes into files: a beginning
 * and an end, as the daemon would have kept. All survive a signal to the group that can be survived. Descriptor 3 is
 * the daemon's; the command gets none but 0, 1 and 2. What is said there begins with `$call`, the number that a nursery
 * gave it, which forks this for the daemon where there is one.
 *
 * A fenced command has more arguments: whether its fence tells of its end or becomes the command, the real path of its
 * folder (a command beside it may have put a link there since it was looked at; then nothing runs), a control group or
 * nothing, and the words that run it behind its fence. Those keep the group's signals off the fence itself, which ends
 * only with what is in it or by SIGKILL. The end of the command is told through the fence's stderr, before the fence
 * ends: what the command left in the background is in there with it. Only limits that every process inherits are set
 * out here; how many there may be counts from inside.
 */
export const SUPERVISOR_SCRIPT = `${IDENTIFY_SCRIPT}${RUN_SCRIPT} | {
  trap '' $SIGNALS
  exec 5<&0
  if [ "$4" = heard ]; then
    read -r me _ _ _ group _ </proc/self/stat
    printf '%s pipe %s %s\\n' "$call" "$me" "$group" >&3
    read -r order <&3 && exit
  fi
  PATH=$PATH:/usr/bin:/bin
  head -c ${HEAD_BYTES} <&5 >>"$1/out"
  head -c ${MAX_UNREAD_BYTES} <&5 | tail -c ${TAIL_BYTES} >"$1/tail"
}
printf 'whole\\n' >>"$1/exit"
`;

/** Where the third of the supervisor's processes has the command's pipe. */
export const outputPipePath = (pid: number): string => `/proc/${pid}/fd/5`;

/** What a supervisor is started with: its arguments, and where and in which environment the command runs. */
export type SupervisorStart = { words: string[]; cwd: string; env: NodeJS.ProcessEnv };

/** How the first process of a supervisor ended; nothing of both where nobody saw it. */
export type ProcessExit = { code: number | null; signal: NodeJS.Signals | null };

/** A line that it said. */
export type LineListener = (word: string, numbers: number[]) => void;

/** A supervisor at work, as the daemon has it. */
export type SupervisorProcess = {
  /** Each line it says: a word, and numbers. One listener, from the start on. */
  onLine(line: LineListener): void;
  /** Rejects where nothing was started. */
  exited: Promise<ProcessExit>;
  /** All was heard: it need not keep anything. */
  dismiss(): void;
  /** Nobody listens any more. Where it was not let go, it keeps what still comes. */
  detach(): void;
};

/**
 * What the lines on descriptor 3 are to a reader: whole ones, as they come. `call` is the number before each, if any.
 */
export function readControlLines(control: Socket, line: (call: number, word: string, numbers: number[]) => void): void {
  let said = '';
  control.on('data', (data: Buffer) => {
    const lines = (said + data.toString('latin1')).split('\n');
    said = lines.pop() ?? '';
    for (const one of lines) {
      const [call = '', word = '', ...numbers] = one.split(' ');
      line(Number(call), word, numbers.map(Number));
    }
  });
}

/** The other end of descriptor 3. What its reader had not read when it went is an error here, and nobody's loss. */
export function controlSocket(stdio: ReadonlyArray<unknown>): Socket {
  const control = stdio[3];
  if (!(control instanceof Socket)) throw new Error('A supervisor without a socket.');
  control.on('error', () => undefined);
  return control;
}

const STDIO: Array<'ignore' | 'pipe'> = ['ignore', 'ignore', 'ignore', 'pipe'];

/**
 * What every process is started with that waits for words on descriptor 3: a session of its own and nothing of this
 * process.
 */
export const detachedStdio = () => ({ detached: true, stdio: [...STDIO, ...coverInheritedDescriptors(STDIO.length)] });

/** A supervisor that this process forks itself, where there is no nursery. */
export function spawnSupervisor({ words, cwd, env }: SupervisorStart): SupervisorProcess {
  const child = spawn('/bin/sh', ['-c', SUPERVISOR_SCRIPT, 'agentd-call', ...words], { cwd, env, ...detachedStdio() });
  const control = controlSocket(child.stdio);
  return {
    onLine: (line) => readControlLines(control, (_, word, numbers) => line(word, numbers)),
    exited: new Promise((resolve, reject) => {
      child.once('error', reject);
      child.once('exit', (code, signal) => resolve({ code, signal }));
    }),
    dismiss: () => control.write('done\n'),
    detach: () => control.destroy(),
  };
}

/** A command, and where it runs. */
export type ShellCommand = { shell: string; command: string; cwd: string; env: NodeJS.ProcessEnv };

/** How the supervisor starts a command behind a fence. */
export type SandboxedCommand = {
  /** `inside`: the fence tells the command's end by its stderr; `itself`: the words become the command. */
  endReportedBy: 'inside' | 'itself';
  words: string[];
  env: NodeJS.ProcessEnv;
  /** The real path of the folder it runs in; nothing runs where that is another by then. */
  cwd: string;
  /** A control group that counts its processes; empty where they are counted otherwise. */
  group: string;
  /** Once it has ended. */
  release(): void;
};
