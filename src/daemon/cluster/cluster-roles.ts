import { randomBytes } from 'node:crypto';
import { hostname } from 'node:os';
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
  | { is: 'worker'; engine: URL; listen: { host: string; port: number }; filesLateMs: number };

/**
 * Serves the workspace in that role; without one, as a daemon alone. `reducers`: the version of what this program
 * computes from event logs, which must be the same in all of a cluster. Throws UserError if it may not.
 */
export async function serveAs(
  role: ClusterRole | undefined,
  workspace: Workspace,
  open: OpenPooledSession,
  options: ServeOptions & { reducers: string; usage: SpendingOptions },
): Promise<ServedWorkspace> {
  const { paths } = workspace;
  if (!role) {
    assertNoCluster(paths);
    return serveWorkspace(workspace, open, options);
  }
  const { engine } = role;
  if (role.is === 'worker') {
    const { serveWorker } = await import('./serve-worker.ts');
    return serveWorker(workspace, open, { ...options, ...role });
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

/** The book of what is spent. In a cluster one object of the engine keeps it for all; a gateway calls no model. */
export async function openBookFor(role: ClusterRole | undefined, options: SpendingOptions): Promise<SpendingBook> {
  if (!role) return openSpendingBook(options);
  const { openSharedBook } = await import('./shared-spending.ts');
  return openSharedBook(role.engine, `${hostname()}-${randomBytes(4).toString('hex')}`, options);
}
