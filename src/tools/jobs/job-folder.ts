import * as fs from 'node:fs';
import { basename, join } from 'node:path';
import { z } from 'zod';
import { getOwn } from '../../base/collections.ts';
import { truncate } from '../../base/strings.ts';
import {
  callFiles,
  isThisBoot,
  processState,
  readExit,
  readSmallFile,
  readSupervisorIdentity,
  runningForMs,
} from '../process/call-folder.ts';

/** Files in the folder of a job, besides those a supervisor writes. */
export const jobFiles = (folder: string) => ({
  job: join(folder, 'job.json'),
  /** Created by anyone who wants the job to end. */
  stop: join(folder, 'stop'),
  /** Why it was ended: one word. */
  over: join(folder, 'over'),
  /** Not empty once the command has ended. */
  ended: join(folder, 'ended'),
  /** How far the model has read the output. */
  seen: join(folder, 'seen.json'),
  /** Exists once the model has been notified of its end. */
  reported: join(folder, 'reported'),
});

/** `job.json`: the request, written before anything starts. */
export const Job = z.object({
  command: z.string(),
  /** The call that started it. */
  call: z.string(),
  timeout_s: z.number(),
  /** The boot of the machine it was started in. */
  boot: z.string(),
  /** A control group that counts its processes; empty if there is none. */
  group: z.string(),
});
export type Job = z.infer<typeof Job> & { id: string; folder: string };

/** Status of a job. `seconds`: how long it has run, or since its end (undefined if unknown). */
export type JobStatus = { state: 'running' | 'ended'; how: string; code: number | null; seconds: number | undefined };

/** A job as it was requested; null if its folder does not have that, as after a power cut. */
export function readJob(folder: string): Job | null {
  try {
    const job = Job.safeParse(JSON.parse(readSmallFile(jobFiles(folder).job)));
    return job.success ? { ...job.data, id: basename(folder), folder } : null;
  } catch {
    return null;
  }
}

/** Its command in one line. */
export const commandLine = ({ command }: Job): string => truncate(command.trim().replace(/\s+/g, ' '), 200);

/** The current status of a job, from its folder and the processes of this system. */
export function jobStatus(job: Job): JobStatus {
  const { folder } = job;
  const life = readSupervisorIdentity(folder);
  const exit = readExit(folder);
  const isUp = life !== null && isThisBoot(life) && processState(life) === 'lives';
  // A command that has ended may have output that is not stored yet.
  if (isUp && !exit?.whole)
    return { state: 'running', how: 'running', code: null, seconds: runningForMs(folder, life) / 1000 };
  const code = exit && !exit.fault && exit.signal === null ? exit.code : null;
  return {
    state: 'ended',
    how: describeEnd(job, exit, readSmallFile(callFiles(folder).pid) !== ''),
    code,
    seconds: secondsSinceEnd(folder),
  };
}

/** Texts for the reasons in `over`. */
const END_REASONS: Record<string, (job: Job) => string> = {
  timeout: ({ timeout_s }) => `timed out after ${timeout_s} s`,
  stop: () => 'stopped by a person',
  person: () => 'stopped by a person',
  model: () => 'stopped by the model',
  cancel: () => 'ended with a cancel or a fresh start of the session',
};

function describeEnd(job: Job, exit: ReturnType<typeof readExit>, begun: boolean): string {
  const over = getOwn(END_REASONS, readSmallFile(jobFiles(job.folder).over).trim())?.(job);
  if (over !== undefined) return over;
  if (exit?.fault !== undefined) return `not started: its sandbox could not be set up (${exit.fault})`;
  if (exit?.signal) return `ended by signal ${exit.signal}`;
  if (exit) return exit.code === null ? 'ended with an unknown exit code' : `exit ${exit.code}`;
  return begun ? 'it was killed, or the machine was restarted, or the session was copied' : 'never started';
}

function secondsSinceEnd(folder: string): number | undefined {
  const { ended, over } = jobFiles(folder);
  const stat = [over, ended].map((path) => fs.statSync(path, { throwIfNoEntry: false })).find((one) => one?.size);
  return stat && Math.max(0, (Date.now() - stat.mtimeMs) / 1000);
}
