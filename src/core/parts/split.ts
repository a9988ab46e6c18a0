import type { EventOf } from '../../protocol/event.ts';
import { grouped, groupSize, Listing, MOST_IN_ONE, MOST_PARTS, PARTS, type PartsArgs } from '../../protocol/listing.ts';
import type { Plan, Step } from '../../protocol/plan.ts';
import { clip, shownText } from '../../protocol/recorded.ts';
import type { Call, Session } from '../session.ts';
import { batchesOf, MISSING } from './batches.ts';
import { outcomeOf, partsOf } from './family.ts';

/** The parts of a step that has begun, as far as they were found, page by page. */
export type Split = {
  step: string;
  /** Of the event that began the step: where the calls that list its parts have their keys from. */
  seq: number;
  /** `wanted`, `started`: of the page that comes next. */
  state: 'wanted' | 'started' | 'listed';
  /** Pages asked for so far. */
  pages: number;
  /** What each part of the page at hand is for: files, entries, or steps whose outcomes it puts together. */
  parts: ReadonlyArray<readonly string[]>;
  /** Parts of that page that are steps by now. */
  added: number;
  /** Parts of earlier pages, and files or lines in all pages. */
  before: number;
  listed: number;
  group: number | null;
  more: boolean;
  leftOut: number;
  fault: string | null;
};

/** A step with parts begins: a list is known, so are outcomes; a folder or file is to be looked up. One that has parts keeps them. */
export function splitOf(session: Session, plan: Plan, step: Step, seq: number): Split {
  const at: Split = {
    step: step.id,
    seq,
    state: 'listed',
    pages: 0,
    parts: [],
    added: 0,
    before: usedNumbers(session, plan, step.id),
    listed: 0,
    group: null,
    more: false,
    leftOut: 0,
    fault: null,
  };
  if (partsOf(plan, step.id).length > 0) return at;
  if (step.gather) return { ...at, parts: batched(session, plan, step) };
  if (!step.each || !('list' in step.each)) return { ...at, state: 'wanted' };
  const { list } = step.each;
  const size = groupSize(list.length);
  return size === undefined
    ? { ...at, fault: `${list.length} entries; ${MOST_PARTS * MOST_IN_ONE} are the most` }
    : { ...at, parts: grouped(list, size) };
}

/** Numbers of parts are not used twice: a child session may be there already. */
function usedNumbers({ children }: Session, plan: Plan, id: string): number {
  const known = [...Object.keys(children), ...plan.steps.map((step) => step.id)];
  return known.reduce((most, one) => {
    const number = one.startsWith(`${id}.`) ? Number(/^\d{1,9}$/.exec(one.slice(id.length + 1))?.[0] ?? 0) : 0;
    return Math.max(most, number);
  }, 0);
}

/** Outcomes put together by size; a part that was lost has none. */
function batched(session: Session, plan: Plan, { gather }: Step): string[][] {
  const parts = partsOf(plan, gather?.from ?? '').filter((part) => part.status === 'completed');
  const size = (part: Step) => [...outcomeOf(session, part)].length || MISSING;
  return batchesOf(parts, size, gather?.batch_chars ?? Number.POSITIVE_INFINITY).map((batch) =>
    batch.map((part) => part.id),
  );
}

const KEY = /\.parts\d+$/;

export const isListing = (key: string): boolean => KEY.test(key);

export const listingKey = ({ seq, pages }: Split): string => `${seq}.parts${pages}`;

/** The call that looks up the next page of parts. */
export function listingCall({ each }: Step, split: Split): Call {
  const last = split.parts.at(-1)?.at(-1);
  const wanted: PartsArgs = {
    ...(each && !('list' in each) && each),
    from: split.listed,
    ...(split.group !== null && { group: split.group }),
    ...(last !== undefined && each && 'folder' in each && { after: last }),
  };
  const args = JSON.stringify(wanted);
  const state = split.state === 'started' ? 'started' : 'asked';
  return { key: listingKey(split), id: '', name: PARTS, args, main: args, state, replay: 'safe', ok: false, head: '' };
}

/** A look at the parts begins or ends; one that was cut short is done again. */
export function foldListing(
  session: Session,
  event: EventOf<'tool.started'> | EventOf<'tool.finished'> | EventOf<'tool.interrupted'>,
): Session {
  const { split } = session;
  if (!split || event.call !== listingKey(split)) return session;
  if (event.type === 'tool.started') return { ...session, split: { ...split, state: 'started' } };
  if (event.type === 'tool.interrupted')
    return { ...session, split: { ...split, state: split.more ? 'listed' : 'wanted' } };
  const text = shownText(event.output);
  const listing = event.ok ? listingIn(text) : undefined;
  return { ...session, split: listing ? paged(split, listing) : { ...split, state: 'listed', fault: clip(text, 400) } };
}

function paged(split: Split, { parts, group, more, left_out }: Listing): Split {
  return {
    ...split,
    state: 'listed',
    pages: split.pages + 1,
    before: split.before + split.parts.length,
    parts,
    added: 0,
    listed: split.listed + parts.reduce((sum, part) => sum + part.length, 0),
    group,
    more,
    leftOut: left_out,
  };
}

function listingIn(text: string): Listing | undefined {
  try {
    return Listing.safeParse(JSON.parse(text)).data;
  } catch {
    return undefined;
  }
}

/** A step joins the plan: where it is a part that was found, it is one less to add. */
export function counted(split: Session['split'], { step }: EventOf<'step.added'>): Session['split'] {
  return split && step.parent === split.step ? { ...split, added: split.added + 1 } : split;
}
