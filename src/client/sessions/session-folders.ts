import * as fs from 'node:fs';
import { join } from 'node:path';
import { errorText, UserError } from '../../base/user-error.ts';
import { emptySession, type Session } from '../../core/session/session-state.ts';
import { stateFromSnapshot } from '../../core/session/snapshot.ts';
import { isSessionFolder, readableName, sessionFolder } from '../../protocol/workspace/session-names.ts';
import { isLogEmpty, logEndsAt, readAppended } from '../../store/event-log/segments.ts';
import { readSnapshot } from '../../store/event-log/snapshot-file.ts';
import { listNames, statIfExists } from '../../store/fs/file-reads.ts';
import { notAFolder, toDiskError, wrapDiskErrors } from '../../store/fs/store-errors.ts';
import { existingRootOf, type SessionPaths, sessionPaths, type WorkspacePaths } from '../../store/layout/layout.ts';
import { NoSuchSession } from './client-errors.ts';
import type { KnownState } from './replay.ts';

/** The session folders of a workspace. */
export type SessionFolders = {
  /**
   * Names of all session folders, sorted, children after their parent; empty if there is no workspace yet. Creates
   * nothing.
   */
  names(): string[];
  /** Names of links in the place of session folders, which are not followed. */
  links(): string[];
  /** Whether there is a session folder of this name. */
  has(name: string): boolean;
  /** Sessions without a parent, most recently changed event log first; `most` at most. */
  newest(most: number): string[];
  /** This session and its child sessions, at any depth: parents before their children. */
  withChildren(name: string): string[];
  /** The folder of a key; if there is none, the one it would get. */
  folderName(key: string): string;
  /** Paths of an existing session. Throws `NoSuchSession`. */
  get(key: string): KnownSession;
  /** Paths of its topmost parent, whose `work/` and settings its child sessions use. Throws `NoSuchSession`. */
  rootOf(key: string): SessionPaths;
};

/**
 * Sessions by name. A folder of exactly that name takes precedence, as people see it with `ls`. Any other key maps to
 * the folder `sessionFolder` gives it, except that capitals and spaces stay if nothing else needs to be escaped. A
 * child session also has the name that people read.
 */
export function openSessionFolders(paths: WorkspacePaths): SessionFolders {
  const known: KnownStates = new Map();
  const read = <T>(job: () => T): T => wrapDiskErrors('read', paths.sessions, job);
  const statOf = (name: string) => (isSessionFolder(name) ? read(() => statIfExists(paths.session(name))) : undefined);
  const isThere = (name: string) => statOf(name)?.isDirectory() === true;
  const isLink = (name: string) => statOf(name)?.isSymbolicLink() === true;
  const isArchived = (name: string) =>
    isSessionFolder(name) && statIfExists(join(paths.archive, name))?.isDirectory() === true;
  const list = () => read(() => listNames(paths.sessions));
  const names = () => list().filter(isThere).sort(compareAsTree);
  const nameOf = (key: string) => {
    const escaped = sessionFolder(key);
    if (isThere(key) || !(isThere(escaped) || !isPlainKey(key))) return key;
    const child =
      key.includes('~') && !isThere(escaped) ? names().find((name) => readableName(name) === key) : undefined;
    return child ?? escaped;
  };
  const get = (key: string) => {
    const name = nameOf(key);
    if (!isThere(name) && isLink(name)) throw new UserError(notAFolder(paths.session(name)));
    if (!isThere(name)) throw new NoSuchSession(key, names(), isArchived(name));
    return { ...sessionPaths(paths.session(name)), name, known };
  };
  return {
    names,
    links: () => list().filter(isLink).sort(),
    has: isThere,
    newest(most) {
      const changed = (name: string) =>
        fs.statSync(sessionPaths(paths.session(name)).events, { throwIfNoEntry: false })?.mtimeMs ?? 0;
      const roots = names().filter((name) => !name.includes('~'));
      const times = new Map(roots.map((name) => [name, changed(name)]));
      return roots.sort((one, other) => (times.get(other) ?? 0) - (times.get(one) ?? 0)).slice(0, most);
    },
    withChildren: (name) => names().filter((other) => other === name || other.startsWith(`${name}~`)),
    folderName: nameOf,
    get,
    rootOf: (key) => sessionPaths(paths.session(existingRootOf(get(key).name, isThere))),
  };
}

