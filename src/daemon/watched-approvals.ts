import * as fs from 'node:fs';
import { ifThere } from '../store/errors.ts';
import { askedIn, sessionPaths, type WorkspacePaths } from '../store/index.ts';
import type { Watcher, Watches } from './watches.ts';

export type WatchedApprovals = {
  /** Looks whether calls of this session wait for a person: then its `approvals/` is watched, else no more. */
  see(name: string): void;
  /** Looks at those that no watch tells of. */
  poll(): void;
  /** Looks at all of them. */
  sweep(): void;
  close(): void;
};

type Known = { watcher: Watcher | null; seen: string };

/** An answer that a person writes into `approvals/` is heard, in sessions where one is waited for; no other costs anything. */
export function watchedApprovals({
  paths,
  watches,
  heard,
}: {
  paths: WorkspacePaths;
  watches: Watches;
  heard: (name: string) => void;
}): WatchedApprovals {
  const sessions = new Map<string, Known>();

  function see(name: string): void {
    const of = sessionPaths(paths.session(name));
    if (filesOf(of.approvals, askedIn(of)) === '') {
      forget(name);
      return;
    }
    const known = sessions.get(name);
    if (known?.watcher) return;
    const next: Known = known ?? { watcher: null, seen: '' };
    next.watcher = watches.place(of.approvals, () => heard(name));
    next.watcher?.on('error', () => {
      next.watcher = null;
    });
    next.seen = filesOf(of.approvals, askedIn(of));
    sessions.set(name, next);
    // Whoever was quick has saved before there was a watch.
    heard(name);
  }

  function forget(name: string): void {
    sessions.get(name)?.watcher?.close();
    sessions.delete(name);
  }

  function look(name: string, known: Known): void {
    const of = sessionPaths(paths.session(name));
    const now = filesOf(of.approvals, askedIn(of));
    if (now !== known.seen) heard(name);
    known.seen = now;
    if (now === '') forget(name);
  }

  return {
    see,
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

/** Changes with each save; '' where there is no file. */
function filesOf(folder: string, ids: number[]): string {
  const files = ids.flatMap((id) => ifThere(() => fs.lstatSync(`${folder}/${id}.json`, { bigint: true })) ?? []);
  return files.map((stat) => `${stat.ino}:${stat.size}:${stat.mtimeNs}`).join(' ');
}
