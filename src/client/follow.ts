import * as fs from 'node:fs';
import { fold } from '../core/fold.ts';
import { emptySession, type Session } from '../core/session.ts';
import type { Event } from '../protocol/event.ts';
import type { SessionPaths } from '../store/layout.ts';
import { changesIn } from './changes.ts';
import { type Line, liveTail, recordTail } from './tail.ts';
import { sessionBeforeIt } from './whole-meaning.ts';

export type Following = {
  /** First seq that is told; 1 by default. */
  from?: number | undefined;
  /** Goes on with what comes, until the signal is aborted or the session's folder is gone. */
  follow?: boolean | undefined;
  signal?: AbortSignal | undefined;
};

/** The events of a session with their lines, as they are in the record: nothing unfinished, nothing twice, nothing left out. */
export async function* events(paths: SessionPaths, { from = 1, follow, signal }: Following): AsyncGenerator<Line> {
  const tail = recordTail(paths, from);
  const changes = follow ? changesIn([paths.folder]) : null;
  try {
    for (;;) {
      for await (const line of tail.fresh()) if (line.event.seq >= from) yield line;
      if (!changes || signal?.aborted || !fs.existsSync(paths.folder)) return;
      await changes.next(signal);
    }
  } finally {
    changes?.close();
  }
}

/** What somebody who looks at a session sees: how it stands, then each event and the model's words as they come. */
export type Sight =
  | { is: 'state'; session: Session }
  | { is: 'event'; event: Event; session: Session }
  | { is: 'text'; text: string };

/** Looks at a session from now on, until the signal is aborted or its folder is gone. Begins with one `state`. */
export async function* watch(paths: SessionPaths & { name: string }, signal?: AbortSignal): AsyncGenerator<Sight> {
  const record = recordTail(paths);
  const live = liveTail(paths.live);
  const changes = changesIn([paths.folder, paths.inbox]);
  let session = emptySession(paths.name);
  let answered = '';
  try {
    const removed = sessionBeforeIt(paths);
    for await (const { event } of record.fresh()) {
      if (session.seq === 0 && event.seq > 1) session = removed(event.seq);
      if (event.seq > session.seq) session = fold(session, event);
      if (event.type === 'model.answered' || event.type === 'model.failed') answered = event.at;
    }
    if (!session.run || isBefore(paths.live, answered)) live.skip();
    yield { is: 'state', session };
    while (!signal?.aborted && fs.existsSync(paths.folder)) {
      const words = live.fresh();
      // Words of the next call come after the events that led to it; words of this one before the event that ends it.
      if (words.text !== '' && !words.began) yield { is: 'text', text: words.text };
      let told = false;
      for await (const { event, again } of record.fresh()) {
        if (again) return yield* watch(paths, signal);
        session = fold(session, event);
        // A short answer is on record before its words were looked at: the event has said them.
        told ||= event.type === 'model.answered' && event.text.startsWith(words.text);
        yield { is: 'event', event, session };
      }
      if (words.text !== '' && words.began && !told) yield { is: 'text', text: words.text };
      await changes.next(signal);
    }
  } finally {
    changes.close();
  }
}

/** What is in `live` was said before that time: the call is over. */
function isBefore(path: string, at: string): boolean {
  const mtime = fs.statSync(path, { throwIfNoEntry: false })?.mtime;
  return mtime === undefined || (at !== '' && mtime.toISOString() <= at);
}
