import { truncateMiddle } from '../../base/strings.ts';
import { UserError } from '../../base/user-error.ts';
import { findReplyAttachments } from '../../core/messages/reply-attachments.ts';
import { reduceEvent } from '../../core/reducers/reduce-event.ts';
import { emptySession, type Session } from '../../core/session/session-state.ts';
import { snapshotFromState, stateFromSnapshot } from '../../core/session/snapshot.ts';
import type { Event, EventBody } from '../../protocol/session/event.ts';
import { LOG_START, type LogPosition, type StoredText } from '../../protocol/session/log-entry.ts';
import type { Plan } from '../../protocol/session/plan.ts';
import type { RunGuarded, SessionPorts } from '../ports/session-ports.ts';
import type { Blobs, EventLog, SessionStore, Snapshots } from '../ports/store-ports.ts';

/** Versions of the plan kept in memory, to know what a hand edit began from. */
const MAX_PLAN_VERSIONS = 64;
/**
 * A snapshot is due after so many events (rule R35), or so many bytes: what is read at the next opening is at most
 * these and the snapshot itself, which a default window keeps below 700 KB, so a megabyte in all.
 */
const SNAPSHOT_EVENTS = 500;
const SNAPSHOT_BYTES = 256 * 1024;
/** Events between two looks at the bytes. */
const SIZE_CHECK_EVENTS = 16;

/**
 * What is known of one session: its record, and the meaning of that record. First on disk, then believed; and nothing
 * leaves for the outside world before `sync`.
 */
export type SessionLog = {
  readonly session: Session;
  /** The seq of the last event. */
  record(bodies: EventBody[]): Promise<number>;
  sync(): Promise<void>;
  /** The plan of that id as it was at that revision, read from the record if need be. */
  planAt(id: string, revision: number): Promise<Plan | undefined>;
  /** Plans that left `plan.json` since this was asked last. */
  takeRemovedPlans(): Plan[];
  /** How far the record has gone on since the last snapshot: not at all, a little, or so far that one is due. */
  readonly sinceSnapshot: 'nothing' | 'some' | 'due';
  /** Runs what does not give way, in the name of this session. */
  runGuarded: RunGuarded;
  /**
   * Keeps a snapshot of the session as it is. The record is synced up to there first, so a snapshot never runs ahead of
   * it.
   */
  saveSnapshot(): Promise<void>;
};

/** What was folded: the session, and the plan that left `plan.json` last. */
type ReducedState = { session: Session; left: Plan | null; mark: LogPosition };

/** Chance comes in here: no beginning of a slice of work goes on record without a seal of its own. */
function addNonce(body: EventBody, seal: SessionPorts['createNonce']): EventBody {
  return body.type === 'run.started' || body.type === 'run.resumed' ? { ...body, seal: seal() } : body;
}

export async function openSessionLog(
  name: string,
  journal: EventLog,
  snapshots: Snapshots,
  seal: SessionPorts['createNonce'],
  step: RunGuarded = (_, run) => run(),
): Promise<SessionLog> {
  let session = emptySession(name);
  let lastLeft: Plan | null = null;
  let left: Plan[] = [];
  let versions: Plan[] = [];
  let replayedPlans: Plan[] = [];
  let snapshotAt = LOG_START;
  let sizeCheck = { seq: 0, bytes: 0 };
  const startFrom = (held: ReducedState) => {
    ({ session, left: lastLeft, mark: snapshotAt } = held);
    versions = session.plan ? [session.plan] : [];
  };
  const reduceNext = (event: Event) => {
    const before = session.plan;
    session = step(`taking in ${event.type}, event ${event.seq}`, () => reduceEvent(session, event));
    const { plan } = session;
    if (before && before.id !== plan?.id) {
      lastLeft = before;
      left.push(before);
    }
    if (plan && plan !== before) versions.push(plan);
    if (versions.length > 2 * MAX_PLAN_VERSIONS) versions.splice(0, MAX_PLAN_VERSIONS);
  };
  await restoreState(name, journal, snapshots, startFrom, reduceNext);
  // Earlier plans were put away by the daemon that let them go; the last one may not have been.
  left = lastLeft ? [lastLeft] : [];
  return {
    get session() {
      return session;
    },
    async record(bodies) {
      if (bodies.length === 0) return session.seq;
      const opening: EventBody[] = session.seq === 0 ? [{ type: 'session.opened', format: 1, key: name }] : [];
      for (const event of await journal.append([...opening, ...bodies.map((body) => addNonce(body, seal))]))
        reduceNext(event);
      return session.seq;
    },
    sync: () => journal.sync(),
    async planAt(id, revision) {
      if (revision < 1 || (session.plan?.id === id && revision > session.plan.revision)) return undefined;
      const is = (plan: Plan) => plan.id === id && plan.revision === revision;
      const held = versions.findLast(is) ?? replayedPlans.find(is);
      if (held) return held;
      const found = await replayPlanAt(name, journal, id, revision, step);
      // An editor that never reads its file again saves from the same version each time.
      if (found) replayedPlans = [found];
      return found;
    },
    runGuarded: step,
    takeRemovedPlans() {
      const gone = left;
      left = [];
      return gone;
    },
    get sinceSnapshot() {
      if (session.seq === snapshotAt.seq) return 'nothing';
      if (session.seq - sizeCheck.seq >= SIZE_CHECK_EVENTS)
        sizeCheck = { seq: session.seq, bytes: bytesBetween(snapshotAt, journal.position()) };
      return session.seq - snapshotAt.seq >= SNAPSHOT_EVENTS || sizeCheck.bytes >= SNAPSHOT_BYTES ? 'due' : 'some';
    },
    async saveSnapshot() {
      await journal.sync();
      const mark = journal.position();
      if (mark.seq !== session.seq) return;
      // Whether or not it can be written: one that fails is tried again when the next one is due.
      snapshotAt = mark;
      sizeCheck = { seq: mark.seq, bytes: 0 };
      const state = step('making a snapshot', () => snapshotFromState({ session, left: lastLeft }));
      await snapshots.save(mark, state);
    },
  };
}

