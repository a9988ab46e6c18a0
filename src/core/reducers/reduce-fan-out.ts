import { truncate } from '../../base/strings.ts';
import type { EventOf } from '../../protocol/session/event.ts';
import { inlineText } from '../../protocol/session/log-entry.ts';
import type { Plan, Step } from '../../protocol/session/plan.ts';
import { chunk, MAX_ITEMS_PER_PART, MAX_PARTS, PartsPage, partSize } from '../../protocol/tool-calls/own-tools.ts';
import { MISSING_OUTCOME_SIZE, packIntoBatches, partsOf } from '../plan/fan-out.ts';
import { listingCallKey } from '../session/internal-calls.ts';
import type { FanOut } from '../session/run-state.ts';
import { stepOutcome } from '../session/session-queries.ts';
import type { Session } from '../session/session-state.ts';

/**
 * A step with items starts: a list and outcomes are known, a folder or file has to be read. A step that already has
 * items keeps them.
 */
export function startFanOut(session: Session, plan: Plan, step: Step, seq: number): FanOut {
  const at: FanOut = {
    step: step.id,
    seq,
    state: 'listed',
    pages: 0,
    parts: [],
    addedParts: 0,
    partsBefore: highestPartNumber(session, plan, step.id),
    listedItems: 0,
    groupSize: null,
    hasMore: false,
    leftOut: 0,
    fault: null,
  };
  if (partsOf(plan, step.id).length > 0) return at;
  if (step.gather) return { ...at, parts: outcomeBatches(session, plan, step) };
  if (!step.each || !('list' in step.each)) return { ...at, state: 'wanted' };
  const { list } = step.each;
  const size = partSize(list.length);
  return size === undefined
    ? { ...at, fault: `${list.length} entries; ${MAX_PARTS * MAX_ITEMS_PER_PART} are the most` }
    : { ...at, parts: chunk(list, size) };
}

/** Item numbers are not reused: a child session may already exist for one. */
function highestPartNumber({ children }: Session, plan: Plan, id: string): number {
  const known = [...Object.keys(children), ...plan.steps.map((step) => step.id)];
  return known.reduce((most, one) => {
    const number = one.startsWith(`${id}.`) ? Number(/^\d{1,9}$/.exec(one.slice(id.length + 1))?.[0] ?? 0) : 0;
    return Math.max(most, number);
  }, 0);
}

/** Groups outcomes into batches by size; an item that was lost has no outcome. */
function outcomeBatches(session: Session, plan: Plan, { gather }: Step): string[][] {
  const parts = partsOf(plan, gather?.from ?? '').filter((part) => part.status === 'completed');
  const size = (part: Step) => [...stepOutcome(session, part)].length || MISSING_OUTCOME_SIZE;
  return packIntoBatches(parts, size, gather?.batch_chars ?? Number.POSITIVE_INFINITY).map((batch) =>
    batch.map((part) => part.id),
  );
}

/** A listing of the items starts or ends; one that was cut short is repeated. */
export function reduceListing(
  session: Session,
  event: EventOf<'tool.started'> | EventOf<'tool.finished'> | EventOf<'tool.interrupted'>,
): Session {
  const { fanOut } = session;
  if (!fanOut || event.call !== listingCallKey(fanOut)) return session;
  if (event.type === 'tool.started') return { ...session, fanOut: { ...fanOut, state: 'started' } };
  if (event.type === 'tool.interrupted')
    return { ...session, fanOut: { ...fanOut, state: fanOut.hasMore ? 'listed' : 'wanted' } };
  const text = inlineText(event.output);
  const listing = event.ok ? parseListing(text) : undefined;
  return {
    ...session,
    fanOut: listing ? nextPage(fanOut, listing) : { ...fanOut, state: 'listed', fault: truncate(text, 400) },
  };
}

function nextPage(fanOut: FanOut, { parts, group, more, left_out }: PartsPage): FanOut {
  return {
    ...fanOut,
    state: 'listed',
    pages: fanOut.pages + 1,
    partsBefore: fanOut.partsBefore + fanOut.parts.length,
    parts,
    addedParts: 0,
    listedItems: fanOut.listedItems + parts.reduce((sum, part) => sum + part.length, 0),
    groupSize: group,
    hasMore: more,
    leftOut: left_out,
  };
}

function parseListing(text: string): PartsPage | undefined {
  try {
    return PartsPage.safeParse(JSON.parse(text)).data;
  } catch {
    return undefined;
  }
}

/** A step joins the plan: if it is a listed item, one fewer remains to be added. */
export function countAddedPart(fanOut: Session['fanOut'], { step }: EventOf<'step.added'>): Session['fanOut'] {
  return fanOut && step.parent === fanOut.step ? { ...fanOut, addedParts: fanOut.addedParts + 1 } : fanOut;
}
