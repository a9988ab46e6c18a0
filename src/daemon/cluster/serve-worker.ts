import { randomBytes } from 'node:crypto';
import { hostname } from 'node:os';
import { join } from 'node:path';
import { UserError } from '../../base/user-error.ts';
import { sessionPaths, type Workspace } from '../../store/index.ts';
import { assertCluster } from '../../store/session/session-claim.ts';
import { openCrashLoopGuard } from '../crashes/crash-loop-guard.ts';
import { startCrashHandler, startWatchdog } from '../crashes/crash-notes.ts';
import { GRACE_MS } from '../host/clock.ts';
import { logFingerprintOf, type ServedWorkspace, type ServeOptions } from '../serve-workspace.ts';
import type { OpenPooledSession } from '../sessions/pool-state.ts';
import { openSessionPool } from '../sessions/session-pool.ts';
import { openRestateHost, type RestateHostOptions } from './restate-host.ts';

/** How often open sessions are checked for new files: on a shared file system no watch reports those of other hosts. */
const CHECK_MS = 500;

export type WorkerOptions = Pick<RestateHostOptions, 'engine' | 'listen' | 'filesLateMs' | 'usage'> & {
  reducers: string;
};

/**
 * Runs the sessions that the engine gives to this process, until stopped. It owns nothing but them: whatever concerns
 * the workspace as a whole is the gateway's. Throws UserError if no gateway has prepared the workspace.
 */
export async function serveWorker(
  workspace: Workspace,
  open: OpenPooledSession,
  { engine, listen, filesLateMs, ...options }: WorkerOptions & ServeOptions,
): Promise<ServedWorkspace> {
  const { log, clock, disk } = options;
  const { paths } = workspace;
  assertCluster(paths, options.reducers);
  const assertFit = (): void => {
    assertCluster(paths, options.reducers);
    if (disk.capacity() !== 'ok') throw new UserError(`The disk is full on this machine: ${disk.status().why}`);
  };
  // Another process at this address is another owner, also after a restart.
  const owner = `${hostname()}-${listen.port}-${randomBytes(4).toString('hex')}`;
  const crashNote = join(paths.own, `crash-note-${hostname()}-${listen.port}.json`);
  const since = clock.now().toISOString();
  const crashHandler = startCrashHandler(crashNote, since);
  const guard = startWatchdog({
    ...{ path: crashNote, of: { owner_since: since } },
    slow: (session, what, seconds) => log('warn', `${session}: ${what} took ${seconds.toFixed(1)} s`),
    ...(options.patienceMs !== undefined && { patienceMs: options.patienceMs }),
  });
  const { sweep, usage } = options;
  const host = await openRestateHost({
    ...{ workspace, engine, listen, filesLateMs, owner, assertFit, usage, sweep, clock, log },
  });
  const sessions = openSessionPool(open, {
    ...{ log, clock, host, isShared: true, maxOpen: options.mostOpen },
    logFingerprint: (name) => logFingerprintOf(sessionPaths(paths.session(name)).events),
    onDiskFull: disk.reportFull,
    onQuarantine(name) {
      const parent = options.parentOf?.(name);
      if (parent !== undefined) sessions.wake(parent);
    },
    crashLoop: openCrashLoopGuard({
      assessed: { crashes: { unexplained: 0, by_session: {} }, blamed: null },
      ...{ write: async () => {}, lastWritten: () => 0, clock, log },
    }),
    runGuarded: guard.runGuarded,
    runInSession: crashHandler.runInSession,
  });
  options.hooks?.({
    wake: sessions.wake,
    quarantineReason: sessions.quarantineReason,
    // Every open session is checked anyway.
    onApprovalAsked: () => {},
    runGuarded: guard.runGuarded,
  });
  const timer = setInterval(() => {
    options.settings();
    sessions.checkOpen();
    if (disk.capacity() === 'ok') sessions.onDiskSpace();
  }, CHECK_MS);
  await host.listen();
  log('info', `worker ${owner} serves ${paths.root} for the engine at ${engine.origin}`);
  return {
    async stop() {
      clearInterval(timer);
      await sessions.stop(options.graceMs ?? GRACE_MS);
      await host.close();
      crashHandler.stop();
      await guard.stop();
    },
  };
}
