import { offeredFiles } from '../core/offered.ts';
import type { Session } from '../core/session.ts';
import type { EventBody } from '../protocol/event.ts';
import type { SessionStore } from './ports.ts';

/** Files one reply brings along, at most. */
const MOST_FILES = 20;

/** A run that comes to rest is put on record with the files its reply offers, as they are there now: the reply is made from that alone. */
export async function withFiles(store: SessionStore, session: Session, events: EventBody[]): Promise<EventBody[]> {
  const rested = events.find((event) => event.type === 'run.rested');
  if (!rested || !session.run) return events;
  const files = await store.files(offeredFiles(session, rested.text), MOST_FILES);
  return files.length === 0 ? events : events.map((event) => (event === rested ? { ...rested, files } : event));
}
