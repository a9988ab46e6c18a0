import { mapGet } from '../../base/collections.ts';
import { UserError } from '../../base/user-error.ts';
import { parseCommand } from '../../core/messages/commands.ts';
import { reduceEvent } from '../../core/reducers/reduce-event.ts';
import type { Message } from '../../core/session/session-messages.ts';
import { emptySession, type Session } from '../../core/session/session-state.ts';
import { stateFromSnapshot } from '../../core/session/snapshot.ts';
import type { Event, EventOf } from '../../protocol/session/event.ts';
import { LOG_START, type LogPosition } from '../../protocol/session/log-entry.ts';
import { readEventLog } from '../../store/event-log/log-reader.ts';
import type { SessionPaths } from '../../store/layout/layout.ts';
import { snapshotsNewestFirst, snapshotsOldestFirst } from '../../store/session/snapshots.ts';

type NamedSession = SessionPaths & { name: string };
/** A state, and its position in the event log. */
export type KnownState = { session: Session; mark: LogPosition };

/** Like `readSession`, for an event log that has to be read: from `known` on if the log still has its position. */
export async function readSessionFromLog(paths: NamedSession, known?: KnownState): Promise<KnownState> {
  const later = known && (await readOn(paths, known));
  if (later) return later;
  const snapshot = snapshotsNewestFirst(paths).next().value;
  const meaning = snapshot && stateFromSnapshot(snapshot.state, paths.name);
  const isUsable = snapshot && meaning?.current && meaning.session.seq === snapshot.mark.seq;
  const read = isUsable ? await readOn(paths, { session: meaning.session, mark: snapshot.mark }) : undefined;
  return read ?? replayLog(paths, () => {});
}

/** A state with the events after its position; undefined if the log does not have that position. */
async function readOn(paths: NamedSession, { session: from, mark }: KnownState): Promise<KnownState | undefined> {
  let session = from;
  const extent = await readEventLog(
    paths,
    (event) => {
      session = reduceEvent(session, event);
    },
    mark,
  );
  return extent === 'unfit' ? undefined : { session, mark: extent.mark };
}

/**
 * Replays the event log as far as it is kept, passing each event with the session before and after it. If retention
 * removed its beginning, replay starts from the base snapshot.
 */
export async function replayLog(
  paths: NamedSession,
  each: (event: Event, before: Session, after: Session) => void,
): Promise<KnownState> {
  const removed = sessionBeforeOldest(paths);
  let session = emptySession(paths.name);
  const extent = await readEventLog(
    paths,
    (event) => {
      if (session.seq === 0 && event.seq > 1) session = removed(event.seq);
      if (event.seq <= session.seq) return;
      const before = session;
      session = reduceEvent(session, event);
      each(event, before, session);
    },
    'oldest',
  );
  return { session, mark: extent === 'unfit' ? LOG_START : extent.mark };
}

/** The session before the oldest event that is kept. Throws UserError if there is no snapshot for what was removed. */
export function sessionBeforeOldest(paths: NamedSession): (seq: number) => Session {
  return (seq) => {
    // A newer one would skip events that are kept.
    for (const { state } of snapshotsOldestFirst(paths)) {
      const session = stateFromSnapshot(state, paths.name)?.session;
      if (session && session.seq >= seq - 1) return session;
    }
    throw new UserError(
      `${paths.events}: the event log begins with event ${seq}, and the snapshot that replaced earlier events is missing. Restore snapshot.json from a backup.`,
    );
  };
}

/** One event, with the session before it and after it. */
export type ReplayedEvent = { event: Event; before: Session; after: Session; next: Event | undefined };

/** Replays events from the beginning. Pure; `name` is the session's. */
export function* replayEvents(name: string, events: readonly Event[]): Generator<ReplayedEvent> {
  let session = emptySession(name);
  for (const [place, event] of events.entries()) {
    const before = session;
    session = reduceEvent(before, event);
    yield { event, before, after: session, next: events[place + 1] };
  }
}

/** How the change made by each command looks in the event log. */
const ORDERS: Readonly<Record<string, (change: EventOf<'plan.edited'>['changes'][number]) => boolean>> = {
  done: (change) => change.what === 'status' && change.to === 'completed',
  skip: (change) => change.what === 'status' && change.to === 'skipped',
  add: (change) => change.what === 'added',
  move: (change) => change.what === 'order',
  reword: (change) => change.what === 'step',
};

/**
 * The command, as typed, that caused an edit of the plan; null for a save of `plan.json`. The reply to a command is
 * recorded together with what it changed.
 */
export function planOrderBehind(
  edit: EventOf<'plan.edited'>,
  { after, next }: Pick<ReplayedEvent, 'after' | 'next'>,
): string | null {
  const message = next?.type === 'reply.committed' ? mapGet(after.messages, next.message) : undefined;
  const command = message && parseCommand(message);
  if (!message || command?.name !== 'plan') return null;
  const [verb = ''] = command.rest.trim().toLowerCase().split(/\s/);
  const fits = Object.hasOwn(ORDERS, verb) ? ORDERS[verb] : undefined;
  return fits && edit.changes.some(fits) ? messageAsTyped(message) : null;
}

/** A message as its sender typed it, or would have. */
export function messageAsTyped({ text, command }: Message): string {
  return command === undefined ? text : `/${command.replace(/^\//, '')}${text ? ` ${text}` : ''}`;
}
