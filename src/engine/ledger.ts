import { fold } from '../core/fold.ts';
import { emptySession, type Session } from '../core/session.ts';
import { meaningIn, stateOf } from '../core/snapshot.ts';
import { UserError } from '../protocol/errors.ts';
import type { Event, EventBody } from '../protocol/event.ts';
import { BEGINNING, type Mark } from '../protocol/mark.ts';
import type { Plan } from '../protocol/plan.ts';
import type { Journal, Snapshots, Step, World } from './ports.ts';

/** Versions of the plan kept in memory, to know what a hand edit began from. */
const VERSIONS = 64;
/**
 * A snapshot is due after so many events (rule R35), or so many bytes: what is read at the next opening is at most these and
 * the snapshot itself, which a default window keeps below 700 KB, so a megabyte in all.
 */
const DUE_EVENTS = 500;
const DUE_BYTES = 256 * 1024;
/** Events between two looks at the bytes. */
const LOOK = 16;

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
  /** How far the record has gone on since the last snapshot: not at all, a little, or so far that one is due. */
  readonly unkept: 'nothing' | 'some' | 'due';
  /** Runs what does not give way, in the name of this session. */
  step: Step;
  /** Keeps a snapshot of the session as it is. The record is synced up to there first, so a snapshot never runs ahead of it. */
  keep(): Promise<void>;
};

/** What was folded: the session, and the plan that left `plan.json` last. */
type Held = { session: Session; left: Plan | null; mark: Mark };

/** Chance comes in here: no beginning of a slice of work goes on record without a seal of its own. */
function sealed(body: EventBody, seal: World['seal']): EventBody {
  return body.type === 'run.started' || body.type === 'run.resumed' ? { ...body, seal: seal() } : body;
}

export async function openLedger(
  name: string,
  journal: Journal,
  snapshots: Snapshots,
  seal: World['seal'],
  step: Step = (_, run) => run(),
): Promise<Ledger> {
  let session = emptySession(name);
  let lastLeft: Plan | null = null;
  let left: Plan[] = [];
  let versions: Plan[] = [];
  let old: Plan[] = [];
  let kept = BEGINNING;
  let looked = { seq: 0, bytes: 0 };
  const begin = (held: Held) => {
    ({ session, left: lastLeft, mark: kept } = held);
    versions = session.plan ? [session.plan] : [];
  };
  const believe = (event: Event) => {
    const before = session.plan;
    session = step(`taking in ${event.type}, event ${event.seq}`, () => fold(session, event));
    const { plan } = session;
    if (before && before.id !== plan?.id) {
      lastLeft = before;
      left.push(before);
    }
    if (plan && plan !== before) versions.push(plan);
    if (versions.length > 2 * VERSIONS) versions.splice(0, VERSIONS);
  };
  await readInto(name, journal, snapshots, begin, believe);
  // Earlier plans were put away by the daemon that let them go; the last one may not have been.
  left = lastLeft ? [lastLeft] : [];
  return {
    get session() {
      return session;
    },
    async record(bodies) {
      if (bodies.length === 0) return session.seq;
      const opening: EventBody[] = session.seq === 0 ? [{ type: 'session.opened', format: 1, key: name }] : [];
      for (const event of await journal.append([...opening, ...bodies.map((body) => sealed(body, seal))]))
        believe(event);
      return session.seq;
    },
    sync: () => journal.sync(),
    async planAt(id, revision) {
      if (revision < 1 || (session.plan?.id === id && revision > session.plan.revision)) return undefined;
      const is = (plan: Plan) => plan.id === id && plan.revision === revision;
      const held = versions.findLast(is) ?? old.find(is);
      if (held) return held;
      const found = await replayed(name, journal, id, revision, step);
      // An editor that never reads its file again saves from the same version each time.
      if (found) old = [found];
      return found;
    },
    step,
    left() {
      const gone = left;
      left = [];
      return gone;
    },
    get unkept() {
      if (session.seq === kept.seq) return 'nothing';
      if (session.seq - looked.seq >= LOOK) looked = { seq: session.seq, bytes: bytesSince(kept, journal.mark()) };
      return session.seq - kept.seq >= DUE_EVENTS || looked.bytes >= DUE_BYTES ? 'due' : 'some';
    },
    async keep() {
      await journal.sync();
      const mark = journal.mark();
      if (mark.seq !== session.seq) return;
      // Whether or not it can be written: one that fails is tried again when the next one is due.
      kept = mark;
      looked = { seq: mark.seq, bytes: 0 };
      const state = step('making a snapshot', () => stateOf({ session, left: lastLeft }));
      await snapshots.save(mark, state);
    },
  };
}

/** At least so many: what is between them in other segments is more than enough in any case. */
function bytesSince(from: Mark, to: Mark): number {
  return to.segment === from.segment ? to.offset - from.offset : to.offset;
}

/**
 * Begins with a snapshot of this program's own fold and reads on from its mark; else folds the whole record. A snapshot of another
 * version serves only where retention has removed the beginning of the record.
 */
async function readInto(
  name: string,
  journal: Journal,
  snapshots: Snapshots,
  begin: (held: Held) => void,
  believe: (event: Event) => void,
): Promise<void> {
  const snapshot = await snapshots.load();
  const meaning = snapshot && meaningIn(snapshot.state, name);
  let held =
    snapshot && meaning && meaning.session.seq === snapshot.mark.seq ? { ...meaning, mark: snapshot.mark } : undefined;
  if (held?.current) {
    begin(held);
    if ((await journal.read(believe, held.mark)) === 'read') return;
    begin({ session: emptySession(name), left: null, mark: BEGINNING });
    held = undefined;
  }
  let from: number | undefined;
  await journal.read((event) => {
    if (from === undefined) {
      from = 0;
      if (event.seq > 1) {
        const old = beforeIt(event.seq, held);
        begin(old);
        from = old.mark.seq;
      }
    }
    if (event.seq > from) believe(event);
  }, 'oldest');
}

/** What the removed part of a record meant. */
function beforeIt(seq: number, held: Held | undefined): Held {
  if (held && held.mark.seq >= seq - 1) return held;
  throw new UserError(
    `The record begins with event ${seq}: what came before was removed, and the snapshot that stood for it is not there any more. Put snapshot.json back from a backup, or move the session folder away; the daemon leaves this session alone until then.`,
  );
}

async function replayed(
  name: string,
  journal: Journal,
  id: string,
  revision: number,
  step: Step,
): Promise<Plan | undefined> {
  let session = emptySession(name);
  let found: Plan | undefined;
  await journal.read((event) => {
    session = step('reading the record again', () => fold(session, event));
    if (session.plan?.id === id && session.plan.revision === revision) found = session.plan;
  }, 'oldest');
  return found;
}
