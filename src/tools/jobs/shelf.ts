import { spawn } from 'node:child_process';
import * as fs from 'node:fs';
import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Jobs } from '../../engine/ports.ts';
import { errorCode, UserError } from '../../protocol/errors.ts';
import { coverInherited } from '../inherited.ts';
import { endGroup, groupRuns, until } from '../process-group.ts';
import { releaseGroup } from '../sandbox-group.ts';
import type { Fenced, Program } from '../sandbox-port.ts';
import { bootOfNow, claim, isThisBoot, lifeIn, markOf, stateOf } from '../supervisor-life.ts';
import { commandOf, type Job, jobFiles, jobIn, standingOf } from './job-folder.ts';
import { JOB_SUPERVISOR } from './job-supervisor.ts';

/** Ended jobs whose output can still be looked at. */
const KEPT = 10;
/** What ends at once is told as an end, not as a job. */
const SETTLE_MS = 1000;
const LOOK_MS = 50;
const NAME = /^job_([1-9]\d{0,8})$/;

export type Asked = { call: string; timeoutS: number; most: number };

/** The jobs of one session, as they lie in its folder. Only their names are kept in memory: any daemon finds the same ones. */
export type Shelf = Jobs & {
  /** All that are kept, the oldest first. */
  all(): Job[];
  /** Begins a command and waits a moment. Throws UserError where too many run, or where it could not be begun. */
  begin(program: Program, fence: Fenced | null, asked: Asked, signal: AbortSignal): Promise<Job>;
  /** The job that a call began for a daemon that is no more; 'not begun' where it never will be, null where nobody knows. */
  begunBy(call: string): Promise<Job | 'not begun' | null>;
  /** Ends a job with all its processes; `by` is kept as the reason. A second time changes nothing. */
  stop(job: Job, by: 'model' | 'person' | 'cancel', hurry: AbortSignal): Promise<void>;
  /** The model has been told of its end. */
  tell(job: Job): void;
};

/** The jobs in `root`, which is made with the first of them. `settleMs`: how long a command may take to end at once. */
export function openShelf(root: string, { settleMs = SETTLE_MS }: { settleMs?: number | undefined } = {}): Shelf {
  let said: Job[] = [];
  /** Who opened the shelf is the only one to begin jobs, and asks for them before each step of a run. */
  let names: string[] | undefined;
  const all = () => {
    names ??= namesIn(root).sort((a, b) => numberOf(a) - numberOf(b));
    return names.flatMap((name) => jobIn(join(root, name)) ?? []);
  };
  const running = () => all().filter((job) => standingOf(job).is === 'running');
  return {
    all,
    async begin(program, fenced, asked, signal) {
      const atWork = running();
      if (atWork.length >= asked.most) throw tooMany(atWork, asked.most);
      const job = shelved(root, program, fenced, asked);
      names = undefined;
      for (const old of endedOf(all()).slice(0, -KEPT)) fs.rmSync(old.folder, { recursive: true, force: true });
      await launched(job, program, fenced);
      const settled = performance.now() + settleMs;
      while (standingOf(job).is === 'running' && performance.now() < settled && !signal.aborted) await sleep(LOOK_MS);
      return job;
    },
    async begunBy(call) {
      const job = all().find((one) => one.call === call);
      if (!job) return null;
      if (!lifeIn(job.folder) && claim(job.folder)) return job.boot === bootOfNow() ? 'not begun' : null;
      await until(() => lifeIn(job.folder) !== null, SETTLE_MS);
      return job;
    },
    stop,
    tell,
    news() {
      said = endedOf(all()).filter((job) => !fs.existsSync(jobFiles(job.folder).told));
      return said.map(
        (job) => `${job.id} (${commandOf(job)}) has ended: ${standingOf(job).how}. \`jobs\` shows what it said.`,
      );
    },
    told() {
      said.forEach(tell);
      said = [];
    },
    running: () => running().map((job) => `${job.id} (${commandOf(job)})`),
    async end(upto) {
      const over = running().filter(({ call }) => Number.parseInt(call, 10) <= upto);
      await Promise.all(over.map((job) => stop(job, 'cancel', AbortSignal.abort())));
      return over.map((job) => job.id);
    },
  };
}

