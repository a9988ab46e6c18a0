import * as fs from 'node:fs';
import { basename, join } from 'node:path';
import { attempt, errorCode } from '../../base/user-error.ts';
import type { Clock } from '../../engine/ports/session-ports.ts';
import { isSessionFolder } from '../../protocol/workspace/session-names.ts';
import { createFolderId, sessionPaths, type WorkspacePaths } from '../../store/index.ts';
import type { FolderWatcher, FolderWatches } from './folder-watches.ts';

const WAKE_NAME = basename(sessionPaths('').wakeFile);
/** A watch is taken from a session only after it was quiet for this long. */
const QUIET_MS = 60_000;

type WatchedSession = {
  /** Identifies the session's folder, as opposed to another of the same name. */
  folder: string;
  watcher: FolderWatcher | null;
  /** What is watched: its inbox, or its folder while there is no inbox. */
  on: 'inbox' | 'folder' | 'nothing';
  inbox: FolderState | undefined;
  lastUsed: number;
};

export type SessionWatches = {
  /** Checks one session: reports a new or replaced one as new, and new messages in its inbox. */
  check(name: string): void;
  /** From now on a folder that is still being copied here is reported once it is whole. */
  awaitCopies(): void;
  has(name: string): boolean;
  names(): string[];
  count(): number;
  /** Those without a watch, in polling order. */
  readonly polled: ReadonlySet<string>;
  /** The next session to poll; it moves to the end of the queue, which may take several rounds. */
  nextPolled(): string | undefined;
  close(): void;
};

export type SessionHandlers = {
  /** A session that was unknown, or known under another folder. */
  found: (name: string) => void;
  session: (name: string) => void;
  gone: (name: string) => void;
};

type SessionWatchDeps = {
  paths: WorkspacePaths;
  watches: FolderWatches;
  statFolder: (path: string) => FolderState | undefined;
  handlers: SessionHandlers;
  clock: Clock;
  /** Sessions that are open here. */
  open: () => Iterable<string>;
};

/** What is known of each session, with one watch each as long as there are watches. */
export function openSessionWatches(deps: SessionWatchDeps): SessionWatches {
  const it: WatchState = {
    ...{ ...deps, sessions: new Map(), polled: new Set(), copies: new Map() },
    ...{ isClosed: false, awaitsCopies: false },
  };
  const { sessions, polled } = it;
  return {
    check: (name) => check(it, name),
    awaitCopies() {
      it.awaitsCopies = true;
    },
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
      it.isClosed = true;
      for (const { watcher } of sessions.values()) watcher?.close();
      for (const timer of it.copies.values()) clearTimeout(timer);
    },
  };
}

type WatchState = SessionWatchDeps & {
  sessions: Map<string, WatchedSession>;
  polled: Set<string>;
  /** Folders that are being copied here, with the timers that look again. */
  copies: Map<string, NodeJS.Timeout>;
  isClosed: boolean;
  awaitsCopies: boolean;
};

function startWatch(it: WatchState, name: string, known: WatchedSession, on: 'inbox' | 'folder'): void {
  const { paths, watches, handlers, clock, polled } = it;
  known.watcher?.close();
  const inbox = sessionPaths(paths.session(name)).inbox;
  known.watcher =
    on === 'inbox'
      ? watches.watch(inbox, (event, file) => {
          known.lastUsed = clock.elapsed();
          // A folder's own removal is reported under its own name.
          if (event === 'rename' && (file === null || file === 'inbox')) check(it, name);
          // What was moved or removed brings nothing new: mostly the session itself took it in.
          if (event === 'rename' && file !== null && !isTaken(join(inbox, file))) return;
          if (file === null || !file.startsWith('.') || file === WAKE_NAME) handlers.session(name);
        })
      : watches.watch(paths.session(name), () => check(it, name));
  known.on = known.watcher ? on : 'nothing';
  known.watcher?.on('error', () => pollInstead(it, name, known));
  if (known.watcher) polled.delete(name);
  else polled.add(name);
}

function pollInstead({ polled }: WatchState, name: string, known: WatchedSession): void {
  Object.assign(known, { watcher: null, on: 'nothing' });
  polled.add(name);
}

function check(it: WatchState, name: string): void {
  if (it.isClosed) return;
  const { sessions } = it;
  try {
    const folder = isSessionFolder(name) ? it.statFolder(it.paths.session(name)) : undefined;
    const known = sessions.get(name);
    if (known && known.folder !== folder?.id) forget(it, name);
    if (!folder) return;
    const now = sessions.get(name);
    if (now) checkInbox(it, name, now);
    else if (isBeingCopied(it, name, folder)) checkLater(it, name);
    else addSession(it, name, folder.id);
  } catch (error) {
    if (errorCode(error) === 'ENOENT') return;
    // A folder that cannot be read is not missing: opening the session reports why, and it is polled until then.
    pollUnreadable(it, name);
  }
}

/** A copy in which nothing has changed for this long is whole. */
const COPY_QUIET_MS = 1000;
/** Only a session that has worked has one of these; a new one has its inbox, and what a person puts beside it. */
const WORKED = ['events.jsonl', 'snapshot.json', 'blobs', 'done', 'outbox', 'plans', 'tools'];

/**
 * Whether a session's folder was made a moment ago, is no new session and still grows. A copying program stops at
 * folders that are suddenly there, so that none are made in it meanwhile.
 */
function isBeingCopied(
  { paths, open, copies, awaitsCopies }: WatchState,
  name: string,
  { born }: FolderState,
): boolean {
  const folder = paths.session(name);
  const mayBe =
    copies.has(name) || (born > Date.now() - COPY_QUIET_MS && WORKED.some((one) => isTaken(join(folder, one))));
  return awaitsCopies && mayBe && ![...open()].includes(name) && lastGrowth(folder) > Date.now() - COPY_QUIET_MS;
}

