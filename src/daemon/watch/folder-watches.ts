import type * as fs from 'node:fs';
import { errorCode, errorText } from '../../base/user-error.ts';

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