const numberOf = (name: string): number => Number(NAME.exec(name)?.[1]);
const endedOf = (jobs: Job[]): Job[] => jobs.filter((job) => standingOf(job).is === 'ended');

function namesIn(root: string): string[] {
  try {
    return fs.readdirSync(root).filter((name) => NAME.test(name));
  } catch (error) {
    if (errorCode(error) === 'ENOENT' || errorCode(error) === 'ENOTDIR') return [];
    throw error;
  }
}

function tooMany(running: Job[], most: number): UserError {
  if (most === 0) return new UserError('Nothing may run in the background here: `limits.jobs` is 0.');
  const named = running.map((job) => `${job.id} (${commandOf(job)})`).join(', ');
  return new UserError(
    `${most === 1 ? 'One job may' : `${most} jobs may`} run at once (\`limits.jobs\`), and there are: ${named}. Nothing was begun. Stop one first: \`jobs\` with \`action\` "stop".`,
  );
}

/** A folder of its own with what was asked for, under a number that no job there has or had. */
function shelved(root: string, { command }: Program, fenced: Fenced | null, { call, timeoutS }: Asked): Job {
  fs.mkdirSync(root, { recursive: true, mode: 0o700 });
  const id = `job_${Math.max(0, ...namesIn(root).map(numberOf)) + 1}`;
  const folder = join(root, id);
  const said = { command, call, timeout_s: timeoutS, boot: bootOfNow(), group: fenced?.group ?? '' };
  fs.mkdirSync(folder, { mode: 0o700 });
  fs.writeFileSync(jobFiles(folder).job, `${JSON.stringify(said)}\n`, { flag: 'wx', mode: 0o600 });
  return { ...said, id, folder };
}

/** Begins it, and comes back once its supervisor has said who it is. */
async function launched(job: Job, program: Program, fenced: Fenced | null): Promise<void> {
  const cpuSeconds = job.timeout_s * availableParallelism() + 60;
  const words = [job.folder, program.shell, program.command, job.timeout_s, markOf(job.folder), cpuSeconds].map(String);
  const fence = fenced ? [fenced.told, fenced.cwd, fenced.group, ...fenced.words] : [];
  const child = spawn('/bin/sh', ['-c', JOB_SUPERVISOR, 'agentd-job', ...words, ...fence], {
    cwd: fenced ? '/' : program.cwd,
    env: fenced?.env ?? program.env,
    detached: true,
    stdio: [...STDIO, ...coverInherited(STDIO.length)],
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
  await until(() => gone || fault !== undefined || lifeIn(job.folder) !== null, SETTLE_MS * 5);
  if (fault) throw fault;
  if (lifeIn(job.folder) === null && (claim(job.folder) || gone)) {
    throw new UserError('The job was not begun: its folder cannot be written. Is the disk full?');
  }
}

const STDIO: Array<'ignore'> = ['ignore', 'ignore', 'ignore', 'ignore'];

async function stop(job: Job, by: 'model' | 'person' | 'cancel', hurry: AbortSignal): Promise<void> {
  const life = lifeIn(job.folder);
  if (life && isThisBoot(life) && stateOf(life) !== 'replaced' && groupRuns(life.pid)) {
    if (standingOf(job).is === 'running') note(jobFiles(job.folder).over, `${by}\n`);
    await endGroup(life.pid, hurry);
  }
  releaseGroup(job.group);
}

function tell(job: Job): void {
  releaseGroup(job.group);
  note(jobFiles(job.folder).told, '');
}

/** A full disk, or somebody was there first: what happened does not change by it. */
function note(path: string, text: string): void {
  try {
    fs.writeFileSync(path, text, { flag: 'wx', mode: 0o600 });
  } catch {
    // See above.
  }
}
