import { spawn } from 'node:child_process';
import * as fs from 'node:fs';
import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { errorCode, UserError } from '../../base/user-error.ts';
import type { Jobs } from '../../engine/ports/tool-ports.ts';
import { currentBootId } from '../../store/fs/process-identity.ts';
import {
  bootAndFolderId,
  claimCall,
  isThisBoot,
  processState,
  readSupervisorIdentity,
} from '../process/call-folder.ts';
import { endGroup, isGroupRunning, removeControlGroup, waitUntil } from '../process/process-group.ts';
import {
  coverInheritedDescriptors,
  IDENTIFY_SCRIPT,
  RUN_SCRIPT,
  type SandboxedCommand,
  type ShellCommand,
} from '../process/supervisor.ts';
import { commandLine, type Job, jobFiles, jobStatus, readJob } from './job-folder.ts';

/** How many ended jobs are kept, so that their output can be read. */
const MAX_ENDED = 10;
/** A command that ends within this time is reported as ended, not as a job. */
const SETTLE_MS = 1000;
const POLL_MS = 50;
const JOB_NAME = /^job_([1-9]\d{0,8})$/;

export type JobRequest = { call: string; timeoutS: number; most: number };

/**
 * The jobs of one session, stored in its folder. Only their names are kept in memory: any daemon finds the same ones.
 */
export type JobStore = Jobs & {
  /** All stored jobs, oldest first. */
  list(): Job[];
  /** Starts a command and waits a moment. Throws UserError if too many run, or if it could not be started. */
  start(
    command: ShellCommand,
    sandboxed: SandboxedCommand | null,
    request: JobRequest,
    signal: AbortSignal,
  ): Promise<Job>;
  /** The job that a call of an earlier daemon started; 'not begun' if it never will be, null if unknown. */
  startedBy(call: string): Promise<Job | 'not begun' | null>;
  /** Ends a job with all its processes; `by` is stored as the reason. Idempotent. */
  stop(job: Job, by: 'model' | 'person' | 'cancel', hurry: AbortSignal): Promise<void>;
  /** Marks the end of a job as reported to the model. */
  markJobReported(job: Job): void;
};

/**
 * The jobs in `root`, which is created with the first one. `settleMs`: how long to wait for a command that ends at
 * once.
 */
export function openJobStore(root: string, { settleMs = SETTLE_MS }: { settleMs?: number | undefined } = {}): JobStore {
  let unreported: Job[] = [];
  /** Cached, since only the opener of the store starts jobs, and it lists them before each step of a run. */
  let names: string[] | undefined;
  const all = () => {
    names ??= jobNames(root).sort((a, b) => jobNumber(a) - jobNumber(b));
    return names.flatMap((name) => readJob(join(root, name)) ?? []);
  };
  const running = () => all().filter((job) => jobStatus(job).state === 'running');
  async function begin(command: ShellCommand, sandboxed: SandboxedCommand | null, request: JobRequest): Promise<Job> {
    const atWork = running();
    if (atWork.length >= request.most) throw tooManyJobs(atWork, request.most);
    const job = createJobFolder(root, command, sandboxed, request);
    names = undefined;
    for (const old of endedJobs(all()).slice(0, -MAX_ENDED)) fs.rmSync(old.folder, { recursive: true, force: true });
    await launchJob(job, command, sandboxed);
    return job;
  }
  return {
    list: all,
    async start(command, sandboxed, request, signal) {
      const job = await begin(command, sandboxed, request).catch((error: unknown) => {
        sandboxed?.release();
        throw error;
      });
      const settledAt = performance.now() + settleMs;
      while (jobStatus(job).state === 'running' && performance.now() < settledAt && !signal.aborted)
        await sleep(POLL_MS);
      return job;
    },
    async startedBy(call) {
      const job = all().find((one) => one.call === call);
      if (!job) return null;
      if (!readSupervisorIdentity(job.folder) && claimCall(job.folder))
        return job.boot === currentBootId() ? 'not begun' : null;
      await waitUntil(() => readSupervisorIdentity(job.folder) !== null, SETTLE_MS);
      return job;
    },
    stop: stopJob,
    markJobReported,
    listUnreported() {
      unreported = endedJobs(all()).filter((job) => !fs.existsSync(jobFiles(job.folder).reported));
      return unreported.map(
        (job) => `${job.id} (${commandLine(job)}) has ended: ${jobStatus(job).how}. \`jobs\` shows its output.`,
      );
    },
    markAllReported() {
      unreported.forEach(markJobReported);
      unreported = [];
    },
    listRunning: () => running().map((job) => `${job.id} (${commandLine(job)})`),
    async end(upto) {
      const over = running().filter(({ call }) => Number.parseInt(call, 10) <= upto);
      await Promise.all(over.map((job) => stopJob(job, 'cancel', AbortSignal.abort())));
      return over.map((job) => job.id);
    },
  };
}

