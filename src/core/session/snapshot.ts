import {
  appendList,
  getOwn,
  listItems,
  mapEntries,
  mapFromEntries,
  mapGet,
  propertyOf,
} from '../../base/collections.ts';
import type { Plan } from '../../protocol/session/plan.ts';
import { childSessionName } from './child-session.ts';
import { FRESH_PLAN_PROGRESS } from './progress-state.ts';
import { REDUCER_VERSION } from './reducer-version.ts';
import { dropKey, type Message, type TakenDrop, withoutText } from './session-messages.ts';
import { emptySession, type Session } from './session-state.ts';

/** The state at some position of the log: the session, and the last plan that left `plan.json`. */
export type SnapshotState = { session: Session; left: Plan | null };

/**
 * The layout of the state. Raised when a field gets another name or form; `MIGRATIONS` then says how the previous
 * layout becomes this one. A new field starts as in an empty session and needs no new layout.
 */
const SNAPSHOT_LAYOUT = 3;
/** By layout: makes a state of it one of the next layout. Layout 3 is the first that counts. */
const MIGRATIONS: Readonly<Record<number, (state: object) => unknown>> = {};

type SnapshotFile = { layout: number; reducers: string; left: Plan | null; session: EncodedSession };
type PlainFields = Omit<Session, 'messages' | 'replyNames' | 'takenDrops' | 'conversation' | 'claim'>;
type EncodedSession = PlainFields & {
  conversation: unknown;
  claim: (Omit<NonNullable<Session['claim']>, 'checks'> & { checks: unknown }) | null;
  messages: MessageRow[];
  names: string[];
  drops: DropRow[];
};
/** An answered message takes a line of about a hundred bytes; one still in use is kept whole. */
type MessageRow = Message | [id: string, name: string | 0, at: string, sha256: string, attachments?: string[]];
/** `of` is the index of its message in `messages`, whose hash it shares; a rejected file stands on its own. */
type DropRow =
  | [ino: string, mtime: string, seq: number, of: number, ...DropFacts]
  | [key: string, seq: number, message: string, ...DropFacts];
/** The time is 0 if it is that of `mtime`. */
type DropFacts = [ctime: string | 0, name?: string];

/** The state as plain JSON, for `stateFromSnapshot`. */
export function snapshotFromState({ session, left }: SnapshotState): unknown {
  return {
    layout: SNAPSHOT_LAYOUT,
    reducers: REDUCER_VERSION,
    left,
    session: encodeSession(session),
  } satisfies SnapshotFile;
}

/**
 * Reads what `snapshotFromState` wrote, for the session of that name (its folder may have been renamed). `current`:
 * this version's reducers wrote it. A snapshot of another version is used only if nothing older can be read any more.
 * Undefined if it cannot be read.
 */
export function stateFromSnapshot(state: unknown, name: string): (SnapshotState & { current: boolean }) | undefined {
  const file = migrated(state);
  if (!isSnapshotFile(file)) return undefined;
  return { session: decodeSession(file.session, name), left: file.left, current: file.reducers === REDUCER_VERSION };
}

/** If retention has removed the start of the log, such a snapshot is all that is left of it: every field is kept. */
function migrated(state: unknown): unknown {
  const migrate = MIGRATIONS[Number(propertyOf(state, 'layout'))];
  return migrate ? migrated(migrate(Object(state))) : state;
}

// Its bytes were verified when they were read, and `layout` says that the functions below wrote them.
function isSnapshotFile(state: unknown): state is SnapshotFile {
  return typeof state === 'object' && state !== null && 'layout' in state && state.layout === SNAPSHOT_LAYOUT;
}

/**
 * Every field that JSON would not return unchanged, or that has a shorter form, is named here; all others are plain.
 */
function encodeSession({ messages, replyNames, takenDrops, conversation, claim, ...plain }: Session): EncodedSession {
  const known = mapEntries(messages);
  const places = new Map(known.map(([id], place) => [id, place]));
  const theirs = new Set(known.map(([, message]) => message.name));
  return {
    ...plain,
    conversation: listItems(conversation),
    claim: claim && { ...claim, checks: Array.from(claim.checks, (check) => check ?? null) },
    messages: known.map(([, message]) => encodeMessage(message)),
    names: mapEntries(replyNames).flatMap(([name]) => (theirs.has(name) ? [] : [name])),
    drops: mapEntries(takenDrops).map(([key, drop]): DropRow => {
      const [ino = '', mtime = '', sha256] = key.split(':');
      const place = places.get(drop.message);
      const ofMessage = place !== undefined && mapGet(messages, drop.message)?.sha256 === sha256;
      const facts = encodeDropFacts(drop, mtime);
      return ofMessage ? [ino, mtime, drop.seq, place, ...facts] : [key, drop.seq, drop.message, ...facts];
    }),
  };
}

