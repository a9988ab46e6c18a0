import { commandOf } from '../core/commands.ts';
import { fold } from '../core/fold.ts';
import { entryOf } from '../core/keyed.ts';
import { emptySession, type Message, type Session } from '../core/session.ts';
import type { Event, EventOf } from '../protocol/event.ts';

/** One event between what the record meant before it and after it. */
export type Beat = { event: Event; before: Session; after: Session; next: Event | undefined };

/** Goes through a record from its beginning. Pure; `name` is the session's. */
export function* replay(name: string, events: readonly Event[]): Generator<Beat> {
  let session = emptySession(name);
  for (const [place, event] of events.entries()) {
    const before = session;
    session = fold(before, event);
    yield { event, before, after: session, next: events[place + 1] };
  }
}

/** What a change of each order looks like in the record. */
const ORDERS: Readonly<Record<string, (change: EventOf<'plan.edited'>['changes'][number]) => boolean>> = {
  done: (change) => change.what === 'status' && change.to === 'completed',
  skip: (change) => change.what === 'status' && change.to === 'skipped',
  add: (change) => change.what === 'added',
  move: (change) => change.what === 'order',
  reword: (change) => change.what === 'step',
};

/**
 * The order, as typed, that an edit of the plan came from; null where it was a save of `plan.json`. The reply to an order is
 * recorded in one piece with what it changed.
 */
export function orderBehind(
  edit: EventOf<'plan.edited'>,
  { after, next }: Pick<Beat, 'after' | 'next'>,
): string | null {
  const message = next?.type === 'reply.committed' ? entryOf(after.messages, next.message) : undefined;
  const command = message && commandOf(message);
  if (!message || command?.name !== 'plan') return null;
  const [verb = ''] = command.rest.trim().toLowerCase().split(/\s/);
  const fits = Object.hasOwn(ORDERS, verb) ? ORDERS[verb] : undefined;
  return fits && edit.changes.some(fits) ? typed(message) : null;
}

/** A message as its sender typed it, or would have. */
export function typed({ text, command }: Message): string {
  return command === undefined ? text : `/${command.replace(/^\//, '')}${text ? ` ${text}` : ''}`;
}