/** When a folder last changed, or what was made in it last. */
function lastGrowth(path: string): number {
  const stat = fs.lstatSync(path, { throwIfNoEntry: false });
  if (!stat?.isDirectory()) return stat?.ctimeMs ?? 0;
  const born = (name: string): number => fs.lstatSync(join(path, name), { throwIfNoEntry: false })?.birthtimeMs ?? 0;
  const [newest] = fs.readdirSync(path).sort((one, other) => born(other) - born(one));
  return Math.max(stat.ctimeMs, newest === undefined ? 0 : lastGrowth(join(path, newest)));
}

function checkLater(it: WatchState, name: string): void {
  clearTimeout(it.copies.get(name));
  const look = () => {
    check(it, name);
    if (it.sessions.has(name) || !isTaken(it.paths.session(name))) it.copies.delete(name);
  };
  it.copies.set(name, setTimeout(look, COPY_QUIET_MS / 4));
}

function addSession(it: WatchState, name: string, folder: string): void {
  const known: WatchedSession = {
    folder,
    watcher: null,
    on: 'nothing',
    inbox: undefined,
    lastUsed: Number.NEGATIVE_INFINITY,
  };
  it.sessions.set(name, known);
  rewatch(it, name, known);
  it.handlers.found(name);
}

/** First the watch, then the check: what arrives in between is seen by one of them. */
function rewatch(it: WatchState, name: string, known: WatchedSession): void {
  const { inbox } = sessionPaths(it.paths.session(name));
  startWatch(it, name, known, 'inbox');
  known.inbox = it.statFolder(inbox);
  if (known.inbox || it.watches.limit !== null) return;
  startWatch(it, name, known, 'folder');
  known.inbox = it.statFolder(inbox);
  if (known.watcher && known.inbox) startWatch(it, name, known, 'inbox');
}

function checkInbox(it: WatchState, name: string, known: WatchedSession): void {
  const { handlers, watches } = it;
  const before = known.inbox;
  const { inbox } = sessionPaths(it.paths.session(name));
  const now = it.statFolder(inbox);
  known.inbox = now;
  const isOther = before?.id !== now?.id;
  if (isOther || known.on === 'nothing') {
    if (isOther || watches.mayBeTried) rewatch(it, name, known);
    if (isOther && now) (before ? handlers.session : handlers.found)(name);
    // Something in the place of the inbox that is no folder: opening the session reports it.
    else if (isOther && isTaken(inbox)) handlers.session(name);
  }
  if (before && now && !isOther && mayHaveChanged(before, now)) {
    if (before.mtime !== now.mtime) known.lastUsed = it.clock.elapsed();
    if (known.on === 'nothing') takeOverWatch(it, name, known);
    handlers.session(name);
  }
}

/** The inbox may be a file, which is reported elsewhere. */
function isTaken(path: string): boolean {
  return attempt(() => fs.lstatSync(path, { throwIfNoEntry: false }) !== undefined) ?? false;
}

function pollUnreadable({ sessions, polled, handlers, clock }: WatchState, name: string): void {
  if (!sessions.has(name)) {
    sessions.set(name, { folder: '', watcher: null, on: 'nothing', inbox: undefined, lastUsed: clock.elapsed() });
  }
  if (sessions.get(name)?.on === 'nothing') polled.add(name);
  handlers.session(name);
}

function forget({ sessions, polled, handlers }: WatchState, name: string): void {
  sessions.get(name)?.watcher?.close();
  sessions.delete(name);
  polled.delete(name);
  handlers.gone(name);
}

/** If watches are short, an active session takes over the watch of the one that has been quiet longest. */
function takeOverWatch(it: WatchState, name: string, known: WatchedSession): void {
  const { watches, sessions, clock } = it;
  if (watches.limit === null) return;
  let quiet: [string, WatchedSession] | undefined;
  for (const one of sessions) if (one[1].watcher && (!quiet || one[1].lastUsed < quiet[1].lastUsed)) quiet = one;
  if (!quiet || quiet[1].lastUsed > clock.elapsed() - QUIET_MS) return;
  const [other, its] = quiet;
  its.watcher?.close();
  pollInstead(it, other, its);
  watches.withOneFree(() => rewatch(it, name, known));
}

/** A change this recent may have the same timestamp as one after the check: timestamps have a limited resolution. */
const TIMESTAMP_UNSURE_MS = 2000n;

/** A folder as it is now. */
export type FolderState = {
  /** Identifies it, as opposed to another folder of the same name. */
  id: string;
  mtime: bigint;
  /** When it was made, in ms since 1970; 0 where the file system does not say. */
  born: number;
  /** Its timestamp cannot show whether something arrived after this check. */
  isRecent: boolean;
};

/**
 * Returns a function that reads a folder's state: undefined if there is none; links are not followed. Other errors of
 * lstat are thrown. `used`: a folder of this file system that was changed after it was created.
 */
export function createFolderStat(used: string): (path: string) => FolderState | undefined {
  const idOf = createFolderId(used);
  return (path) => {
    const stat = fs.lstatSync(path, { bigint: true, throwIfNoEntry: false });
    if (!stat?.isDirectory()) return undefined;
    const age = BigInt(Date.now()) - stat.mtimeMs;
    return {
      id: idOf(stat),
      mtime: stat.mtimeNs,
      born: Number(stat.birthtimeMs),
      isRecent: age < TIMESTAMP_UNSURE_MS && age > -TIMESTAMP_UNSURE_MS,
    };
  };
}

/** Whether something may have arrived between two checks of the same folder. */
const mayHaveChanged = (before: FolderState, now: FolderState): boolean =>
  before.isRecent || before.mtime !== now.mtime;
