import type * as fs from 'node:fs';
import { errorCode, errorText } from '../../base/user-error.ts';
import type { Clock } from '../../engine/ports/session-ports.ts';

/** The error codes when the system's limit on file watches is reached. */
const WATCH_LIMIT_CODES = new Set(['ENOSPC', 'EMFILE', 'ENFILE', 'ENOMEM']);
const RAISE_LIMIT_COMMAND = 'sysctl fs.inotify.max_user_watches=524288 fs.inotify.max_user_instances=1024';

export type FolderWatcher = Pick<fs.FSWatcher, 'close' | 'on'>;
/** `fs.watch` for plain folders; replaceable in tests, since a system's limits cannot be reached everywhere. */
export type WatchFolder = (path: string, onEvent: (event: string, file: string | null) => void) => FolderWatcher;

/** The file watches of this process. */
export type FolderWatches = {
  /** Null if the folder cannot be watched, or the system's limit is reached. */
  watch: (...about: Parameters<WatchFolder>) => FolderWatcher | null;
  /** Why no more watches are tried for now. */
  readonly limit: string | null;
  /** Whether another one may be tried. */
  readonly mayBeTried: boolean;
  /** Allows further attempts: the system may have free watches again. */
  tryAgain(): void;
  /** Runs a job with one watch that was just released; the limit remains in effect. */
  withOneFree(job: () => void): void;
};

export type FolderWatchesOptions = {
  watch: WatchFolder;
  /** Whether this file system reports changes at all. */
  local: boolean;
  onEvent: () => void;
  onFailed: (why: string) => void;
  say: (text: string) => void;
};

/** Creates watches until the system's limit is reached, then logs how to raise it. */
export function openFolderWatches({ watch, local, onEvent, onFailed, say }: FolderWatchesOptions): FolderWatches {
  let limit: string | null = null;
  return {
    watch(path, then) {
      if (!local || limit !== null) return null;
      try {
        const watcher = watch(path, (event, file) => {
          onEvent();
          then(event, file);
        });
        watcher.on('error', (error) => {
          watcher.close();
          onFailed(`a watch failed (${errorText(error)})`);
        });
        return watcher;
      } catch (error) {
        if (!WATCH_LIMIT_CODES.has(errorCode(error) ?? '')) return null;
        limit = `the system's limit on file watches is reached (${errorCode(error)})`;
        say(`${limit}: the other inboxes are polled each second. To raise it: ${RAISE_LIMIT_COMMAND}`);
        return null;
      }
    },
    get limit() {
      return limit;
    },
    get mayBeTried() {
      return local && limit === null;
    },
    tryAgain() {
      limit = null;
    },
    withOneFree(job) {
      const before = limit;
      limit = null;
      job();
      limit ??= before;
    },
  };
}

const TICK_MS = 250;
/**
 * If the event loop is blocked for longer than this, the kernel's queue of file events may have overflowed unnoticed.
 */
const STALL_MS = 300;
/** If wall clock and steady clock differ by more than this, the machine slept or the clock was set. */
const JUMP_MS = 2000;
/**
 * The kernel's queue holds 16,384 file events by default. As many in one turn of the event loop are the only visible
 * signal of an overflow; half of them suffice here, since a part may have been read before.
 */
const BURST_EVENTS = 8192;
/** Minimum interval between two sweeps triggered here. */
const MIN_APART_MS = 1000;

/** Detects what may have lost file events; the receiver then checks everything. */
export type LostEventDetector = {
  /** A watch fired. */
  countEvent(): void;
  suspectLoss(why: string): void;
  stop(): void;
};

/** Starts the detector; `onSuspected` receives the reason for each check. */
export function detectLostEvents(clock: Clock, onSuspected: (why: string) => void): LostEventDetector {
  let last = { steady: clock.elapsed(), wall: clock.now().getTime() };
  let calls = 0;
  let due: NodeJS.Timeout | null = null;
  let looked = Number.NEGATIVE_INFINITY;

  function suspect(why: string): void {
    if (due) return;
    // After the current turn of the event loop at least, so that queued events come first and their changes are seen
    // too.
    const wait = Math.max(1, looked + MIN_APART_MS - clock.elapsed());
    due = setTimeout(() => {
      due = null;
      looked = clock.elapsed();
      onSuspected(why);
    }, wait);
    due.unref();
  }

  function tick(): void {
    const now = { steady: clock.elapsed(), wall: clock.now().getTime() };
    const passed = now.steady - last.steady;
    const jump = now.wall - last.wall - passed;
    last = now;
    if (passed - TICK_MS > STALL_MS) suspect(`the event loop was blocked for ${Math.round(passed - TICK_MS)} ms`);
    else if (Math.abs(jump) > JUMP_MS) suspect(`the clock jumped by ${Math.round(jump / 1000)} s`);
  }

  const timer = setInterval(tick, TICK_MS);
  timer.unref();
  return {
    countEvent() {
      calls += 1;
      if (calls === 1) setImmediate(() => (calls = 0));
      else if (calls === BURST_EVENTS) suspect(`${BURST_EVENTS} file events at once`);
    },
    suspectLoss: suspect,
    stop() {
      clearInterval(timer);
      if (due) clearTimeout(due);
    },
  };
}
