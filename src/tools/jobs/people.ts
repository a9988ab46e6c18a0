import { UserError } from '../../protocol/errors.ts';
import { commandOf, standingOf } from './job-folder.ts';
import { openShelf } from './shelf.ts';

/** A job in words; `for_s`: seconds it has run, or since its end where that is known. */
type JobLine = { id: string; command: string; running: boolean; how: string; for_s: number | null };

/** The jobs in a session's `jobs/`, for a person, whether or not there is a daemon. */
export function jobsOf(root: string): { lines(): JobLine[]; stop(id: string): Promise<void> } {
  const shelf = openShelf(root);
  return {
    lines: () =>
      shelf.all().map((job) => {
        const { is, how, forS } = standingOf(job);
        const for_s = forS === undefined ? null : Math.floor(forS);
        return { id: job.id, command: commandOf(job), running: is === 'running', how, for_s };
      }),
    async stop(id) {
      const job = shelf.all().find((one) => one.id === id);
      const known = shelf.all().map((one) => one.id);
      if (!job) throw new UserError(`There is no job ${id}. There are: ${known.join(', ') || 'none'}.`);
      await shelf.stop(job, 'person', new AbortController().signal);
      if (standingOf(job).is === 'running') throw new UserError(`${id} cannot be ended by this user.`);
    },
  };
}
