import { fold } from '../core/fold.ts';
import { emptySession, type Session } from '../core/session.ts';
import type { EventBody } from '../protocol/event.ts';
import type { Plan } from '../protocol/plan.ts';
import type { Journal } from './ports.ts';

/** Versions of the plan kept in memory, to know what a hand edit began from. */
const VERSIONS = 64;

/**
 * What is known of one session: its record, and the meaning of that record. First on disk, then believed; and nothing leaves
 * for the outside world before `sync`.
 */
export type Ledger = {
  readonly session: Session;
  /** The seq of the last event. */
  record(bodies: EventBody[]): Promise<number>;
  sync(): Promise<void>;
  /** The plan of that id as it was at that revision, read from the record if need be. */
  planAt(id: string, revision: number): Promise<Plan | undefined>;
  /** Plans that left `plan.json` since this was asked last. */
  left(): Plan[];
};

export async function openLedger(name: string, journal: Journal): Promise<Ledger> {
  let session = emptySession(name);
  let left: Plan[] = [];
  const versions: Plan[] = [];
  const believe = (event: Parameters<typeof fold>[1]) => {
    const before = session.plan;
    session = fold(session, event);
    const { plan } = session;
    if (before && before.id !== plan?.id) left.push(before);
    if (plan && plan !== before) versions.push(plan);
    if (versions.length > 2 * VERSIONS) versions.splice(0, VERSIONS);
  };
  await journal.read(believe);
  // Earlier plans were put away by the daemon that let them go; the last one may not have been.
  left = left.slice(-1);
  return {
    get session() {
      return session;
    },
    async record(bodies) {
      if (bodies.length === 0) return session.seq;
      const opening: EventBody[] = session.seq === 0 ? [{ type: 'session.opened', format: 1, key: name }] : [];
      for (const event of await journal.append([...opening, ...bodies])) believe(event);
      return session.seq;
    },
    sync: () => journal.sync(),
    async planAt(id, revision) {
      const held = versions.findLast((plan) => plan.id === id && plan.revision === revision);
      return held ?? replayed(name, journal, id, revision);
    },
    left() {
      const gone = left;
      left = [];
      return gone;
    },
  };
}

async function replayed(name: string, journal: Journal, id: string, revision: number): Promise<Plan | undefined> {
  let session = emptySession(name);
  let found: Plan | undefined;
  await journal.read((event) => {
    session = fold(session, event);
    if (session.plan?.id === id && session.plan.revision === revision) found = session.plan;
  }, 'oldest');
  return found;
}
