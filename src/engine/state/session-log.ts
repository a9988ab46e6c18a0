import { truncateMiddle } from '../../base/strings.ts';
import { UserError } from '../../base/user-error.ts';
import { reduceEvent } from '../../core/reducers/reduce-event.ts';
import { pendingWorkOf } from '../../core/session/session-queries.ts';
import { emptySession, type Session } from '../../core/session/session-state.ts';
import { snapshotFromState, stateFromSnapshot } from '../../core/session/snapshot.ts';
import type { Event, EventBody } from '../../protocol/session/event.ts';
import { LOG_START, type LogPosition, type StoredText } from '../../protocol/session/log-entry.ts';
import type { Plan } from '../../protocol/session/plan.ts';
import type { RunGuarded, SessionPorts } from '../ports/session-ports.ts';
import type { Blobs, EventLog, PendingWork, Snapshots } from '../ports/store-ports.ts';

/** Plan versions kept in memory, to know what a hand edit started from. */
const MAX_PLAN_VERSIONS = 64;
/**
 * A snapshot is due after this many events (rule R35), or this many bytes: the next opening reads at most these and the
 * snapshot itself, which a default window keeps below 700 KB, so a megabyte in all.
 */
const SNAPSHOT_EVENTS = 500;
const SNAPSHOT_BYTES = 256 * 1024;
/** Events between two checks of the bytes. */
const SIZE_CHECK_EVENTS = 16;

/**
 * The event log of a session and the state reduced from it. Events are on disk before they are applied; nothing leaves
 * for the outside world before `sync`.
 */
export type SessionLog = {
  readonly session: Session;
  /** The seq of the last event. */
  record(bodies: EventBody[]): Promise<number>;
  sync(): Promise<void>;
  /** Names of what was cut off the end of the log and is not on record yet. */
  readonly newCuts: readonly string[];
  /** The plan of that id at that revision, read from the log if necessary. */
  planAt(id: string, revision: number): Promise<Plan | undefined>;
  /** Plans that have left `plan.json` since the last call. */
  takeRemovedPlans(): Plan[];
  /** How far the log has grown since the last snapshot: not at all, a little, or so far that one is due. */
  readonly sinceSnapshot: 'nothing' | 'some' | 'due';
  /** Runs code that does not yield, in the name of this session. */
  runGuarded: RunGuarded;
  /**
   * Saves a snapshot of the current session. The log is synced up to there first, so a snapshot is never ahead of it.
   */
  saveSnapshot(): Promise<void>;
};

/** The reduced state: the session, and the last plan that left `plan.json`. */
type ReducedState = { session: Session; left: Plan | null; mark: LogPosition };

/** Randomness enters here: every start of a budget window is logged with a prompt nonce of its own. */
function addNonce(body: EventBody, createNonce: SessionPorts['createNonce']): EventBody {
  return body.type === 'run.started' || body.type === 'run.resumed' ? { ...body, nonce: createNonce() } : body;
}

export async function openSessionLog(
  name: string,
  eventLog: EventLog,
  snapshots: Snapshots,
  createNonce: SessionPorts['createNonce'],
  runGuarded: RunGuarded = (_, run) => run(),
  checkOwner: () => void = () => {},
): Promise<SessionLog> {
  let session = emptySession(name);
  let lastLeft: Plan | null = null;
  let left: Plan[] = [];
  const versions = keepPlanVersions();
  let snapshotAt = LOG_START;
  let sizeCheck = { seq: 0, bytes: 0 };
  const sync = async (): Promise<void> => {
    await eventLog.sync();
    checkOwner();
  };
  const startFrom = (state: ReducedState) => {
    ({ session, left: lastLeft, mark: snapshotAt } = state);
    versions.restart(session.plan);
  };
  const reduceNext = (event: Event) => {
    const before = session.plan;
    session = runGuarded(`taking in ${event.type}, event ${event.seq}`, () => reduceEvent(session, event));
    const { plan } = session;
    if (before && before.id !== plan?.id) {
      lastLeft = before;
      left.push(before);
    }
    if (plan && plan !== before) versions.add(plan);
  };
  await restoreState(name, eventLog, snapshots, startFrom, reduceNext, () => pendingWorkOf(session));
  const newCuts = (await eventLog.listCuts()).filter((cut) => !session.cuts.includes(cut));
  // Earlier plans were archived by the daemon that removed them; the last one may not have been.
  left = lastLeft ? [lastLeft] : [];
  return {
    get session() {
      return session;
    },
    async record(bodies) {
      if (bodies.length === 0) return session.seq;
      const opening: EventBody[] = session.seq === 0 ? [{ type: 'session.opened', format: 1, key: name }] : [];
      checkOwner();
      for (const event of await eventLog.append([...opening, ...bodies.map((body) => addNonce(body, createNonce))]))
        reduceNext(event);
      return session.seq;
    },
    sync,
    newCuts,
    async planAt(id, revision) {
      if (revision < 1 || (session.plan?.id === id && revision > session.plan.revision)) return undefined;
      return versions.find(id, revision, () => replayPlanAt(name, eventLog, id, revision, runGuarded));
    },
    runGuarded,
    takeRemovedPlans() {
      const gone = left;
      left = [];
      return gone;
    },
    get sinceSnapshot() {
      if (session.seq === snapshotAt.seq) return 'nothing';
      if (session.seq - sizeCheck.seq >= SIZE_CHECK_EVENTS)
        sizeCheck = { seq: session.seq, bytes: bytesBetween(snapshotAt, eventLog.position()) };
      return session.seq - snapshotAt.seq >= SNAPSHOT_EVENTS || sizeCheck.bytes >= SNAPSHOT_BYTES ? 'due' : 'some';
    },
    async saveSnapshot() {
      await sync();
      const mark = eventLog.position();
      if (mark.seq !== session.seq) return;
      // Whether or not it can be written: after a failure the next attempt comes when the next one is due.
      snapshotAt = mark;
      sizeCheck = { seq: mark.seq, bytes: 0 };
      const state = runGuarded('making a snapshot', () => snapshotFromState({ session, left: lastLeft }));
      checkOwner();
      await snapshots.save(mark, state);
    },
  };
}

