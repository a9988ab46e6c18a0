import { emptySession, type Session } from '../../core/session/session-state.ts';
import { stateFromSnapshot } from '../../core/session/snapshot.ts';
import { isLogEmpty, logEndsAt } from '../../store/event-log/segments.ts';
import { readSnapshot } from '../../store/event-log/snapshot-file.ts';
import type { SessionPaths } from '../../store/layout/layout.ts';

type NamedSession = SessionPaths & { name: string };

/**
 * A session's state, from its snapshot and the events after it; without a snapshot the whole event log is read: a
 * second for some ten thousand events. Throws CorruptLogError for damage in what it reads. For an idle session the
 * snapshot is complete: then the modules that read and reduce events are not even loaded, as a short command spends
 * most of its time on loading.
 */
export async function readSession(paths: NamedSession): Promise<Session> {
  const snapshot = readSnapshot(paths.snapshot);
  const meaning = snapshot && stateFromSnapshot(snapshot.state, paths.name);
  if (snapshot && meaning?.current && meaning.session.seq === snapshot.mark.seq && logEndsAt(paths, snapshot.mark)) {
    return meaning.session;
  }
  if (isLogEmpty(paths)) return emptySession(paths.name);
  return (await import('./replay.ts')).readSessionFromLog(paths);
}
