import { emptySession, type Session } from '../../core/session/session-state.ts';
import { stateFromSnapshot } from '../../core/session/snapshot.ts';
import { isLogEmpty, logEndsAt, readAppended } from '../../store/event-log/segments.ts';
import { readSnapshot } from '../../store/event-log/snapshot-file.ts';
import type { SessionPaths } from '../../store/layout/layout.ts';
import type { KnownState } from './replay.ts';

/**
 * What a client read last, by folder: a server asks for the same sessions with every request. A state is used only if
 * the event log still has its position; then only what was appended since is read.
 */
export type KnownStates = Map<string, KnownState>;
const MAX_KNOWN = 16;
/** With more bytes than this, reading the snapshot is faster. */
const MAX_APPENDED = 256 * 1024;

type NamedSession = SessionPaths & { name: string; known?: KnownStates };

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