/** At least so many: what is between them in other segments is more than enough in any case. */
function bytesBetween(from: LogPosition, to: LogPosition): number {
  return to.segment === from.segment ? to.offset - from.offset : to.offset;
}

/**
 * Begins with a snapshot of this program's own fold and reads on from its mark; else folds the whole record. A snapshot
 * of another version serves only where retention has removed the beginning of the record.
 */
async function restoreState(
  name: string,
  journal: EventLog,
  snapshots: Snapshots,
  startFrom: (held: ReducedState) => void,
  reduceNext: (event: Event) => void,
): Promise<void> {
  const snapshot = await snapshots.load();
  const meaning = snapshot && stateFromSnapshot(snapshot.state, name);
  let held =
    snapshot && meaning && meaning.session.seq === snapshot.mark.seq ? { ...meaning, mark: snapshot.mark } : undefined;
  if (held?.current) {
    startFrom(held);
    if ((await journal.read(reduceNext, held.mark)) === 'read') return;
    startFrom({ session: emptySession(name), left: null, mark: LOG_START });
    held = undefined;
  }
  let from: number | undefined;
  await journal.read((event) => {
    if (from === undefined) {
      from = 0;
      if (event.seq > 1) {
        const replayedPlans = stateBefore(event.seq, held);
        startFrom(replayedPlans);
        from = replayedPlans.mark.seq;
      }
    }
    if (event.seq > from) reduceNext(event);
  }, 'oldest');
}

/** What the removed part of a record meant. */
function stateBefore(seq: number, held: ReducedState | undefined): ReducedState {
  if (held && held.mark.seq >= seq - 1) return held;
  throw new UserError(
    `The event log begins with event ${seq}: earlier events were removed, and the snapshot that replaced them is missing. Restore snapshot.json from a backup, or move the session folder away; the daemon does not serve this session until then.`,
  );
}

async function replayPlanAt(
  name: string,
  journal: EventLog,
  id: string,
  revision: number,
  step: RunGuarded,
): Promise<Plan | undefined> {
  let session = emptySession(name);
  let found: Plan | undefined;
  await journal.read((event) => {
    session = step('reading the record again', () => reduceEvent(session, event));
    if (session.plan?.id === id && session.plan.revision === revision) found = session.plan;
  }, 'oldest');
  return found;
}

/** A text for the record: inline up to `max` code points, else as a blob with its head and tail. */
export async function spillToBlob(text: string, max: number, blobs: Blobs): Promise<StoredText> {
  // No text has more code points than UTF-16 units, so most need no counting.
  if (text.length <= max) return { text };
  const chars = [...text].length;
  if (chars <= max) return { text };
  const blob = await blobs.put(text);
  return { blob, head: truncateMiddle(text, max, `read_file "blob:${blob}"`), chars };
}

/** Files one reply brings along, at most. */
const MAX_REPLY_FILES = 20;

/**
 * A run that comes to rest is put on record with the files its reply offers, as they are there now: the reply is made
 * from that alone.
 */
export async function attachOfferedFiles(
  store: SessionStore,
  session: Session,
  events: EventBody[],
): Promise<EventBody[]> {
  const rested = events.find((event) => event.type === 'run.rested');
  if (!rested || !session.run) return events;
  const files = await store.files(findReplyAttachments(session, rested.text), MAX_REPLY_FILES);
  return files.length === 0 ? events : events.map((event) => (event === rested ? { ...rested, files } : event));
}
