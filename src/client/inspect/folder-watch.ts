import * as fs from 'node:fs';

/** Longest time, in ms, for which a change that the system did not report goes unnoticed. */
const POLL_MS = 500;

export type FolderWatch = {
  /** Resolves when something may have changed since the last call, after 500 ms in any case, at once if aborted. */
  next(signal?: AbortSignal): Promise<void>;
  close(): void;
};

/**
 * Watches folders. Events are hints and are never lost between two calls; a folder that cannot be watched is polled.
 */
export function watchFolders(folders: string[]): FolderWatch {
  let stirred = false;
  let wake: (() => void) | null = null;
  const stir = () => {
    stirred = true;
    wake?.();
  };
  const watchers = folders.flatMap((folder) => {
    try {
      const watcher = fs.watch(folder, stir);
      watcher.on('error', () => watcher.close());
      return [watcher];
    } catch {
      return [];
    }
  });
  return {
    async next(signal) {
      if (!stirred && !signal?.aborted) {
        await new Promise<void>((resolve) => {
          const done = () => {
            clearTimeout(timer);
            signal?.removeEventListener('abort', done);
            resolve();
          };
          const timer = setTimeout(done, POLL_MS);
          wake = done;
          signal?.addEventListener('abort', done);
        });
      }
      wake = null;
      stirred = false;
    },
    close() {
      for (const watcher of watchers) watcher.close();
    },
  };
}
