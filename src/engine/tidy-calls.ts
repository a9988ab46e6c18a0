import { checkKey } from '../core/claim.ts';
import type { Session } from '../core/session.ts';
import { errorText } from '../protocol/errors.ts';
import type { Ledger } from './ledger.ts';
import type { World } from './ports.ts';

/**
 * Takes away the folders of calls whose end is durable, and ends what still runs of them: a command that was stopped while no
 * daemon listened. What cannot be ended is told, and its folder stays. Jobs that are over end as well.
 */
export async function tidyCalls(world: World, ledger: Ledger): Promise<void> {
  const { store, tools, log } = world;
  try {
    await endJobs(world, ledger);
    const ended = (await store.calls.list()).filter((call) => !openCalls(ledger.session).includes(call));
    if (ended.length === 0) return;
    await ledger.sync();
    for (const call of ended) {
      const left = await tools.settle(store.calls.folder(call));
      if (left === 'ended') log('warn', `what still ran of the call ${call} was ended`);
      if (left === 'runs') log('error', `a process of the call ${call}, which has ended, cannot be ended`);
      else await store.calls.remove(call);
    }
  } catch (error) {
    // Litter is no reason to stop; a journal that cannot be written tells so where something is to be recorded.
    log('warn', `the folders of calls stay for now: ${errorText(error)}`);
  }
}

/** Ends what ran in the background until the session was cancelled or begun afresh; that is on disk first. */
async function endJobs({ jobs, log }: World, ledger: Ledger): Promise<void> {
  const { jobsEnd } = ledger.session;
  if (!jobs || jobsEnd === 0) return;
  await ledger.sync();
  const ended = await jobs.end(jobsEnd);
  if (ended.length > 0) log('info', `ended with the session's cancel or fresh start: ${ended.join(', ')}`);
}

/** Keys of calls that were begun and have no end on record. */
function openCalls({ turn, claim }: Session): string[] {
  const calls = (turn?.calls ?? []).filter((call) => call.state === 'started').map((call) => call.key);
  const checks = (claim?.checks ?? []).flatMap((check, n) =>
    claim && check?.state === 'started' ? [checkKey(claim, n)] : [],
  );
  return [...calls, ...checks];
}