function decodeSession(
  { messages, names, drops, conversation, claim, ...plain }: EncodedSession,
  name: string,
): Session {
  const known = messages.map(decodeMessage);
  const dropped = drops.map((row): readonly [string, TakenDrop] => {
    if (!isOfMessage(row)) {
      const [key, seq, message, ...facts] = row;
      return [key, { seq, message, ...decodeDropFacts(facts, key.split(':')[1] ?? '') }];
    }
    const [ino, mtime, seq, of, ...facts] = row;
    const message = known[of];
    return [
      dropKey({ ino, mtime_ns: mtime, sha256: message?.sha256 ?? '' }),
      { seq, message: message?.id ?? '', ...decodeDropFacts(facts, mtime) },
    ];
  });
  const own = { ...emptySession(name), ...plain, name };
  return {
    ...own,
    ...withChildNames(own),
    conversation: appendList(Array.isArray(conversation) ? [...conversation] : []),
    claim: claim && { ...claim, checks: Array.isArray(claim.checks) ? claim.checks.map((it) => it ?? undefined) : [] },
    messages: mapFromEntries(known.map((message) => [message.id, message] as const)),
    replyNames: mapFromEntries([...known.map((message) => message.name), ...names].map((one) => [one, true] as const)),
    takenDrops: mapFromEntries(dropped),
  };
}

const isOfMessage = (row: DropRow): row is Extract<DropRow, [string, string, ...unknown[]]> =>
  typeof row[1] === 'string';

function encodeDropFacts({ ctime, name }: TakenDrop, mtime: string): DropFacts {
  const time = ctime === mtime ? 0 : ctime;
  return name === undefined ? [time] : [time, name];
}

function decodeDropFacts([time, name]: DropFacts, mtime: string): Pick<TakenDrop, 'ctime' | 'name'> {
  return { ctime: time === 0 ? mtime : time, ...(name !== undefined && { name }) };
}

/** Child sessions are named after their parent, whose folder may have been renamed. */
function withChildNames({ name, children, plan, shelvedPlans, shelvedProgress }: Session): Partial<Session> {
  const called = (children: Session['children']): Session['children'] =>
    mapValues(children, (child, step) => ({ ...child, name: childSessionName(name, step, child.generation ?? 1) }));
  const inPlan = (plan: Plan, children: Session['children'] = {}): Plan => {
    const generation = (id: string) => getOwn(children, id)?.generation ?? 1;
    const steps = plan.steps.map((step) =>
      step.child === undefined ? step : { ...step, child: childSessionName(name, step.id, generation(step.id)) },
    );
    return { ...plan, steps };
  };
  return {
    children: called(children),
    plan: plan && inPlan(plan, children),
    shelvedPlans: mapValues(shelvedPlans, (shelved, id) => inPlan(shelved, getOwn(shelvedProgress, id)?.children)),
    shelvedProgress: mapValues(shelvedProgress, (work) => ({
      ...FRESH_PLAN_PROGRESS,
      ...work,
      children: called(work.children),
    })),
  };
}

function mapValues<T>(record: Readonly<Record<string, T>>, change: (value: T, key: string) => T): Record<string, T> {
  return Object.fromEntries(Object.entries(record).map(([key, value]) => [key, change(value, key)]));
}

function encodeMessage(message: Message): MessageRow {
  if (!message.isReplied || message.text !== '') return message;
  const { id, name, at, sha256, attachments } = message;
  const called = name === id ? 0 : name;
  return attachments ? [id, called, at, sha256, attachments] : [id, called, at, sha256];
}

function decodeMessage(row: MessageRow): Message {
  if (!Array.isArray(row)) return row;
  const [id, name, at, sha256, attachments] = row;
  const message = { id, name: name === 0 ? id : name, at, text: '', sha256, arrivedDuringRun: false, isReplied: true };
  return withoutText(attachments ? { ...message, attachments } : message);
}
