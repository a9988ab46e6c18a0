import type { JobListing } from '../frontends/cli/common/command.ts';
import { sessionPaths } from '../store/layout/layout.ts';
import { inspectJobs } from '../tools/jobs/job-store.ts';

/** Jobs of the session in a folder, for people; `stop` names a job to end first. Throws UserError if there is none. */
export async function listJobs(folder: string, stop?: string): Promise<JobListing[]> {
  const jobs = inspectJobs(sessionPaths(folder).jobs);
  if (stop !== undefined) await jobs.stop(stop);
  return jobs.lines();
}
