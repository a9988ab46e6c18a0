import { emptySession, type Session } from '../core/session.ts';
import { meaningIn } from '../core/snapshot.ts';
import type { SessionPaths } from '../store/layout.ts';
import { endsAt, isUnwritten } from '../store/record-end.ts';
import { readSnapshot } from '../store/snapshot-file.ts';

type Named = SessionPaths & { name: string };

/**
 * What a session's record means, from its snapshot and what came after it; where there is none, all of the record is read: a second
 * for some ten thousand events. Throws RecordCorrupt for what it reads. Of a session at rest the snapshot is all there is to know:
 * then what reads events and folds them is not even loaded, as a short command spends most of its time on loading.
 */
export async function foldRecord(paths: Named): Promise<Session> {
  const snapshot = readSnapshot(paths.snapshot);
  const meaning = snapshot && meaningIn(snapshot.state, paths.name);
  if (snapshot && meaning?.current && meaning.session.seq === snapshot.mark.seq && endsAt(paths, snapshot.mark)) {
    return meaning.session;
  }
  if (isUnwritten(paths)) return emptySession(paths.name);
  return (await import('./whole-meaning.ts')).foldRest(paths);
}
