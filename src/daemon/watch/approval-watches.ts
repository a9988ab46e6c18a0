import * as fs from 'node:fs';
import { ifExists } from '../../store/fs/store-errors.ts';
import { listApprovalIds, sessionPaths, type WorkspacePaths } from '../../store/index.ts';
import type { FolderWatcher, FolderWatches } from './folder-watches.ts';

export type ApprovalWatches = {
  /** Checks whether calls of this session wait for a person: if so its `approvals/` is watched, else no longer. */
  check(name: string): void;
  /** Checks the sessions that have no watch. */
  poll(): void;
  /** Checks all sessions. */
  sweep(): void;
  close(): void;
};

type WatchedApprovalFolder = { watcher: FolderWatcher | null; seen: string };

/** Reports answers that a person writes into `approvals/`, in sessions that wait for one; others cost nothing. */
export function openApprovalWatches({
  paths,
  watches,
  heard,
}: {
  paths: WorkspacePaths;
  watches: FolderWatches;
  heard: (name: string) => void;
}): ApprovalWatches {
  const sessions = new Map<string, WatchedApprovalFolder>();

  function see(name: string): void {
    const of = sessionPaths(paths.session(name));
    if (approvalFilesKey(of.approvals, listApprovalIds(of)) === '') {
      forget(name);
      return;
    }
    const known = sessions.get(name);
    if (known?.watcher) return;
    const next: WatchedApprovalFolder = known ?? { watcher: null, seen: '' };
    next.watcher = watches.watch(of.approvals, () => heard(name));
    next.watcher?.on('error', () => {
      next.watcher = null;
    });
    next.seen = approvalFilesKey(of.approvals, listApprovalIds(of));
    sessions.set(name, next);
    // The answer may have been saved before the watch existed.
    heard(name);
  }

  function forget(name: string): void {
    sessions.get(name)?.watcher?.close();
    sessions.delete(name);
  }

  function look(name: string, known: WatchedApprovalFolder): void {
    const of = sessionPaths(paths.session(name));
    const now = approvalFilesKey(of.approvals, listApprovalIds(of));
    if (now !== known.seen) heard(name);
    known.seen = now;
    if (now === '') forget(name);
  }

  return {
    check: see,
    poll() {
      for (const [name, known] of sessions) if (!known.watcher) look(name, known);
    },
    sweep() {
      for (const [name, known] of sessions) {
        look(name, known);
        if (!known.watcher && sessions.has(name)) see(name);
      }
    },
    close() {
      for (const { watcher } of sessions.values()) watcher?.close();
    },
  };
}

/** Changes with each save; '' if there is no file. */
function approvalFilesKey(folder: string, ids: number[]): string {
  const files = ids.flatMap((id) => ifExists(() => fs.lstatSync(`${folder}/${id}.json`, { bigint: true })) ?? []);
  return files.map((stat) => `${stat.ino}:${stat.size}:${stat.mtimeNs}`).join(' ');
}
