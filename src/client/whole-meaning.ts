import { fold } from '../core/fold.ts';
import { emptySession, type Session } from '../core/session.ts';
import { meaningIn } from '../core/snapshot.ts';
import { UserError } from '../protocol/errors.ts';
import type { Event } from '../protocol/event.ts';
import { newestFirst, oldestFirst } from '../store/kept-snapshots.ts';
import type { SessionPaths } from '../store/layout.ts';
import { readRecord } from '../store/record.ts';

type Named = SessionPaths & { name: string };

/** The same as `foldRecord`, for a record of which something has to be read. */
export async function foldRest(paths: Named): Promise<Session> {
  const snapshot = newestFirst(paths).next().value;
  const meaning = snapshot && meaningIn(snapshot.state, paths.name);
  if (!snapshot || !meaning?.current || meaning.session.seq !== snapshot.mark.seq) {
    return foldWhole(paths, () => {});
  }
  let { session } = meaning;
  await readRecord(
    paths,
    (event) => {
      session = fold(session, event);
    },
    snapshot.mark,
  );
  return session;
}

/**
 * Folds all of the record that is kept, telling each event with the session before and after it. Where retention removed its
 * beginning, the snapshot that stands for that comes first.
 */
export async function foldWhole(
  paths: Named,
  each: (event: Event, before: Session, after: Session) => void,
): Promise<Session> {
  const removed = sessionBeforeIt(paths);
  let session = emptySession(paths.name);
  await readRecord(
    paths,
    (event) => {
      if (session.seq === 0 && event.seq > 1) session = removed(event.seq);
      if (event.seq <= session.seq) return;
      const before = session;
      session = fold(session, event);
      each(event, before, session);
    },
    'oldest',
  );
  return session;
}

/** The session as it was before the oldest event that is kept. Throws UserError where nothing stands for what was removed. */
export function sessionBeforeIt(paths: Named): (seq: number) => Session {
  return (seq) => {
    // A newer one would pass over events that are kept.
    for (const { state } of oldestFirst(paths)) {
      const session = meaningIn(state, paths.name)?.session;
      if (session && session.seq >= seq - 1) return session;
    }
    throw new UserError(
      `${paths.events}: the record begins with event ${seq}, and the snapshot that stood for what came before is not there any more. Put snapshot.json back from a backup.`,
    );
  };
}
