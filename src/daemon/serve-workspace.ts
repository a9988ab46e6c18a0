import * as fs from 'node:fs';
import { attempt, errorText, UserError } from '../base/user-error.ts';
import type { Clock, SessionPorts } from '../engine/ports/session-ports.ts';
import type { DaemonStatus } from '../protocol/workspace/daemon-files.ts';
import { contentKeyOf } from '../store/fs/file-reads.ts';
import { ifExists } from '../store/fs/store-errors.ts';
import { sessionPaths, type Workspace } from '../store/index.ts';
import { describeLock } from '../store/workspace/owner-file.ts';
import { type CrashLoopGuard, openCrashLoopGuard } from './crashes/crash-loop-guard.ts';
import {
  assessBlame,
  type CrashHandler,
  readCrashes,
  readCrashNote,
  startCrashHandler,
  startWatchdog,
  type Watchdog,
  writeCrashes,
} from './crashes/crash-notes.ts';
import { GRACE_MS } from './host/clock.ts';
import { type DiskMonitor, fileSystemAt, type ReadFsType } from './host/disk.ts';
import { takeOwnership, type WorkspaceOwnership } from './host/ownership.ts';
import type { RunSlots } from './host/run-limits.ts';
import { openLocalHost } from './host/session-host.ts';
import type { ScheduledSessions } from './schedules/occurrence-steps.ts';
import { startSchedules } from './schedules/schedule-runner.ts';
import { openUnfinishedSessions, scheduleRetention } from './sessions/background-sweeps.ts';
import type { OpenPooledSession, SessionPoolOptions } from './sessions/pool-state.ts';
import { openSessionPool, type SessionPool } from './sessions/session-pool.ts';
import { startStatusFile } from './sessions/status-file.ts';
import type { WatchFolder } from './watch/folder-watches.ts';
import { watchWorkspace } from './watch/workspace-watch.ts';

export type ServedWorkspace = {
  /** Waits for calls in flight, at most 10 s or as long as configured, and releases the workspace. */
  stop(): Promise<void>;
};

/** What a session needs from the daemon to affect another. */
export type DaemonHooks = {
  /** Something arrived for it that no watch reports. */
  wake(name: string): void;
  /** Why it is not served until a person intervenes; undefined if it is. */
  quarantineReason(name: string): string | undefined;
  /** A call of it waits for a person, whose answer may be saved in `approvals/`. */
  onApprovalAsked(name: string): void;
  /** Runs synchronous work, attributed to that session for the watchdog. */
  runGuarded<T>(name: string, what: string, run: () => T): T;
};

export type ServeOptions = {
  log: SessionPorts['log'];
  clock: Clock;
  disk: DiskMonitor;
  /** Sessions open at once. */
  mostOpen: number;
  /** A person allowed a workspace on a network file system. */
  allowNetwork: boolean;
  /** The workspace's settings may have changed. */
  settings: () => void;
  /** The state of all settings, for the status file. */
  settingsStatus: () => DaemonStatus['settings'];
  runSlots?: RunSlots;
  onLost: (why: Error) => void;
  /** Called once the workspace is ours, before anything is watched. */
  prepare: () => Promise<void>;
  /** Receives the hooks that sessions use to affect each other, once they exist. */
  hooks?: (hooks: DaemonHooks) => void;
  /** The session that waits for this one; undefined if none does. */
  parentOf?: (name: string) => string | undefined;
  /** Removes expired data of a session; resolves to whether more is left to remove. */
  sweep: (name: string) => Promise<boolean>;
  /** Where the sessions run; default: in this process. */
  remote?: () => SessionPool;
  /** How schedules reach sessions; without it none is run. */
  scheduled?: ScheduledSessions;
  /** How long the event loop may be blocked before the watchdog ends the daemon, in ms. */
  patienceMs?: number;
  /** How long calls in flight may take when the daemon is asked to stop, in ms; default 10 s. */
  graceMs?: number;
  /** Replaceable in tests: file watches, and the file system type. */
  watch?: WatchFolder;
  typeOf?: ReadFsType;
};