const jobNumber = (name: string): number => Number(JOB_NAME.exec(name)?.[1]);
const endedJobs = (jobs: Job[]): Job[] => jobs.filter((job) => jobStatus(job).state === 'ended');

function jobNames(root: string): string[] {
  try {
    return fs.readdirSync(root).filter((name) => JOB_NAME.test(name));
  } catch (error) {
    if (errorCode(error) === 'ENOENT' || errorCode(error) === 'ENOTDIR') return [];
    throw error;
  }
}

function tooManyJobs(running: Job[], most: number): UserError {
  if (most === 0) return new UserError('Nothing may run in the background here: `limits.jobs` is 0.');
  const named = running.map((job) => `${job.id} (${commandLine(job)})`).join(', ');
  return new UserError(
    `${most === 1 ? 'One job may' : `${most} jobs may`} run at once (\`limits.jobs\`), and there are: ${named}. Nothing was begun. Stop one first: \`jobs\` with \`action\` "stop".`,
  );
}

/** Creates a folder with the request, under a number that no other job has or had. */
function createJobFolder(
  root: string,
  { command }: ShellCommand,
  sandboxed: SandboxedCommand | null,
  { call, timeoutS }: JobRequest,
): Job {
  fs.mkdirSync(root, { recursive: true, mode: 0o700 });
  const id = `job_${Math.max(0, ...jobNames(root).map(jobNumber)) + 1}`;
  const folder = join(root, id);
  const info = { command, call, timeout_s: timeoutS, boot: currentBootId(), group: sandboxed?.group ?? '' };
  fs.mkdirSync(folder, { mode: 0o700 });
  fs.writeFileSync(jobFiles(folder).job, `${JSON.stringify(info)}\n`, { flag: 'wx', mode: 0o600 });
  return { ...info, id, folder };
}

/** Starts it, and returns once its supervisor has identified itself. */
async function launchJob(job: Job, command: ShellCommand, sandboxed: SandboxedCommand | null): Promise<void> {
  const cpuSeconds = job.timeout_s * availableParallelism() + 60;
  const words = [
    job.folder,
    command.shell,
    command.command,
    job.timeout_s,
    bootAndFolderId(job.folder),
    cpuSeconds,
  ].map(String);
  const sandboxWords = sandboxed ? [sandboxed.endReportedBy, sandboxed.cwd, sandboxed.group, ...sandboxed.words] : [];
  const child = spawn('/bin/sh', ['-c', JOB_SCRIPT, 'agentd-job', ...words, ...sandboxWords], {
    cwd: sandboxed ? '/' : command.cwd,
    env: sandboxed?.env ?? command.env,
    detached: true,
    stdio: [...STDIO, ...coverInheritedDescriptors(STDIO.length)],
  });
  let gone = false;
  let fault: Error | undefined;
  child.once('exit', () => {
    gone = true;
  });
  child.once('error', (error) => {
    fault = error;
  });
  child.unref();
  await waitUntil(() => gone || fault !== undefined || readSupervisorIdentity(job.folder) !== null, SETTLE_MS * 5);
  if (fault) throw fault;
  if (readSupervisorIdentity(job.folder) === null && (claimCall(job.folder) || gone)) {
    throw new UserError('The job was not started: its folder cannot be written. Is the disk full?');
  }
}

const STDIO: Array<'ignore'> = ['ignore', 'ignore', 'ignore', 'ignore'];

async function stopJob(job: Job, by: 'model' | 'person' | 'cancel', hurry: AbortSignal): Promise<void> {
  const life = readSupervisorIdentity(job.folder);
  if (life && isThisBoot(life) && processState(life) !== 'replaced' && isGroupRunning(life.pid)) {
    if (jobStatus(job).state === 'running') writeOnce(jobFiles(job.folder).over, `${by}\n`);
    await endGroup(life.pid, hurry);
  }
  removeControlGroup(job.group);
}

