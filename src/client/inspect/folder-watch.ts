import * as fs from 'node:fs';

/**
 * How long a change that the system did not report goes unnoticed, in ms: where it reports changes, and where it
 * cannot. With a thousand waiting readers, each check costs.
 */
const POLL_MS = { watched: 2000, unwatched: 500 };

export type FolderWatch = {
  /** Resolves when something may have changed since the last call, after 2 s in any case, at once if aborted. */
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
  let watched = 0;
  const watchers = folders.flatMap((folder) => {
    try {
      const watcher = fs.watch(folder, stir);
      watcher.on('error', () => {
        watched--;
        watcher.close();
      });
      watched++;
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
          const timer = setTimeout(done, watched === folders.length ? POLL_MS.watched : POLL_MS.unwatched);
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
