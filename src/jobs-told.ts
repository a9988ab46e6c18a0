import type { JobLine } from './frontends/cli/command.ts';
import { sessionPaths } from './store/layout.ts';
import { jobsOf } from './tools/jobs/people.ts';

/** Jobs of the session in a folder, for people; `stop` names one that is ended first. Throws UserError where there is none of that name. */
export async function jobsTold(folder: string, stop?: string): Promise<JobLine[]> {
  const jobs = jobsOf(sessionPaths(folder).jobs);
  if (stop !== undefined) await jobs.stop(stop);
  return jobs.lines();
}
