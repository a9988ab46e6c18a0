import { own } from '../protocol/own.ts';
import type { Plan } from '../protocol/plan.ts';
import { childName } from './child-name.ts';
import { dropKey, type TakenDrop } from './drops.ts';
import { FOLD_VERSION } from './fold-version.ts';
import { growing, listed } from './grow.ts';
import { entriesOf, entryOf, keyedOf } from './keyed.ts';
import { emptySession, FRESH_PLAN, type Message, type Session } from './session.ts';
import { settled } from './settled.ts';

/** What a record meant at some place: the session, and the plan that left `plan.json` last. */
export type Meaning = { session: Session; left: Plan | null };

/**
 * How the state is laid out. Raised where `readSession` can no longer read what an earlier version wrote; a field that is new
 * begins as in an empty session, which needs no raise.
 */
const LAYOUT = 1;

type State = { layout: number; fold: string; left: Plan | null; session: Written };
type Plain = Omit<Session, 'messages' | 'names' | 'drops' | 'conversation' | 'claim'>;
type Written = Plain & {
  conversation: unknown;
  claim: (Omit<NonNullable<Session['claim']>, 'checks'> & { checks: unknown }) | null;
  messages: MessageRow[];
  names: string[];
  drops: DropRow[];
};
/** An answered message needs a line of a hundred bytes or so; one that is at work stays as it is. */
type MessageRow = Message | [id: string, name: string | 0, at: string, sha256: string, attachments?: string[]];
/** `of` is the place of its message in `messages`, whose hash it shares; a refused file stands for itself. */
type DropRow =
  | [ino: string, mtime: string, seq: number, of: number, ...DropFacts]
  | [key: string, seq: number, message: string, ...DropFacts];
/** Without a time: an event of an earlier version. 0: the same as `mtime`. */
type DropFacts = [ctime?: string | 0 | null, name?: string];

/** A meaning as plain JSON, for `meaningIn`. */
export function stateOf({ session, left }: Meaning): unknown {
  return { layout: LAYOUT, fold: FOLD_VERSION, left, session: writeSession(session) } satisfies State;
}

/**
 * What `stateOf` gave, for the session of that name (its folder may have been renamed). `current`: this program's own fold made it.
 * One of another version is the truth only where nothing older can be read any more. Undefined where it cannot be read.
 */
export function meaningIn(state: unknown, name: string): (Meaning & { current: boolean }) | undefined {
  if (!isState(state)) return undefined;
  return { session: readSession(state.session, name), left: state.left, current: state.fold === FOLD_VERSION };
}

// Its bytes were checked by whoever kept them, and `layout` says that they were written by the functions below.
function isState(state: unknown): state is State {
  return typeof state === 'object' && state !== null && 'layout' in state && state.layout === LAYOUT;
}

/** Every field that JSON would not give back as it was, or that has a shorter form, is named here; all others are plain. */
function writeSession({ messages, names, drops, conversation, claim, ...plain }: Session): Written {
  const known = entriesOf(messages);
  const places = new Map(known.map(([id], place) => [id, place]));
  const theirs = new Set(known.map(([, message]) => message.name));
  return {
    ...plain,
    conversation: listed(conversation),
    claim: claim && { ...claim, checks: Array.from(claim.checks, (check) => check ?? null) },
    messages: known.map(([, message]) => messageRow(message)),
    names: entriesOf(names).flatMap(([name]) => (theirs.has(name) ? [] : [name])),
    drops: entriesOf(drops).map(([key, drop]): DropRow => {
      const [ino = '', mtime = '', sha256] = key.split(':');
      const place = places.get(drop.message);
      const ofMessage = place !== undefined && entryOf(messages, drop.message)?.sha256 === sha256;
      const facts = dropFacts(drop, mtime);
      return ofMessage ? [ino, mtime, drop.seq, place, ...facts] : [key, drop.seq, drop.message, ...facts];
    }),
  };
}

function readSession({ messages, names, drops, conversation, claim, ...plain }: Written, name: string): Session {
  const known = messages.map(messageIn);
  const dropped = drops.map((row): readonly [string, TakenDrop] => {
    if (!isOfMessage(row)) {
      const [key, seq, message, ...facts] = row;
      return [key, { seq, message, ...dropFactsIn(facts, key.split(':')[1] ?? '') }];
    }
    const [ino, mtime, seq, of, ...facts] = row;
    const message = known[of];
    return [
      dropKey({ ino, mtime_ns: mtime, sha256: message?.sha256 ?? '' }),
      { seq, message: message?.id ?? '', ...dropFactsIn(facts, mtime) },
    ];
  });
  const own = { ...emptySession(name), ...plain, name };
  return {
    ...own,
    ...renamed(own),
    conversation: growing(Array.isArray(conversation) ? [...conversation] : []),
    claim: claim && { ...claim, checks: Array.isArray(claim.checks) ? claim.checks.map((it) => it ?? undefined) : [] },
    messages: keyedOf(known.map((message) => [message.id, message] as const)),
    names: keyedOf([...known.map((message) => message.name), ...names].map((one) => [one, true] as const)),
    drops: keyedOf(dropped),
  };
}

const isOfMessage = (row: DropRow): row is Extract<DropRow, [string, string, ...unknown[]]> =>
  typeof row[1] === 'string';

function dropFacts({ ctime, name }: TakenDrop, mtime: string): DropFacts {
  const time = ctime === mtime ? 0 : ctime;
  if (name !== undefined) return [time ?? null, name];
  return time === undefined ? [] : [time];
}

function dropFactsIn([time, name]: DropFacts, mtime: string): Pick<TakenDrop, 'ctime' | 'name'> {
  const ctime = time === 0 ? mtime : time;
  return { ...(typeof ctime === 'string' && { ctime }), ...(name !== undefined && { name }) };
}

/** Child sessions are called after their parent, whose folder may have been renamed. */
function renamed({ name, children, plan, setAside, asideWork }: Session): Partial<Session> {
  const called = (children: Session['children']): Session['children'] =>
    mapped(children, (child, step) => ({ ...child, child: childName(name, step, child.generation ?? 1) }));
  const inPlan = (plan: Plan, children: Session['children'] = {}): Plan => {
    const generation = (id: string) => own(children, id)?.generation ?? 1;
    const steps = plan.steps.map((step) =>
      step.child === undefined ? step : { ...step, child: childName(name, step.id, generation(step.id)) },
    );
    return { ...plan, steps };
  };
  return {
    children: called(children),
    plan: plan && inPlan(plan, children),
    setAside: mapped(setAside, (aside, id) => inPlan(aside, own(asideWork, id)?.children)),
    asideWork: mapped(asideWork, (work) => ({ ...FRESH_PLAN, ...work, children: called(work.children) })),
  };
}

function mapped<T>(record: Readonly<Record<string, T>>, change: (value: T, key: string) => T): Record<string, T> {
  return Object.fromEntries(Object.entries(record).map(([key, value]) => [key, change(value, key)]));
}

function messageRow(message: Message): MessageRow {
  if (!message.replied || message.text !== '') return message;
  const { id, name, at, sha256, attachments } = message;
  const called = name === id ? 0 : name;
  return attachments ? [id, called, at, sha256, attachments] : [id, called, at, sha256];
}

function messageIn(row: MessageRow): Message {
  if (!Array.isArray(row)) return row;
  const [id, name, at, sha256, attachments] = row;
  const message = { id, name: name === 0 ? id : name, at, text: '', sha256, during: false, replied: true };
  return settled(attachments ? { ...message, attachments } : message);
}
