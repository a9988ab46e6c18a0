import { spawn } from 'node:child_process';
import * as fs from 'node:fs';
import { Socket } from 'node:net';
import { totalmem } from 'node:os';
import { attempt } from '../../base/user-error.ts';
import { HEAD_BYTES, TAIL_BYTES } from './command-output.ts';
import { startedChild } from './process-group.ts';

/** Lines and memory for the sandbox's own messages are limited: a command can write to the same pipe. */
const MAX_SANDBOX_LINES = 9;
const SANDBOX_READER_KIB = 65_536;
/** Maximum size of a file of a sandboxed command. */
export const MAX_FILE_BYTES = 4 * 1024 ** 3;
/** The unit of `ulimit -f`, unless the shell that runs the script has set `blocks`. */
const ULIMIT_BLOCK_BYTES = 512;
/** Memory limit for one process of a sandboxed command, in KiB: half of the machine's. */
export const MAX_DATA_KIB = Math.max(1024 * 1024, Math.floor(totalmem() / 2048));

/** Limit for output that no daemon reads: beyond it the writer is ended by its closed pipe. */
const MAX_UNREAD_BYTES = 1024 ** 3;

export const IGNORED_SIGNALS = 'HUP INT QUIT PIPE ALRM TERM USR1 USR2';

/**
 * The first process of a supervisor, which identifies itself: the beginning of its script. `$$` would be the parent
 * shell if a fork server forked it. It ignores signals rather than trapping them, so that the third process, forked
 * from it, is protected from the start: a command can signal its group before that one has ignored them itself.
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
 * The second process, which runs the command and reports its end and exit code on descriptor 3; its output goes into a
 * pipe.
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
      printf 'sandbox %s\n' "$?"
    } 2>&1 | {
      exec >&- 8>&-
      ulimit -d ${SANDBOX_READER_KIB}
      n=0 code=
      while [ $((n += 1)) -lt ${MAX_SANDBOX_LINES} ] && read -r line; do
        printf '%s\n' "$line" >&2
        case $line in sandbox*) break ;; *[!0-9]*) ;; ?*) code=$line; break ;; esac
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
 * Outlives the daemon. Its arguments: the folder of the call, a shell, the command, whether a daemon is connected, the
 * system's boot, and the seconds of processor time a process of the command may use (if no daemon returns, nobody else
 * ends an endless loop). Three processes in their own group: the first identifies itself, and runs nothing if it cannot
 * (`set -C`: nor if somebody else did). The second runs the command and writes its exit code to `exit`, after what the
 * shell prints about a signal. The third keeps the command's pipe open. A running daemon reads it, and sends `done`
 * once the command has ended; if the daemon dies before that, the third stores the output in files: a beginning and an
 * end, as the daemon would have kept. Meanwhile `beat` grows each second, which other machines see, and `synced` says
 * that the output is on disk. All ignore those signals to the group that can be ignored. Descriptor 3 is the
 * daemon's; the command gets none but 0, 1 and 2. Lines on it begin with `$call`, the number given by the fork server,
 * if one forks this for the daemon.
 *
 * A sandboxed command has more arguments: whether its sandbox reports its end or becomes the command, the real path of
 * its folder (another command may have put a link there since the check; then nothing runs), a control group or
 * nothing, and the words that run it in its sandbox. Those keep the group's signals from the sandbox itself, which ends
 * only with its content or by SIGKILL. The end of the command is reported through the sandbox's stderr, before the
 * sandbox ends: what the command left in the background is inside with it. Only limits that every process inherits are
 * set here; the process limit is set inside.
 */
export const SUPERVISOR_SCRIPT = `${IDENTIFY_SCRIPT}${RUN_SCRIPT} | {
  trap '' $SIGNALS
  exec 5<&0
  if [ "$4" = watched ]; then
    read -r me _ _ _ group _ </proc/self/stat
    printf '%s pipe %s %s\\n' "$call" "$me" "$group" >&3
    read -r order <&3 && exit
  fi
  PATH=$PATH:/usr/bin:/bin
  if [ "$4" = watched ] && read -r first _ <"$1/pid"; then
    setsid sh -c 'while printf . >>"$1/beat" && kill -0 "$2"; do sleep 1; done' agentd-beat "$1" "$first" \
      </dev/null >/dev/null 2>&1 3>&- 5>&- &
  fi
  head -c ${HEAD_BYTES} <&5 >>"$1/out"
  head -c ${MAX_UNREAD_BYTES} <&5 | tail -c ${TAIL_BYTES} >"$1/tail"
  if [ "$4" = watched ] && sync "$1/out" "$1/tail" 2>/dev/null; then : >"$1/synced"; fi
}
printf 'whole\\n' >>"$1/exit"
`;

