import { reduceEvent } from '../../src/core/reducers/reduce-event.ts';
import { emptySession } from '../../src/core/session/session-state.ts';
import { snapshotFromState, stateFromSnapshot } from '../../src/core/session/snapshot.ts';
import type { Event } from '../../src/protocol/session/event.ts';
import type { LogPosition } from '../../src/protocol/session/log-entry.ts';
import type { Plan } from '../../src/protocol/session/plan.ts';
import type { MemoryStore } from '../support/memory-store.ts';
import { bare } from '../support/same-session.ts';
import type { Chance } from './chance.ts';

/** Every snapshot there ever was of a session: a disk may give back an older one than was written last. */
export type Album = Array<{ mark: LogPosition; state: unknown }>;

/** What an event log means, and the plan that had left `plan.json` last. */
function meaningAt(events: readonly Event[]) {
  let session = emptySession('demo');
  let left: Plan | null = null;
  for (const event of events) {
    const before = session.plan;
    session = reduceEvent(session, event);
    if (before && before.id !== session.plan?.id) left = before;
  }
  return { session, left };
}

/** A snapshot of the event log as it is now, as a daemon would take it that had come so far and not synced since. */
export async function photograph(store: MemoryStore, album: Album): Promise<void> {
  const mark = store.eventLog.position();
  const events = store.hands.events();
  if (mark.seq !== events.length) return;
  await store.snapshots.save(mark, snapshotFromState(meaningAt(events)));
  album.push({ mark, state: JSON.parse(JSON.stringify(snapshotFromState(meaningAt(events)))) });
}

/** What is wrong with a snapshot the daemon took, in words. */
export function untrue(store: MemoryStore, mark: LogPosition, state: unknown): string[] {
  const { session, left } = meaningAt(store.hands.events().slice(0, mark.seq));
  const read = stateFromSnapshot(JSON.parse(JSON.stringify(state)), 'demo');
  const same = read && JSON.stringify([bare(read.session), read.left]) === JSON.stringify([bare(session), left]);
  return same ? [] : [`the snapshot at ${mark.seq} is not what the event log means`];
}

/** What the disk gives back: what was written, nothing, an older one, or one that another version of this program wrote. */
export async function developed(
  store: MemoryStore,
  album: Album,
  chance: Chance,
): ReturnType<MemoryStore['snapshots']['load']> {
  const good = await store.snapshots.load();
  if (chance.oneIn(8)) return undefined;
  if (chance.oneIn(4)) return album[chance.below(Math.max(1, album.length))];
  if (good && chance.oneIn(8))
    return { mark: good.mark, state: { ...Object(good.state), reducers: 'another', left: null } };
  return good;
}
