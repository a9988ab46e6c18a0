import { fold } from '../../src/core/fold.ts';
import { emptySession } from '../../src/core/session.ts';
import { meaningIn, stateOf } from '../../src/core/snapshot.ts';
import type { Event } from '../../src/protocol/event.ts';
import type { Mark } from '../../src/protocol/mark.ts';
import type { Plan } from '../../src/protocol/plan.ts';
import type { MemoryStore } from '../../src/store/index.ts';
import { bare } from '../support/same-session.ts';
import type { Chance } from './chance.ts';

/** Every snapshot there ever was of a session: a disk may give back an older one than was written last. */
export type Album = Array<{ mark: Mark; state: unknown }>;

/** What a record means, and the plan that had left `plan.json` last. */
function meaningAt(events: readonly Event[]) {
  let session = emptySession('demo');
  let left: Plan | null = null;
  for (const event of events) {
    const before = session.plan;
    session = fold(session, event);
    if (before && before.id !== session.plan?.id) left = before;
  }
  return { session, left };
}

/** A snapshot of the record as it is now, as a daemon would take it that had come so far and not synced since. */
export async function photograph(store: MemoryStore, album: Album): Promise<void> {
  const mark = store.journal.mark();
  const events = store.hands.events();
  if (mark.seq !== events.length) return;
  await store.snapshots.save(mark, stateOf(meaningAt(events)));
  album.push({ mark, state: JSON.parse(JSON.stringify(stateOf(meaningAt(events)))) });
}

/** What is wrong with a snapshot the daemon took, in words. */
export function untrue(store: MemoryStore, mark: Mark, state: unknown): string[] {
  const { session, left } = meaningAt(store.hands.events().slice(0, mark.seq));
  const read = meaningIn(JSON.parse(JSON.stringify(state)), 'demo');
  const same = read && JSON.stringify([bare(read.session), read.left]) === JSON.stringify([bare(session), left]);
  return same ? [] : [`the snapshot at ${mark.seq} is not what the record means`];
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
    return { mark: good.mark, state: { ...Object(good.state), fold: 'another', left: null } };
  return good;
}
