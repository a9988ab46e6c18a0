import * as fs from 'node:fs';
import { attempt, errorCode, errorText } from '../../base/user-error.ts';
import type { Clock } from '../../engine/ports/session-ports.ts';
import { isSessionFolder } from '../../protocol/workspace/session-names.ts';
import { sessionPaths, type WorkspacePaths } from '../../store/index.ts';
import type { FolderWatcher, FolderWatches } from './folder-watches.ts';
import type { FolderState, SessionWatches } from './session-watches.ts';

/** Longest time a sweep or a round of polling keeps the event loop busy without yielding. */
const MAX_BUSY_MS = 50;
/** Sweeps take no more than one part in this many of the time; but the maximum interval always applies. */
const SWEEP_TIME_SHARE = 200;
const MAX_INTERVAL_MS = 5 * 60_000;

export type InboxSweep = {
  /** Checks every session; a sweep requested meanwhile runs after this one. */
  sweep(): Promise<void>;
  /** Whether the next sweep is due: with very many sessions, not at each opportunity. */
  isDue(): boolean;
  /** Checks the open sessions, and as many of those without a watch as time permits. */
  poll(): void;
  /** Wakes every session with anything in its inbox, new or not. */
  wakeAllWithMail(): void;
  close(): void;
};

type InboxSweepDeps = {
  paths: WorkspacePaths;
  sessions: SessionWatches;
  watches: FolderWatches;
  statFolder: (path: string) => FolderState | undefined;
  /** Whether this file system reports changes at all. */
  local: boolean;
  clock: Clock;
  open: () => Iterable<string>;
  wake: (name: string) => void;
  /** A round succeeded, so warnings may be repeated; or why it failed. */
  onComplete: () => void;
  onFailed: (why: string) => void;
};

/** Sweeps and polling that make up for lost events: over all sessions, and over those without a watch. */
export function openInboxSweep(deps: InboxSweepDeps): InboxSweep {
  const { paths, sessions, watches, statFolder, local, clock, open, wake, onComplete, onFailed } = deps;
  const peek = (name: string) => {
    if (hasMail(sessionPaths(paths.session(name)).inbox)) wake(name);
  };
  const onFolderChange = (name: string | null) => (name === null ? void sweep() : sessions.check(name));
  const root = watchSessionsFolder({ paths, watches, statFolder }, onFolderChange);
  let sweeping: Promise<void> | null = null;
  let sweepAgain = false;
  const worker = yieldingWorker(clock);
  /** When the last sweep ended, and how long it took. */
  let last = { at: Number.NEGATIVE_INFINITY, ms: 0 };

  /** One sweep over all sessions, in batches; the most recently active are watched first. */
  async function round(): Promise<void> {
    watches.tryAgain();
    const names = root.renew() === undefined ? [] : fs.readdirSync(paths.sessions).filter(isSessionFolder);
    const there = new Set(names);
    for (const name of sessions.names()) if (!there.has(name)) sessions.check(name);
    const fresh = names.filter((name) => !sessions.has(name));
    const ordered = fresh.length > readMaxUserWatches() / 2 ? byActivity(fresh, paths) : fresh;
    await worker.forEach([...names.filter((name) => sessions.has(name)), ...ordered], sessions.check);
    if (!local) await worker.forEach(names, peek);
    if (watches.limit === null) onComplete();
  }

  function sweep(): Promise<void> {
    if (sweeping !== null) sweepAgain = true;
    if (sweeping === null) worker.resetBusy();
    sweeping ??= round()
      .catch((error) => onFailed(errorText(error)))
      .finally(() => {
        sweeping = null;
        last = { at: clock.elapsed(), ms: worker.busyMs() };
        if (!sweepAgain || worker.isClosed()) return;
        sweepAgain = false;
        void sweep();
      });
    return sweeping;
  }

  function poll(): void {
    for (const name of [...open()]) {
      sessions.check(name);
      if (!local) peek(name);
    }
    if (!local) return;
    if (root.isLost()) return void sweep();
    const began = clock.elapsed();
    for (let left = sessions.polled.size; left > 0 && clock.elapsed() - began < MAX_BUSY_MS; left--) {
      const name = sessions.nextPolled();
      if (name === undefined) return;
      sessions.check(name);
    }
  }

  return {
    sweep,
    isDue: () => !local || clock.elapsed() - last.at >= Math.min(MAX_INTERVAL_MS, SWEEP_TIME_SHARE * last.ms),
    poll,
    wakeAllWithMail: () => void worker.forEach(sessions.names(), peek),
    close() {
      worker.close();
      root.close();
    },
  };
}

/** The watch on the folder of all sessions. `onChange` gets the name of what changed in it, null if that is unknown. */
function watchSessionsFolder(
  { paths, watches, statFolder }: Pick<InboxSweepDeps, 'paths' | 'watches' | 'statFolder'>,
  onChange: (name: string | null) => void,
) {
  let watcher: FolderWatcher | null = null;
  /** The folder that the watch is on. */
  let watched: string | undefined;

  function watch(): FolderWatcher | null {
    const fresh = watches.watch(paths.sessions, (_event, name) => onChange(name));
    fresh?.on('error', () => {
      watcher = null;
    });
    return fresh;
  }

  return {
    /** Watches the folder that is there now, and returns its id; undefined if there is none. */
    renew(): string | undefined {
      const { id } = statFolder(paths.sessions) ?? {};
      if (id !== watched) watcher?.close();
      if (id !== watched || !watcher) watcher = watch();
      watched = id;
      return id;
    },
    /** There is no watch, or it is on another folder than the one there now. */
    isLost(): boolean {
      return attempt(() => !watcher || statFolder(paths.sessions)?.id !== watched) ?? true;
    },
    close: () => watcher?.close(),
  };
}

/** Works through lists without keeping the event loop busy for long. */
function yieldingWorker(clock: Clock) {
  let isClosed = false;
  /** How long it has kept the event loop busy. */
  let busy = 0;
  return {
    async forEach(names: string[], job: (name: string) => void): Promise<void> {
      let began = clock.elapsed();
      for (const name of names) {
        if (isClosed) return;
        job(name);
        if (clock.elapsed() - began < MAX_BUSY_MS) continue;
        busy += clock.elapsed() - began;
        await new Promise(setImmediate);
        began = clock.elapsed();
      }
      busy += clock.elapsed() - began;
    },
    busyMs: () => busy,
    resetBusy(): void {
      busy = 0;
    },
    isClosed: () => isClosed,
    close(): void {
      isClosed = true;
    },
  };
}

/**
 * Whether an inbox holds anything. Reads the folder, since timestamps may be reported late: opening a folder asks the
 * server, lstat may not.
 */
function hasMail(inbox: string): boolean {
  try {
    return fs.readdirSync(inbox).some((file) => !file.startsWith('.'));
  } catch (error) {
    return errorCode(error) !== 'ENOENT';
  }
}

/** Sorts sessions by when their inbox last changed, newest first. */
function byActivity(names: string[], paths: WorkspacePaths): string[] {
  const at = new Map(names.map((name) => [name, mtimeOf(sessionPaths(paths.session(name)).inbox)]));
  return names.sort((a, b) => (at.get(b) ?? 0) - (at.get(a) ?? 0));
}

/** The system's limit on watches per user; 0 if unknown. */
function readMaxUserWatches(): number {
  return attempt(() => Number(fs.readFileSync('/proc/sys/fs/inotify/max_user_watches', 'latin1'))) ?? 0;
}

function mtimeOf(path: string): number {
  return attempt(() => fs.lstatSync(path, { throwIfNoEntry: false })?.mtimeMs ?? 0) ?? 0;
}
