import { UserError } from '../../base/user-error.ts';
import type { Workspace } from '../../store/index.ts';
import { assertNoCluster, markAsCluster } from '../../store/session/session-claim.ts';
import { openSpendingBook, type SpendingBook, type SpendingOptions } from '../host/spending.ts';
import { type ServedWorkspace, type ServeOptions, serveWorkspace } from '../serve-workspace.ts';
import type { OpenPooledSession } from '../sessions/pool-state.ts';

/**
 * What a process of a cluster does. A gateway owns the workspace, watches inboxes and runs schedules; workers run the
 * sessions. `engine`: the ingress of Restate, which decides which worker runs a session.
 */
export type ClusterRole =
  | { is: 'gateway'; engine: URL }
  | { is: 'worker'; engine: URL; listen: { host: string; port: number } };

/**
 * Serves the workspace in that role; without one, as a daemon alone. `reducers`: the version of what this program
 * computes from event logs, which must be the same in all of a cluster. Throws UserError if it may not.
 */
export async function serveAs(
  role: ClusterRole | undefined,
  workspace: Workspace,
  open: OpenPooledSession,
  options: ServeOptions & { reducers: string },
): Promise<ServedWorkspace> {
  const { paths } = workspace;
  if (!role) {
    assertNoCluster(paths);
    return serveWorkspace(workspace, open, options);
  }
  const { engine } = role;
  if (role.is === 'worker') {
    const { serveWorker } = await import('./serve-worker.ts');
    return serveWorker(workspace, open, { ...options, engine, listen: role.listen });
  }
  const { openRemoteSessions } = await import('./engine-client.ts');
  return serveWorkspace(workspace, open, {
    ...options,
    // The segments of the event log are made for file systems that other hosts write to.
    allowNetwork: true,
    remote: () => openRemoteSessions({ engine, clock: options.clock, log: options.log }),
    async prepare() {
      await options.prepare();
      await markAsCluster(paths, engine, options.reducers);
    },
  });
}

const NOT_COUNTED =
  'Expected no budgets, since a cluster does not count yet what its workers spend together. Remove "budgets" from agentd.json and session.json, or serve this workspace with one daemon.';

/** The book of what is spent. In a cluster nothing is written to it, and budgets are refused. */
export function openBookFor(role: ClusterRole | undefined, options: SpendingOptions): SpendingBook {
  if (!role) return openSpendingBook(options);
  if (options.budgets()) throw new UserError(NOT_COUNTED);
  return {
    async reserve({ own }) {
      if (own || options.budgets()) return { until: null, why: NOT_COUNTED };
      return { async settle() {} };
    },
    async close() {},
  };
}