/** The last versions of the plan, and the one that was last read from the log. */
function keepPlanVersions() {
  let versions: Plan[] = [];
  let replayed: Plan[] = [];
  return {
    restart(plan: Plan | null): void {
      versions = plan ? [plan] : [];
    },
    add(plan: Plan): void {
      versions.push(plan);
      if (versions.length > 2 * MAX_PLAN_VERSIONS) versions.splice(0, MAX_PLAN_VERSIONS);
    },
    async find(id: string, revision: number, replay: () => Promise<Plan | undefined>): Promise<Plan | undefined> {
      const isWanted = (plan: Plan) => plan.id === id && plan.revision === revision;
      const known = versions.findLast(isWanted) ?? replayed.find(isWanted);
      if (known) return known;
      const found = await replay();
      // An editor that never rereads its file saves from the same version each time.
      if (found) replayed = [found];
      return found;
    },
  };
}

/** A lower bound: the bytes in other segments are more than enough in any case. */
function bytesBetween(from: LogPosition, to: LogPosition): number {
  return to.segment === from.segment ? to.offset - from.offset : to.offset;
}

/**
 * Starts with a snapshot of this version's reducers and reads on from its position; else reduces the whole log. A
 * snapshot of another version is used only if retention has removed the start of the log.
 */
async function restoreState(
  name: string,
  eventLog: EventLog,
  snapshots: Snapshots,
  startFrom: (state: ReducedState) => void,
  reduceNext: (event: Event) => void,
  pending: () => PendingWork,
): Promise<void> {
  const snapshot = await snapshots.load();
  const meaning = snapshot && stateFromSnapshot(snapshot.state, name);
  let restored =
    snapshot && meaning && meaning.session.seq === snapshot.mark.seq ? { ...meaning, mark: snapshot.mark } : undefined;
  if (restored?.current) {
    startFrom(restored);
    if ((await eventLog.read(reduceNext, restored.mark, pending)) === 'read') return;
    startFrom({ session: emptySession(name), left: null, mark: LOG_START });
    restored = undefined;
  }
  let from: number | undefined;
  const takeIn = (event: Event) => {
    if (from === undefined) {
      from = 0;
      if (event.seq > 1) {
        const before = stateBefore(event.seq, restored);
        startFrom(before);
        from = before.mark.seq;
      }
    }
    if (event.seq > from) reduceNext(event);
  };
  await eventLog.read(takeIn, 'oldest', pending);
}

/** The state before the oldest event that is kept. */
function stateBefore(seq: number, restored: ReducedState | undefined): ReducedState {
  if (restored && restored.mark.seq >= seq - 1) return restored;
  throw new UserError(
    `The event log begins with event ${seq}: earlier events were removed, and the snapshot that replaced them is missing. Restore snapshot.json from a backup, or move the session folder away; the daemon does not serve this session until then.`,
  );
}

async function replayPlanAt(
  name: string,
  eventLog: EventLog,
  id: string,
  revision: number,
  runGuarded: RunGuarded,
): Promise<Plan | undefined> {
  let session = emptySession(name);
  let found: Plan | undefined;
  await eventLog.read((event) => {
    session = runGuarded('reading the event log again', () => reduceEvent(session, event));
    if (session.plan?.id === id && session.plan.revision === revision) found = session.plan;
  }, 'oldest');
  return found;
}

/** A text for the log: inline up to `max` code points, else as a blob with its head and tail. */
export async function spillToBlob(text: string, max: number, blobs: Blobs): Promise<StoredText> {
  // No text has more code points than UTF-16 units, so most need no counting.
  if (text.length <= max) return { text };
  const chars = [...text].length;
  if (chars <= max) return { text };
  const blob = await blobs.put(text);
  return { blob, head: truncateMiddle(text, max, `read_file "blob:${blob}"`), chars };
}