/**
 * Takes ownership of the workspace and serves every session in it until stopped. Resolves when every inbox is watched
 * and every session with a message has been woken; sessions with unfinished work are woken next. Throws
 * `AlreadyOwnedError` if another daemon is running.
 */
export async function serveWorkspace(
  workspace: Workspace,
  open: OpenPooledSession,
  options: ServeOptions,
): Promise<ServedWorkspace> {
  const { log, clock, disk } = options;
  const owner = await ownWorkspace(workspace, options);
  /** A session that waits for one that can no longer answer has to be woken. */
  const wakeParent = (name: string): void => {
    const parent = options.parentOf?.(name);
    if (parent !== undefined) sessions.wake(parent);
  };
  const crashLoop = await openCrashLoopGuardFor(workspace, owner, options);
  const crashHandler = startCrashHandler(workspace.paths.crashNote, owner.since);
  const guard = startWatchdogFor(workspace, owner, options);
  const parts = { owner, crashLoop, crashHandler, guard, onQuarantine: wakeParent };
  const sessions = options.remote?.() ?? openPoolHere(workspace, open, options, parts);
  const approvals = deferNames();
  options.hooks?.({
    wake: sessions.wake,
    quarantineReason: sessions.quarantineReason,
    onApprovalAsked: approvals.add,
    runGuarded: guard.runGuarded,
  });
  const begun = openUnfinishedSessions(workspace, clock, sessions.wake);
  const found = (name: string) => (hasInboxFiles(workspace, name) ? sessions.wake(name) : begun.check(name));
  const gone = (name: string): void => {
    sessions.drop(name);
    wakeParent(name);
  };
  const watch = await watchWorkspace(
    workspace,
    { found, session: sessions.wake, gone, settings: options.settings },
    { log, clock, open: sessions.openNames, ...testSeamsOf(options) },
  );
  approvals.deliverTo(watch.watchApprovals);
  crashLoop.start({ waiting: sessions.waitingNames, isComplete: begun.isDone, openWaiting: sessions.openWaiting });
  const unsweep = scheduleRetention(workspace.listSessions, sessions.isAsleep, options.sweep, log);
  disk.start(() => {
    sessions.onDiskSpace();
    watch.wakeAllWithMail();
  });
  const status = await startStatusFile(workspace.paths.status, {
    clock,
    log,
    sessions,
    watch,
    disk,
    mostOpen: options.mostOpen,
    settings: options.settingsStatus,
    runSlots: options.runSlots,
  });
  begun.start();
  const schedules = startSchedulesOf(workspace, owner, options);
  return {
    async stop() {
      await schedules?.stop();
      begun.close();
      unsweep();
      await watch.close();
      disk.stop();
      await sessions.stop(options.graceMs ?? GRACE_MS);
      await status.stop();
      crashLoop.stop();
      crashHandler.stop();
      await owner.release();
      await guard.stop();
    },
  };
}

/** The pool of a daemon that runs the sessions itself. */
function openPoolHere(
  { paths }: Workspace,
  open: OpenPooledSession,
  { log, clock, disk, mostOpen }: ServeOptions,
  parts: {
    owner: WorkspaceOwnership;
    guard: Watchdog;
    crashHandler: CrashHandler;
  } & Pick<SessionPoolOptions, 'crashLoop' | 'onQuarantine'>,
): SessionPool {
  const { owner, guard, crashHandler, ...others } = parts;
  return openSessionPool(open, {
    ...{ log, clock, host: openLocalHost(owner, clock), maxOpen: mostOpen, ...others },
    logFingerprint: (name) => logFingerprintOf(sessionPaths(paths.session(name)).events),
    onDiskFull: disk.reportFull,
    runGuarded: guard.runGuarded,
    runInSession: crashHandler.runInSession,
  });
}

function startSchedulesOf({ paths }: Workspace, owner: WorkspaceOwnership, { scheduled, clock, log }: ServeOptions) {
  if (!scheduled) return undefined;
  return startSchedules({ folder: paths.schedules, sessions: scheduled, clock, log, checkOwner: owner.check });
}