function markJobReported(job: Job): void {
  removeControlGroup(job.group);
  writeOnce(jobFiles(job.folder).reported, '');
}

/** Ignores a full disk and an existing file, which change nothing about the outcome. */
function writeOnce(path: string, text: string): void {
  try {
    fs.writeFileSync(path, text, { flag: 'wx', mode: 0o600 });
  } catch {
    // Ignored, as said above.
  }
}

/** A job as text; `for_s`: seconds it has run, or since its end if known. */
type JobSummary = { id: string; command: string; running: boolean; how: string; for_s: number | null };

/** The jobs in a session's `jobs/`, for a person, with or without a running daemon. */
export function inspectJobs(root: string): { lines(): JobSummary[]; stop(id: string): Promise<void> } {
  const store = openJobStore(root);
  return {
    lines: () =>
      store.list().map((job) => {
        const { state, how, seconds } = jobStatus(job);
        const for_s = seconds === undefined ? null : Math.floor(seconds);
        return { id: job.id, command: commandLine(job), running: state === 'running', how, for_s };
      }),
    async stop(id) {
      const job = store.list().find((one) => one.id === id);
      const known = store.list().map((one) => one.id);
      if (!job) throw new UserError(`There is no job ${id}. There are: ${known.join(', ') || 'none'}.`);
      await store.stop(job, 'person', new AbortController().signal);
      if (jobStatus(job).state === 'running') throw new UserError(`${id} cannot be ended by this user.`);
    },
  };
}

/** A piece of the output is complete from this size on; it may exceed it by one read. */
export const PIECE_BYTES = 1024 * 1024;
const BLOCK_BYTES = 4096;
const PIECE_BLOCKS = PIECE_BYTES / BLOCK_BYTES;

/**
 * Runs a job: a command that continues after the call that started it, with or without a daemon. Its arguments are
 * those of `SUPERVISOR_SCRIPT`, except that the job's time limit in seconds takes the place of whether a daemon is
 * watching. Four processes in their own group. The first and the second are those of a call.
 *
 * The third stores the output as it arrives (`head` and `cat` would buffer it, or have no limit): pieces named after
 * their first byte offset, of which the first and the last two are kept. Output that does not fit on the disk is
 * discarded, so that the command continues.
 *
 * The fourth ends the group: when the time is up, when a file `stop` appears, when the job's folder is removed or
 * moved, and, a moment after the command has ended, whatever it left in the background. It survives the SIGTERM it
 * sends.
 */
const JOB_SCRIPT = `${IDENTIFY_SCRIPT}
exec 3>"$1/ended"
{
  trap : $SIGNALS
  PATH=$PATH:/usr/bin:/bin
  exec >/dev/null 3>&-
  n=0
  while [ "$((n += 1))" -le "$4" ] && [ -e "$1/pid" ] && [ ! -e "$1/stop" ] && [ ! -s "$1/ended" ]; do sleep 1; done
  if [ -s "$1/ended" ]; then
    sleep 1
  elif [ -e "$1/stop" ]; then
    printf 'stop\\n' >"$1/over"
  elif [ -e "$1/pid" ]; then
    printf 'timeout\\n' >"$1/over"
  fi
  kill -TERM 0
  n=0
  while [ "$((n += 1))" -le 20 ]; do sleep 0.1; done
  kill -KILL 0
} 2>/dev/null &
watch=$!
${RUN_SCRIPT.trimStart()} | {
  trap '' $SIGNALS
  exec 5<&0 3>&- 2>/dev/null
  PATH=$PATH:/usr/bin:/bin
  at=0 size=0 last=
  while :; do
    if ! dd bs=${BLOCK_BYTES} count=${PIECE_BLOCKS} <&5 >>"$1/out.$at"; then
      [ "$(dd bs=${BLOCK_BYTES} count=1 <&5 | wc -c)" -gt 0 ] || break
      continue
    fi
    now=$(($(wc -c <"$1/out.$at") + 0))
    [ "$now" -gt "$size" ] || break
    size=$now
    [ "$size" -ge ${PIECE_BYTES} ] || continue
    if [ "$at" -gt 0 ]; then
      [ -z "$last" ] || rm -f "$1/out.$last"
      last=$at
    fi
    at=$((at + size)) size=0
  done
}
printf 'whole\\n' >>"$1/exit"
kill -KILL "$watch"
`;
