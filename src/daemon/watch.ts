import * as fs from 'node:fs';
import { type FSWatcher as SettingsWatcher, watch as watchFiles } from 'chokidar';
import type { Clock, World } from '../engine/ports.ts';
import { errorCode, errorText } from '../protocol/errors.ts';
import { isSessionFolder } from '../protocol/names.ts';
import { sessionPaths, type Workspace } from '../store/index.ts';
import { type AskType, fileSystemOf, statfsType } from './file-system.ts';
import { type Look, looks, mayDiffer } from './inbox-look.ts';
import { pulse } from './pulse.ts';

const SWEEP_MS = 30_000;
const POLL_MS = 1000;
/** Longest time a sweep or a round of polling keeps the loop busy at a stretch. */
const STRETCH_MS = 50;
/** A watch is taken from a session only where nothing has come in for this long. */
const QUIET_MS = 60_000;
/** The errors of a system that gives no more watches. */
const LIMITS = new Set(['ENOSPC', 'EMFILE', 'ENFILE', 'ENOMEM']);
const SETTINGS_READY_MS = 5000;

type Watcher = Pick<fs.FSWatcher, 'close' | 'on'>;
/** `fs.watch`, for plain folders; a seam, since a system's limits cannot be reached everywhere. */
export type WatchFolder = (path: string, heard: (event: string, file: string | null) => void) => Watcher;

type Known = {
  /** The session's folder, to tell it from another of the same name. */
  folder: string;
  watcher: Watcher | null;
  /** Of what: its inbox, or its folder while there is no inbox. */
  on: 'inbox' | 'folder' | 'nothing';
  inbox: Look | undefined;
  used: number;
};

export type Watching = {
  fileSystem: string;
  known: number;
  watched: number;
  polled: string[];
  why: string | null;
};

export type Watch = {
  told(): Watching;
  /** Looks at every session now, and wakes those with something in their inbox, whether it is news or not. */
  all(): void;
  close(): Promise<void>;
};

export type Hear = {
  /** A session that was not known, or not under this folder. */
  found: (name: string) => void;
  session: (name: string) => void;
  gone: (name: string) => void;
  settings: () => void;
};

export type WatchOptions = {
  log: World['log'];
  clock: Clock;
  /** Sessions that are open: looked at each second besides, since a watch does not tell when a folder we hold is removed. */
  open: () => Iterable<string>;
  watch?: WatchFolder;
  typeOf?: AskType;
};

/**
 * Says "look at this session" whenever something may have come in. One plain folder watch an inbox; events are hints and carry
 * nothing. Lost events are made up for by a sweep: twice a minute, and at once after anything that may have cost some (see pulse.ts). Where
 * the system gives no more watches, or changes from elsewhere are not seen (NFS), inboxes are polled. Resolves once every session that
 * was there has been told as `found`.
 */
