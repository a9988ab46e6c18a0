import { basename } from 'node:path';
import type { Client } from '../../client/index.ts';
import type { Event } from '../../protocol/event.ts';
import { note } from './print.ts';

/** What retention has removed of a record, for whoever asks about the past. */
export const goneInWords = (gone: number): string =>
  `Events 1 to ${gone} are gone: they were older than retention.record_days. What follows begins after them.`;

/** All that is kept of a session's record, and the name of its folder. Throws `NoSuchSession`. */
export async function recordOf(client: Client, session: string): Promise<{ name: string; events: Event[] }> {
  const name = basename(client.folder(session));
  const events: Event[] = [];
  const gone = await client.gone(session);
  if (gone > 0) note(goneInWords(gone));
  for await (const { event } of client.events(session)) events.push(event);
  return { name, events };
}
