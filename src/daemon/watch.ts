import * as fs from 'node:fs';
import { type FSWatcher, watch as watchFiles } from 'chokidar';
import type { World } from '../engine/ports.ts';
import { errorText } from '../protocol/errors.ts';
import { sessionPaths, type Workspace } from '../store/index.ts';

const SWEEP_MS = 30_000;
const POLL_MS = 1_000;
/** A change this recent may share its timestamp with one that comes after the look. */
const RECENT_MS = 2_000;

/** In place of an inode: there is no inbox yet. */
const NO_INBOX = 0n;

type Watched = { watcher: fs.FSWatcher | null; ino: bigint; seen: bigint };

export type Watch = {
  /** Sessions that are watched, and those that are polled because the system refused a watch. */
  counts(): { watched: number; polled: number };
  close(): Promise<void>;
};

/**
 * Says "look at this session" whenever something may have come in. One plain directory watch an inbox; events are hints and
 * carry nothing. A sweep twice a minute bounds what a lost event costs: the kernel's queue overflows in silence. Resolves once
 * every session that was there is watched and was told as `found`.
 */
export async function watchWorkspace(
  workspace: Workspace,
  hear: {
    found: (name: string) => void;
    session: (name: string) => void;
    gone: (name: string) => void;
    settings: () => void;
  },
  log: World['log'],
): Promise<Watch> {
  const inboxes = new Map<string, Watched>();
  const { paths } = workspace;

  /** The watch comes first, then the look: what arrives in between is seen by one of them. */
  function adopt(name: string): void {
    const inbox = sessionPaths(paths.session(name)).inbox;
    const stat = inboxOf(inbox);
    const known = inboxes.get(name);
    if (!stat) {
      awaitInbox(name, known);
      return;
    }
    if (known?.watcher && known.ino === stat.ino) {
      if (recent(stat, known)) hear.session(name);
      known.seen = stat.mtimeNs;
      return;
    }
    known?.watcher?.close();
    inboxes.set(name, { watcher: plainWatch(name, inbox, known === undefined), ino: stat.ino, seen: stat.mtimeNs });
    if (known && known.ino !== NO_INBOX) hear.session(name);
    else hear.found(name);
  }

  /** A session folder without an inbox: the folder is watched until somebody makes one. */
  function awaitInbox(name: string, known: Watched | undefined): void {
    if (known?.ino === NO_INBOX) return;
    known?.watcher?.close();
    try {
      const watcher = fs.watch(paths.session(name), () => adopt(name));
      watcher.on('error', () => forget(name));
      inboxes.set(name, { watcher, ino: NO_INBOX, seen: 0n });
    } catch {
      // The folder is gone again, or the sweep must do: either way it is looked at twice a minute.
      inboxes.delete(name);
    }
    if (inboxOf(sessionPaths(paths.session(name)).inbox)) adopt(name);
  }

  function see(name: string): void {
    if (workspace.has(name)) adopt(name);
    else if (inboxes.has(name)) forget(name);
  }

  function plainWatch(name: string, inbox: string, first: boolean): fs.FSWatcher | null {
    try {
      const watcher = fs.watch(inbox, (_event, file) => {
        if (file === null || !file.startsWith('.')) hear.session(name);
      });
      watcher.on('error', () => forget(name));
      return watcher;
    } catch (error) {
      if (first) log('warn', `${name}: no watch (${errorText(error)}); its inbox is polled every second`);
      return null;
    }
  }

  function forget(name: string): void {
    inboxes.get(name)?.watcher?.close();
    inboxes.delete(name);
    hear.gone(name);
  }

  function sweep(): void {
    try {
      const names = new Set(workspace.sessions());
      for (const name of inboxes.keys()) if (!names.has(name)) forget(name);
      for (const name of names) adopt(name);
    } catch (error) {
      log('error', `the sweep failed: ${errorText(error)}`);
    }
  }

  function poll(): void {
    for (const [name, inbox] of inboxes) if (!inbox.watcher) hear.session(name);
  }

  // A plain watch, set before the first sweep: chokidar reads first and watches then (docs/decisions/0002).
  const folders = fs.watch(paths.sessions, (_event, name) => (name === null ? sweep() : see(name)));
  folders.on('error', (error) => log('warn', `watching ${paths.sessions}: ${errorText(error)}`));
  const settings = await ready(watchFiles([paths.config, paths.instructions], { ignoreInitial: true }));
  settings.on('all', hear.settings);
  settings.on('error', (error) => log('warn', `watching the settings: ${errorText(error)}`));
  sweep();
  const timers = [setInterval(sweep, SWEEP_MS), setInterval(poll, POLL_MS)];
  return {
    counts() {
      const polled = [...inboxes.values()].filter((inbox) => !inbox.watcher).length;
      return { watched: inboxes.size - polled, polled };
    },
    async close() {
      for (const timer of timers) clearInterval(timer);
      for (const inbox of inboxes.values()) inbox.watcher?.close();
      folders.close();
      await settings.close();
    },
  };
}

function inboxOf(inbox: string): fs.BigIntStats | undefined {
  const stat = fs.lstatSync(inbox, { bigint: true, throwIfNoEntry: false });
  return stat?.isDirectory() ? stat : undefined;
}

function recent(stat: fs.BigIntStats, known: Watched): boolean {
  return stat.mtimeNs !== known.seen || Date.now() - Number(stat.mtimeMs) < RECENT_MS;
}

function ready(watcher: FSWatcher): Promise<FSWatcher> {
  return new Promise((resolve) => watcher.once('ready', () => resolve(watcher)));
}
