import * as fs from 'node:fs';
import { type FSWatcher, watch } from 'chokidar';
import { errorText } from '../../base/user-error.ts';
import type { Clock, SessionPorts } from '../../engine/ports/session-ports.ts';
import { contentKeyOf } from '../../store/fs/file-reads.ts';
import { ifExists } from '../../store/fs/store-errors.ts';
import { listApprovalIds, sessionPaths, type Workspace, type WorkspacePaths } from '../../store/index.ts';
import { createWarnOnce, fileSystemAt, type ReadFsType, readFsType } from '../host/disk.ts';
import { detectLostEvents, openFolderWatches, type WatchFolder } from './folder-watches.ts';
import { openInboxSweep } from './inbox-sweep.ts';
import { createFolderStat, openSessionWatches, type SessionHandlers } from './session-watches.ts';

const SWEEP_MS = 30_000;
const POLL_MS = 1000;

/** How sessions are watched, for the status file. `why`: the reason why some are polled; null if none are. */
export type WatchStatus = { fileSystem: string; known: number; watched: number; polled: string[]; why: string | null };

/** A running watch of a workspace. */
export type WorkspaceWatch = {
  status(): WatchStatus;
  /** Checks every session now, and wakes those with anything in their inbox, new or not. */
  wakeAllWithMail(): void;
  /** Calls of this session may wait for a person, who may answer in `approvals/`. */
  watchApprovals(name: string): void;
  close(): Promise<void>;
};

export type WatchHandlers = SessionHandlers & { settings: () => void };

export type WatchOptions = {
  log: SessionPorts['log'];
  clock: Clock;
  /**
   * Open sessions: checked each second in addition, since a watch does not report the removal of a folder we keep open.
   */
  open: () => Iterable<string>;
  watch?: WatchFolder;
  typeOf?: ReadFsType;
};

/**
 * Reports each session that may have new input. One plain folder watch per inbox; events are hints and carry no data. A
 * sweep makes up for lost events: twice a minute (less often with tens of thousands of sessions), and at once after
 * anything that may have lost some (see `lost-events.ts`). When the system's watch limit is reached, or changes from
 * elsewhere are not reported (NFS), inboxes are polled. Resolves once every existing session has been reported as
 * `found`.
 */
export async function watchWorkspace(
  workspace: Workspace,
  handlers: WatchHandlers,
  options: WatchOptions,
): Promise<WorkspaceWatch> {
  const { log, clock, open, watch = fs.watch, typeOf = readFsType } = options;
  const { paths } = workspace;
  const { local, name: kind } = fileSystemAt(paths.sessions, typeOf);
  const statFolder = createFolderStat(paths.own);
  const warnOnce = createWarnOnce(log);

  const lostEvents = detectLostEvents(clock, (why) => {
    log('info', `${why}: checking every session`);
    handlers.settings();
    void rounds.sweep();
  });
  const watches = openFolderWatches({
    watch,
    local,
    onEvent: lostEvents.countEvent,
    onFailed: lostEvents.suspectLoss,
    say: warnOnce,
  });
  const sessions = openSessionWatches({ paths, watches, statFolder, handlers, clock, open });
  const approvals = openApprovalPolls(paths, handlers.session);
  const rounds = openInboxSweep({
    ...{ paths, sessions, watches, statFolder, local, clock, open },
    wake: handlers.session,
    onComplete: () => warnOnce(''),
    onFailed(why) {
      warnOnce(`checking the sessions failed and is retried: ${why}`);
      lostEvents.suspectLoss('an earlier check failed');
    },
  });

  // A plain watch, set before the first sweep: chokidar reads before it watches (docs/decisions/README.md).
  const settings = await watchSettings(paths, handlers.settings, log);
  if (!local) {
    warnOnce(
      `${paths.sessions} is on ${kind}, where changes made elsewhere are not reported: inboxes are polled, open sessions each second, all each 30 s`,
    );
  }
  await rounds.sweep();
  sessions.awaitCopies();
  const timers = [
    setInterval(() => {
      handlers.settings();
      if (rounds.isDue()) void rounds.sweep();
    }, SWEEP_MS),
    setInterval(() => {
      rounds.poll();
      approvals.poll();
    }, POLL_MS),
  ];
  return {
    status() {
      const [known, polled] = [sessions.count(), [...sessions.polled]];
      const why = local ? watches.limit : `changes made elsewhere are not reported on ${kind}`;
      return { fileSystem: kind, known, watched: known - polled.length, polled, why };
    },
    wakeAllWithMail: rounds.wakeAllWithMail,
    watchApprovals: approvals.check,
    async close() {
      lostEvents.stop();
      for (const timer of timers) clearInterval(timer);
      rounds.close();
      sessions.close();
      await settings.close();
    },
  };
}

const READY_MS = 5000;

/** Reports changes of the workspace's settings and instructions. */
async function watchSettings(
  { config, instructions, otherInstructions, soul }: WorkspacePaths,
  changed: () => void,
  log: SessionPorts['log'],
): Promise<{ close(): Promise<void> }> {
  const settings = await whenReady(watch([config, instructions, otherInstructions, soul], { ignoreInitial: true }));
  settings.on('all', changed);
  settings.on('error', (error) => log('warn', `watching the settings: ${errorText(error)}`));
  return settings;
}

/** The sweep checks the settings too, so a settings watch that never becomes ready blocks nothing. */
function whenReady(watcher: FSWatcher): Promise<FSWatcher> {
  return new Promise((resolve) => {
    const late = setTimeout(() => resolve(watcher), READY_MS);
    watcher.on('error', () => {});
    watcher.once('ready', () => {
      clearTimeout(late);
      resolve(watcher);
    });
  });
}

export type ApprovalPolls = {
  /** Checks whether calls of this session wait for a person: if so its `approvals/` is polled. */
  check(name: string): void;
  /** Checks the sessions where calls wait. */
  poll(): void;
};

/** Reports answers that a person writes into `approvals/`, in sessions that wait for one; others cost nothing. */
export function openApprovalPolls(paths: WorkspacePaths, onChange: (name: string) => void): ApprovalPolls {
  /** The files of each session where calls wait, as they were when last checked. */
  const seen = new Map<string, string>();

  function check(name: string): void {
    const before = seen.get(name);
    const now = approvalFilesKey(sessionPaths(paths.session(name)));
    if (now === '') seen.delete(name);
    else seen.set(name, now);
    // The answer may have been saved before the first check.
    if (now !== (before ?? '')) onChange(name);
  }

  return {
    check(name) {
      if (!seen.has(name)) check(name);
    },
    poll() {
      for (const name of [...seen.keys()]) check(name);
    },
  };
}

/** Changes with each save; '' if there is no file. If they cannot be read, the session that is woken reports why. */
function approvalFilesKey(of: ReturnType<typeof sessionPaths>): string {
  try {
    const files = listApprovalIds(of).flatMap(
      (id) => ifExists(() => fs.lstatSync(`${of.approvals}/${id}.json`, { bigint: true })) ?? [],
    );
    return files.map(contentKeyOf).join(' ');
  } catch (error) {
    return `unreadable: ${errorText(error)}`;
  }
}
