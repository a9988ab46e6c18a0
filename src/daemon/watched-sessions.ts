import type { Clock } from '../engine/ports.ts';
import { errorCode } from '../protocol/errors.ts';
import { isSessionFolder } from '../protocol/names.ts';
import { sessionPaths, type WorkspacePaths } from '../store/index.ts';
import { type Look, mayDiffer } from './inbox-look.ts';
import type { Watcher, Watches } from './watches.ts';

/** A watch is taken from a session only where nothing has come in for this long. */
const QUIET_MS = 60_000;

type Known = {
  /** The session's folder, to tell it from another of the same name. */
  folder: string;
  watcher: Watcher | null;
  /** Of what: its inbox, or its folder while there is no inbox. */
  on: 'inbox' | 'folder' | 'nothing';
  inbox: Look | undefined;
  used: number;
};

export type WatchedSessions = {
  /** Looks at one session: a new one is told, one whose folder is another is told as new, news in its inbox are told. */
  see(name: string): void;
  has(name: string): boolean;
  names(): string[];
  count(): number;
  /** Those without a watch, in the order they are polled. */
  readonly polled: ReadonlySet<string>;
  /** The one whose turn it is to be polled; it goes to the end of the line, which may take several rounds. */
  nextPolled(): string | undefined;
  close(): void;
};

export type SessionsHear = {
  /** A session that was not known, or not under this folder. */
  found: (name: string) => void;
  session: (name: string) => void;
  gone: (name: string) => void;
};

type Around = {
  paths: WorkspacePaths;
  watches: Watches;
  lookAt: (path: string) => Look | undefined;
  hear: SessionsHear;
  clock: Clock;
};

/** What is known of each session, with one watch each as far as there are watches. */
export function watchedSessions({ paths, watches, lookAt, hear, clock }: Around): WatchedSessions {
  const sessions = new Map<string, Known>();
  const polled = new Set<string>();
  let closed = false;

  function hold(name: string, known: Known, on: 'inbox' | 'folder'): void {
    known.watcher?.close();
    const inbox = sessionPaths(paths.session(name)).inbox;
    known.watcher =
      on === 'inbox'
        ? watches.place(inbox, (event, file) => {
            known.used = clock.elapsed();
            // A folder's own end is told under its own name.
            if (event === 'rename' && (file === null || file === 'inbox')) see(name);
            if (file === null || !file.startsWith('.')) hear.session(name);
          })
        : watches.place(paths.session(name), () => see(name));
    known.on = known.watcher ? on : 'nothing';
    known.watcher?.on('error', () => letGo(name, known));
    if (known.watcher) polled.delete(name);
    else polled.add(name);
  }

  function letGo(name: string, known: Known): void {
    Object.assign(known, { watcher: null, on: 'nothing' });
    polled.add(name);
  }

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
    hold(name, known, 'inbox');
    known.inbox = lookAt(inbox);
    if (known.inbox || watches.limit !== null) return;
    hold(name, known, 'folder');
    known.inbox = lookAt(inbox);
    if (known.watcher && known.inbox) hold(name, known, 'inbox');
  }

  function compare(name: string, known: Known): void {
    const before = known.inbox;
    const now = lookAt(sessionPaths(paths.session(name)).inbox);
    known.inbox = now;
    const isOther = before?.id !== now?.id;
    if (isOther || known.on === 'nothing') {
      if (isOther || watches.mayBeTried) rewatch(name, known);
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
    if (watches.limit === null) return;
    let quiet: [string, Known] | undefined;
    for (const one of sessions) if (one[1].watcher && (!quiet || one[1].used < quiet[1].used)) quiet = one;
    if (!quiet || quiet[1].used > clock.elapsed() - QUIET_MS) return;
    const [other, its] = quiet;
    its.watcher?.close();
    letGo(other, its);
    watches.withOneFree(() => rewatch(name, known));
  }

  return {
    see,
    has: (name) => sessions.has(name),
    names: () => [...sessions.keys()],
    count: () => sessions.size,
    polled,
    nextPolled() {
      const [name] = polled;
      if (name === undefined) return undefined;
      polled.delete(name);
      polled.add(name);
      return name;
    },
    close() {
      closed = true;
      for (const { watcher } of sessions.values()) watcher?.close();
    },
  };
}
