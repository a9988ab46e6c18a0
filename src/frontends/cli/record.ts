import { basename } from 'node:path';
import type { Client } from '../../client/index.ts';
import type { Event } from '../../protocol/event.ts';

/** All of a session's record, and the name of its folder. Throws `NoSuchSession`. */
export async function recordOf(client: Client, session: string): Promise<{ name: string; events: Event[] }> {
  const name = basename(client.folder(session));
  const events: Event[] = [];
  for await (const { event } of client.events(session)) events.push(event);
  return { name, events };
}