/** Children follow their parent, whatever else would sort between the two. */
function compareAsTree(one: string, other: string): number {
  const [a, b] = [one.split('~'), other.split('~')];
  const at = a.findIndex((part, n) => part !== b[n]);
  if (at < 0) return a.length - b.length;
  const [left = '', right] = [a[at], b[at]];
  return right === undefined ? 1 : left < right ? -1 : 1;
}

/** Only capitals and single inner spaces keep it from being a folder name as it is. */
function isPlainKey(key: string): boolean {
  const simple = key.toLowerCase().replace(/(?<=\S) (?=\S)/g, '_');
  return sessionFolder(simple) === simple && isSessionFolder(key);
}

/**
 * What a client read last, by folder: a server asks for the same sessions with every request. A state is used only if
 * the event log still has its position; then only what was appended since is read.
 */
type KnownStates = Map<string, KnownState>;
const MAX_KNOWN = 16;
/** With more bytes than this, reading the snapshot is faster. */
const MAX_APPENDED = 256 * 1024;

/** The paths of a session and its name. */
export type NamedSession = SessionPaths & { name: string; known?: KnownStates };
export type KnownSession = NamedSession & { known: KnownStates };

/**
 * A session's state, from its snapshot and the events after it; without a snapshot the whole event log is read: a
 * second for some ten thousand events. Throws CorruptLogError for damage in what it reads. For an idle session the
 * snapshot is complete: then the modules that read and reduce events are not even loaded, as a short command spends
 * most of its time on loading.
 */
export async function readSession(paths: NamedSession): Promise<Session> {
  const earlier = paths.known?.get(paths.folder);
  const appended = earlier && readAppended(paths, earlier.mark, MAX_APPENDED);
  if (earlier && appended?.length === 0) return earlier.session;
  const snapshot = appended ? undefined : readSnapshot(paths.snapshot);
  const meaning = snapshot && stateFromSnapshot(snapshot.state, paths.name);
  if (snapshot && meaning?.current && meaning.session.seq === snapshot.mark.seq && logEndsAt(paths, snapshot.mark))
    return keep(paths, { session: meaning.session, mark: snapshot.mark });
  if (isLogEmpty(paths)) return emptySession(paths.name);
  const { readSessionFromLog } = await import('./replay.ts');
  return keep(paths, await readSessionFromLog(paths, appended && earlier));
}

/**
 * The state that a client has already read, if nothing appended since contains this text: for callers that look for
 * something named by it. Undefined if the session has to be read.
 */
export function readUnlessMentioned(paths: NamedSession, text: string): Session | undefined {
  const earlier = paths.known?.get(paths.folder);
  const appended = earlier && readAppended(paths, earlier.mark, MAX_APPENDED);
  return appended && !appended.includes(text) ? earlier.session : undefined;
}

function keep({ folder, known }: NamedSession, state: KnownState): Session {
  if (!known) return state.session;
  known.delete(folder);
  known.set(folder, state);
  for (const oldest of known.keys()) {
    if (known.size <= MAX_KNOWN) break;
    known.delete(oldest);
  }
  return state.session;
}

/** Why a folder cannot be read, or that something else is in its place; null if all is well, or nothing is there. */
export function folderProblem(folder: string): string | null {
  try {
    const there = fs.lstatSync(folder, { throwIfNoEntry: false });
    if (there && !there.isDirectory()) return notAFolder(folder);
    if (there) fs.accessSync(folder, fs.constants.R_OK | fs.constants.X_OK);
    return null;
  } catch (error) {
    return errorText(toDiskError(error, 'read', folder));
  }
}
