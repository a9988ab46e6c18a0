import * as fs from 'node:fs';
import { errorCode, errorText } from '../../base/user-error.ts';
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
  lookAt: (path: string) => FolderState | undefined;
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
export function openInboxSweep({
  paths,
  sessions,
  watches,
  lookAt,
  local,
  clock,
  open,
  wake,
  onComplete,
  onFailed,
}: InboxSweepDeps): InboxSweep {
  let folders: FolderWatcher | null = null;
  /** The folder that the watch is on. */
  let root: string | undefined;
  let sweeping: Promise<void> | null = null;
  let sweepAgain = false;
  let closed = false;
  /** How long the current sweep has kept the event loop busy. */
  let busy = 0;
  /** When the last sweep ended, and how long it took. */
  let last = { at: Number.NEGATIVE_INFINITY, ms: 0 };

  /** One sweep over all sessions, in batches; the most recently active are watched first. */
  async function round(): Promise<void> {
    watches.tryAgain();
    const { id } = lookAt(paths.sessions) ?? {};
    if (id !== root) folders?.close();
    if (id !== root || !folders) folders = watchFolders();
    root = id;
    const names = id === undefined ? [] : fs.readdirSync(paths.sessions).filter(isSessionFolder);
    const there = new Set(names);
    for (const name of sessions.names()) if (!there.has(name)) sessions.check(name);
    const fresh = names.filter((name) => !sessions.has(name));
    await inStretches(
      [
        ...names.filter((name) => sessions.has(name)),
        ...(fresh.length > readMaxUserWatches() / 2 ? byActivity(fresh) : fresh),
      ],
      sessions.check,
    );
    if (!local) await inStretches(names, peek);
    if (watches.limit === null) onComplete();
  }

  function byActivity(names: string[]): string[] {
    const at = new Map(names.map((name) => [name, mtimeOf(sessionPaths(paths.session(name)).inbox)]));
    return names.sort((a, b) => (at.get(b) ?? 0) - (at.get(a) ?? 0));
  }

  async function inStretches(names: string[], job: (name: string) => void): Promise<void> {
    let began = clock.elapsed();
    for (const name of names) {
      if (closed) return;
      job(name);
      if (clock.elapsed() - began < MAX_BUSY_MS) continue;
      busy += clock.elapsed() - began;
      await new Promise(setImmediate);
      began = clock.elapsed();
    }
    busy += clock.elapsed() - began;
  }

  function sweep(): Promise<void> {
    if (sweeping !== null) sweepAgain = true;
    if (sweeping === null) busy = 0;
    sweeping ??= round()
      .catch((error) => onFailed(errorText(error)))
      .finally(() => {
        sweeping = null;
        last = { at: clock.elapsed(), ms: busy };
        if (!sweepAgain || closed) return;
        sweepAgain = false;
        void sweep();
      });
    return sweeping;
  }

  /** Reads the folder, since timestamps may be reported late: opening a folder asks the server, lstat may not. */
  function peek(name: string): void {
    try {
      const files = fs.readdirSync(sessionPaths(paths.session(name)).inbox);
      if (files.some((file) => !file.startsWith('.'))) wake(name);
    } catch (error) {
      if (errorCode(error) !== 'ENOENT') wake(name);
    }
  }

  function poll(): void {
    for (const name of [...open()]) {
      sessions.check(name);
      if (!local) peek(name);
    }
    if (!local) return;
    if (!folders || isOtherRoot()) return void sweep();
    const began = clock.elapsed();
    for (let left = sessions.polled.size; left > 0 && clock.elapsed() - began < MAX_BUSY_MS; left--) {
      const name = sessions.nextPolled();
      if (name === undefined) return;
      sessions.check(name);
    }
  }

  function isOtherRoot(): boolean {
    try {
      return lookAt(paths.sessions)?.id !== root;
    } catch {
      return true;
    }
  }

  function watchFolders(): FolderWatcher | null {
    const watcher = watches.watch(paths.sessions, (_event, name) =>
      name === null ? void sweep() : sessions.check(name),
    );
    watcher?.on('error', () => {
      folders = null;
    });
    return watcher;
  }

  return {
    sweep,
    isDue: () => !local || clock.elapsed() - last.at >= Math.min(MAX_INTERVAL_MS, SWEEP_TIME_SHARE * last.ms),
    poll,
    wakeAllWithMail: () => void inStretches(sessions.names(), peek),
    close() {
      closed = true;
      folders?.close();
    },
  };
}

/** The system's limit on watches per user; 0 if unknown. */
function readMaxUserWatches(): number {
  try {
    return Number(fs.readFileSync('/proc/sys/fs/inotify/max_user_watches', 'latin1'));
  } catch {
    return 0;
  }
}

function mtimeOf(path: string): number {
  try {
    return fs.lstatSync(path, { throwIfNoEntry: false })?.mtimeMs ?? 0;
  } catch {
    return 0;
  }
}