export async function watchWorkspace(workspace: Workspace, hear: Hear, options: WatchOptions): Promise<Watch> {
  const { log, clock, watch = fs.watch, typeOf = statfsType } = options;
  const { paths } = workspace;
  const sessions = new Map<string, Known>();
  /** Those without a watch, in the order they are polled. */
  const polled = new Set<string>();
  const fileSystem = fileSystemOf(paths.sessions, typeOf);
  const lookAt = looks(paths.own);
  /** Why no more watches are tried for now. */
  let limit: string | null = null;
  let folders: Watcher | null = null;
  /** Which folder that watch is on. */
  let root: string | undefined;
  let sweeping: Promise<void> | null = null;
  let sweepAgain = false;
  let closed = false;
  let said = '';

  const beat = pulse(clock, (why) => {
    log('info', `${why}: every session is looked at`);
    hear.settings();
    void sweep();
  });

  const say = (text: string) => {
    if (text !== said) log('warn', text);
    said = text;
  };

  // --- watches --------------------------------------------------------------------------------------------------------

  function place(path: string, heard: (event: string, file: string | null) => void): Watcher | null {
    if (!fileSystem.local || limit !== null) return null;
    try {
      const watcher = watch(path, (event, file) => {
        beat.heard();
        heard(event, file);
      });
      watcher.on('error', (error) => {
        watcher.close();
        beat.suspect(`a watch failed (${errorText(error)})`);
      });
      return watcher;
    } catch (error) {
      if (!LIMITS.has(errorCode(error) ?? '')) return null;
      limit = `the system gives no more watches (${errorCode(error)})`;
      say(
        `${limit}: the other inboxes are polled each second. To mend it: sysctl fs.inotify.max_user_watches=524288 fs.inotify.max_user_instances=1024`,
      );
      return null;
    }
  }

  function hold(name: string, known: Known, on: 'inbox' | 'folder'): void {
    known.watcher?.close();
    const inbox = sessionPaths(paths.session(name)).inbox;
    known.watcher =
      on === 'inbox'
        ? place(inbox, (event, file) => {
            known.used = clock.elapsed();
            // A folder's own end is told under its own name.
            if (event === 'rename' && (file === null || file === 'inbox')) see(name);
            if (file === null || !file.startsWith('.')) hear.session(name);
          })
        : place(paths.session(name), () => see(name));
    known.on = known.watcher ? on : 'nothing';
    known.watcher?.on('error', () => {
      Object.assign(known, { watcher: null, on: 'nothing' });
      polled.add(name);
    });
    if (known.watcher) polled.delete(name);
    else polled.add(name);
  }

  // --- looks ----------------------------------------------------------------------------------------------------------

  /** Looks at one session: a new one is told, one whose folder is another is told as new, news in its inbox are told. */
  function see(name: string): void {
    if (closed) return;
    try {
      const folder = isSessionFolder(name) ? lookAt(paths.session(name)) : undefined;
      const known = sessions.get(name);
      if (known && known.folder !== folder?.id) forget(name);
      if (!folder) return;
      const now = sessions.get(name);
      if (now) compare(name, now);
      else adopt(name, folder.id);
    } catch (error) {
      if (errorCode(error) === 'ENOENT') return;
      // What cannot be looked at is not missing: whoever opens it finds out why, and it is polled until then.
      unseen(name);
    }
  }

  function adopt(name: string, folder: string): void {
    const known: Known = { folder, watcher: null, on: 'nothing', inbox: undefined, used: Number.NEGATIVE_INFINITY };
    sessions.set(name, known);
    rewatch(name, known);
    hear.found(name);
  }

  /** The watch comes first, then the look: what arrives in between is seen by one of them. */
  function rewatch(name: string, known: Known): void {
    const { inbox } = sessionPaths(paths.session(name));
    const on = lookAt(inbox) ? 'inbox' : 'folder';
    hold(name, known, on);
    known.inbox = lookAt(inbox);
    if (known.watcher && known.inbox && on === 'folder') hold(name, known, 'inbox');
  }

  function compare(name: string, known: Known): void {
    const before = known.inbox;
    const now = lookAt(sessionPaths(paths.session(name)).inbox);
    known.inbox = now;
    const isOther = before?.id !== now?.id;
    if (isOther || known.on === 'nothing') {
      if (isOther || (fileSystem.local && limit === null)) rewatch(name, known);
      if (isOther && now) (before ? hear.session : hear.found)(name);
    }
    if (before && now && !isOther && mayDiffer(before, now)) {
      if (before.mtime !== now.mtime) known.used = clock.elapsed();
      if (known.on === 'nothing') swap(name, known);
      hear.session(name);
    }
  }

  function unseen(name: string): void {
    if (!sessions.has(name)) {
      sessions.set(name, { folder: '', watcher: null, on: 'nothing', inbox: undefined, used: clock.elapsed() });
    }
    if (sessions.get(name)?.on === 'nothing') polled.add(name);
    hear.session(name);
  }

  function forget(name: string): void {
    sessions.get(name)?.watcher?.close();
    sessions.delete(name);
    polled.delete(name);
    hear.gone(name);
  }

  /** Where watches are short, one that something comes in to gets that of the one that has been quiet longest. */
  function swap(name: string, known: Known): void {
    if (limit === null || !fileSystem.local) return;
    let quiet: [string, Known] | undefined;
    for (const one of sessions) if (one[1].watcher && (!quiet || one[1].used < quiet[1].used)) quiet = one;
    if (!quiet || quiet[1].used > clock.elapsed() - QUIET_MS) return;
    const [other, its] = quiet;
    its.watcher?.close();
    Object.assign(its, { watcher: null, on: 'nothing' });
    polled.add(other);
    const before = limit;
    limit = null;
    rewatch(name, known);
    limit ??= before;
  }

  // --- rounds ---------------------------------------------------------------------------------------------------------

  /** All of them, a stretch at a time; those something came in to last are watched first. */
  async function round(): Promise<void> {
    limit = null;
    const { id } = lookAt(paths.sessions) ?? {};
    if (id !== root) folders?.close();
    if (id !== root || !folders) folders = watchFolders();
    root = id;
    const names = id === undefined ? [] : fs.readdirSync(paths.sessions).filter(isSessionFolder);
    const there = new Set(names);
    for (const name of sessions.keys()) if (!there.has(name)) see(name);
    const fresh = names.filter((name) => !sessions.has(name));
    await inStretches(
      [...names.filter((name) => sessions.has(name)), ...(fresh.length > 1 ? byActivity(fresh) : fresh)],
      see,
    );
    if (!fileSystem.local) await inStretches(names, peek);
    if (limit === null) said = '';
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
      if (clock.elapsed() - began < STRETCH_MS) continue;
      await new Promise(setImmediate);
      began = clock.elapsed();
    }
  }

  function sweep(): Promise<void> {
    if (sweeping !== null) sweepAgain = true;
    sweeping ??= round()
      .catch((error) => {
        say(`the sweep failed and is tried again: ${errorText(error)}`);
        beat.suspect('a sweep failed');
      })
      .finally(() => {
        sweeping = null;
        if (!sweepAgain || closed) return;
        sweepAgain = false;
        void sweep();
      });
    return sweeping;
  }

  /** By reading, since times may be told late: opening a folder asks the server, lstat may not. */
  function peek(name: string): void {
    try {
      const files = fs.readdirSync(sessionPaths(paths.session(name)).inbox);
      if (files.some((file) => !file.startsWith('.'))) hear.session(name);
    } catch (error) {
      if (errorCode(error) !== 'ENOENT') hear.session(name);
    }
  }

  function poll(): void {
    for (const name of [...options.open()]) {
      see(name);
      if (!fileSystem.local) peek(name);
    }
    if (!fileSystem.local) return;
    if (!folders || isOtherRoot()) return void sweep();
    const began = clock.elapsed();
    for (let left = polled.size; left > 0 && clock.elapsed() - began < STRETCH_MS; left--) {
      const [name] = polled;
      if (name === undefined) return;
      // To the end of the line: a long one takes several rounds.
      polled.delete(name);
      polled.add(name);
      see(name);
    }
  }

  function isOtherRoot(): boolean {
    try {
      return lookAt(paths.sessions)?.id !== root;
    } catch {
      return true;
    }
  }

  function watchFolders(): Watcher | null {
    const watcher = place(paths.sessions, (_event, name) => (name === null ? void sweep() : see(name)));
    watcher?.on('error', () => {
      folders = null;
    });
    return watcher;
  }

  // A plain watch, set before the first sweep: chokidar reads first and watches then (docs/decisions/0002).
  const settings = await ready(watchFiles([paths.config, paths.instructions], { ignoreInitial: true }));
  settings.on('all', hear.settings);
  settings.on('error', (error) => log('warn', `watching the settings: ${errorText(error)}`));
  if (!fileSystem.local) {
    say(
      `${paths.sessions} is on ${fileSystem.name}, where changes made elsewhere are not told: inboxes are polled, open sessions each second, all each 30 s`,
    );
  }
  await sweep();
  const timers = [
    setInterval(() => {
      hear.settings();
      void sweep();
    }, SWEEP_MS),
    setInterval(poll, POLL_MS),
  ];
  return {
    told: () => ({
      fileSystem: fileSystem.name,
      known: sessions.size,
      watched: sessions.size - polled.size,
      polled: [...polled],
      why: fileSystem.local ? limit : `changes made elsewhere are not told on ${fileSystem.name}`,
    }),
    all: () => void inStretches([...sessions.keys()], peek),
    async close() {
      closed = true;
      beat.stop();
      for (const timer of timers) clearInterval(timer);
      for (const { watcher } of sessions.values()) watcher?.close();
      folders?.close();
      await settings.close();
    },
  };
}

function mtimeOf(path: string): number {
  try {
    return fs.lstatSync(path, { throwIfNoEntry: false })?.mtimeMs ?? 0;
  } catch {
    return 0;
  }
}

/** The sweep looks at the settings too: a watch on them that never comes up holds up nothing. */
function ready(watcher: SettingsWatcher): Promise<SettingsWatcher> {
  return new Promise((resolve) => {
    const late = setTimeout(() => resolve(watcher), SETTINGS_READY_MS);
    watcher.on('error', () => {});
    watcher.once('ready', () => {
      clearTimeout(late);
      resolve(watcher);
    });
  });
}