/** The path of the command's pipe in the third of the supervisor's processes. */
export const outputPipePath = (pid: number): string => `/proc/${pid}/fd/5`;

/** How a supervisor is started: its arguments, and the command's working folder and environment. */
export type SupervisorStart = { words: string[]; cwd: string; env: NodeJS.ProcessEnv };

/** How the first process of a supervisor ended; both null if nobody saw it. */
export type ProcessExit = { code: number | null; signal: NodeJS.Signals | null };

/** Receives a line of the supervisor. */
export type LineListener = (word: string, numbers: number[]) => void;

/** A running supervisor, as the daemon sees it. */
export type SupervisorProcess = {
  /** Each line from it: a word, and numbers. One listener, set at the start. */
  onLine(line: LineListener): void;
  /** Rejects if nothing was started. */
  exited: Promise<ProcessExit>;
  /** All output was received: it need not store anything. */
  dismiss(): void;
  /** Stops listening. Unless dismissed, the supervisor stores further output. */
  detach(): void;
};

/** Parses complete lines from descriptor 3 as they arrive. `call` is the number before each, if any. */
export function readControlLines(control: Socket, line: (call: number, word: string, numbers: number[]) => void): void {
  let partialLine = '';
  control.on('data', (data: Buffer) => {
    const lines = (partialLine + data.toString('latin1')).split('\n');
    partialLine = lines.pop() ?? '';
    for (const one of lines) {
      const [call = '', word = '', ...numbers] = one.split(' ');
      line(Number(call), word, numbers.map(Number));
    }
  });
}

/** Our end of descriptor 3. Data its reader had not read when it exited causes an error here, which does no harm. */
export function controlSocket(stdio: ReadonlyArray<unknown>): Socket {
  const control = stdio[3];
  if (!(control instanceof Socket)) throw new Error('A supervisor without a socket.');
  control.on('error', () => undefined);
  return control;
}

const STDIO: Array<'ignore' | 'pipe'> = ['ignore', 'ignore', 'ignore', 'pipe'];

/**
 * The options for every process that takes requests on descriptor 3: its own session and nothing inherited from this
 * process.
 */
export const detachedStdio = () => ({ detached: true, stdio: [...STDIO, ...coverInheritedDescriptors(STDIO.length)] });

/** A supervisor that this process forks itself, without a fork server. */
export function spawnSupervisor({ words, cwd, env }: SupervisorStart): SupervisorProcess {
  const args = ['-c', SUPERVISOR_SCRIPT, 'agentd-call', ...words];
  const child = startedChild(() => spawn('/bin/sh', args, { cwd, env, ...detachedStdio() }));
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

/** How the supervisor starts a sandboxed command. */
export type SandboxedCommand = {
  /** `inside`: the sandbox reports the command's end on its stderr; `itself`: the words become the command. */
  endReportedBy: 'inside' | 'itself';
  words: string[];
  env: NodeJS.ProcessEnv;
  /** The real path of its working folder; nothing runs if that has changed by then. */
  cwd: string;
  /** A control group that counts its processes; empty if they are counted otherwise. */
  group: string;
  /** Call once it has ended. */
  release(): void;
};

const O_CLOEXEC = 0o2000000;

let inherited: number[] | undefined;
let devNullFd: number | undefined;

/**
 * Entries for a child's `stdio`, from number `from` on, that replace descriptors this process itself inherited with an
 * empty input. Node opens its own descriptors so that children do not get them, but cannot close inherited ones for a
 * child. An inherited folder would be a way out of any sandbox.
 */
export function coverInheritedDescriptors(from: number): Array<'ignore' | number> {
  inherited ??= inheritableDescriptors().filter((fd) => fd >= from);
  const last = Math.max(from - 1, ...inherited);
  const covered = new Set(inherited);
  return Array.from({ length: last + 1 - from }, (_, n) => (covered.has(n + from) ? openDevNull() : 'ignore'));
}

function openDevNull(): number {
  devNullFd ??= fs.openSync('/dev/null', 'r+');
  return devNullFd;
}

/** Read from /proc; without it they are unknown. */
function inheritableDescriptors(): number[] {
  return attempt(() => fs.readdirSync('/proc/self/fd').map(Number).filter(isInheritable)) ?? [];
}

function isInheritable(fd: number): boolean {
  try {
    const flags = /^flags:\s*([0-7]+)$/m.exec(fs.readFileSync(`/proc/self/fdinfo/${fd}`, 'utf8'))?.[1];
    return flags !== undefined && (Number.parseInt(flags, 8) & O_CLOEXEC) === 0;
  } catch {
    return false;
  }
}