/** Takes ownership of the workspace and prepares it. Throws `AlreadyOwnedError`, or UserError if it is not local. */
async function ownWorkspace(workspace: Workspace, options: ServeOptions): Promise<WorkspaceOwnership> {
  if (!options.allowNetwork) assertLocalFileSystem(workspace, options.typeOf);
  const owner = await takeOwnership(workspace, options.onLost);
  options.log('info', `serving ${workspace.paths.root}, epoch ${owner.epoch}; lock: ${describeLock(owner.lockKind)}`);
  await options.prepare();
  return owner;
}

/** Names that arrive before their receiver exists are delivered once it does; later ones at once. */
function deferNames(): { add(name: string): void; deliverTo(receive: (name: string) => void): void } {
  const early = new Set<string>();
  let deliver = (name: string): void => void early.add(name);
  return {
    add: (name) => deliver(name),
    deliverTo(receive) {
      deliver = receive;
      for (const name of early) receive(name);
    },
  };
}

function startWatchdogFor({ paths }: Workspace, owner: WorkspaceOwnership, { log, patienceMs }: ServeOptions) {
  return startWatchdog({
    path: paths.crashNote,
    of: { owner_since: owner.since },
    slow: (session, what, seconds) =>
      log('warn', `${session}: ${what} took ${seconds.toFixed(1)} s and blocked everything else`),
    ...(patienceMs !== undefined && { patienceMs }),
  });
}

/** Reads how the last daemon ended for each session, before this one leaves a note of its own. */
async function openCrashLoopGuardFor(
  { paths }: Workspace,
  { previous }: WorkspaceOwnership,
  { clock, log }: ServeOptions,
): Promise<CrashLoopGuard> {
  const crashes = readCrashes(paths.crashes);
  const note = readCrashNote(paths.crashNote, previous?.since);
  const assessed = assessBlame(crashes, previous?.ended ?? 'in order', note);
  // Before anything is opened: later crashes are counted from here.
  if (JSON.stringify(assessed.crashes) !== JSON.stringify(crashes))
    await writeCrashes(paths.crashes, assessed.crashes).catch((error) => log('warn', errorText(error)));
  return openCrashLoopGuard({
    assessed,
    write: (next) => writeCrashes(paths.crashes, next),
    lastWritten: (name) => lastWritten(sessionPaths(paths.session(name)).events),
    clock,
    log,
  });
}

/** When a file was last written, in ms since 1970; 0 if unknown. */
function lastWritten(path: string): number {
  return attempt(() => fs.lstatSync(path).mtimeMs) ?? 0;
}

function testSeamsOf({ watch, typeOf }: ServeOptions): { watch?: WatchFolder; typeOf?: ReadFsType } {
  return { ...(watch && { watch }), ...(typeOf && { typeOf }) };
}

/** The event log depends on locks and syncs that a network file system may not keep. */
function assertLocalFileSystem({ paths }: Workspace, typeOf?: ReadFsType): void {
  const { local, name } = fileSystemAt(paths.own, typeOf);
  if (local) return;
  throw new UserError(
    `The workspace ${paths.root} is on ${name}, which is not known to be a local file system. Locks and writes may be unreliable there: two daemons could run at once, and a power cut could lose messages. Use a workspace on a local disk. To use this one anyway, with one daemon only: --allow-network-fs, or "allow_network_fs": true in agentd.json.`,
  );
}

/** Changes when somebody replaces the event log. '' if unknown. */
export function logFingerprintOf(record: string): string {
  try {
    return contentKeyOf(fs.lstatSync(record, { bigint: true }));
  } catch (error) {
    return `none: ${errorText(error)}`;
  }
}

/** Whether a session's inbox contains anything. If it cannot be read, opening the session reports why. */
function hasInboxFiles({ paths }: Workspace, name: string): boolean {
  try {
    const waiting = ifExists(() => fs.readdirSync(sessionPaths(paths.session(name)).inbox)) ?? [];
    return waiting.some((file) => !file.startsWith('.'));
  } catch {
    return true;
  }
}
