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
 * A step with parts begins: a list is known, so are outcomes; a folder or file is to be looked up. One that has parts
 * keeps them.
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

/** Numbers of parts are not used twice: a child session may be there already. */
function highestPartNumber({ children }: Session, plan: Plan, id: string): number {
  const known = [...Object.keys(children), ...plan.steps.map((step) => step.id)];
  return known.reduce((most, one) => {
    const number = one.startsWith(`${id}.`) ? Number(/^\d{1,9}$/.exec(one.slice(id.length + 1))?.[0] ?? 0) : 0;
    return Math.max(most, number);
  }, 0);
}

/** Outcomes put together by size; a part that was lost has none. */
function outcomeBatches(session: Session, plan: Plan, { gather }: Step): string[][] {
  const parts = partsOf(plan, gather?.from ?? '').filter((part) => part.status === 'completed');
  const size = (part: Step) => [...stepOutcome(session, part)].length || MISSING_OUTCOME_SIZE;
  return packIntoBatches(parts, size, gather?.batch_chars ?? Number.POSITIVE_INFINITY).map((batch) =>
    batch.map((part) => part.id),
  );
}

/** A look at the parts begins or ends; one that was cut short is done again. */
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

/** A step joins the plan: where it is a part that was found, it is one less to add. */
export function countAddedPart(fanOut: Session['fanOut'], { step }: EventOf<'step.added'>): Session['fanOut'] {
  return fanOut && step.parent === fanOut.step ? { ...fanOut, addedParts: fanOut.addedParts + 1 } : fanOut;
}
