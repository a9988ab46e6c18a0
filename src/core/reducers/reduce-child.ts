import { getOwn } from '../../base/collections.ts';
import { parseJson } from '../../base/json.ts';
import { truncate } from '../../base/strings.ts';
import type { EventOf } from '../../protocol/session/event.ts';
import { inlineText } from '../../protocol/session/log-entry.ts';
import type { Plan, Step } from '../../protocol/session/plan.ts';
import { RUN_END } from '../../protocol/session/reply.ts';
import { chunk, MAX_ITEMS_PER_PART, MAX_PARTS, PartsPage, partSize } from '../../protocol/tool-calls/own-tools.ts';
import { fanOutStepOf, MISSING_OUTCOME_SIZE, packIntoBatches, partsOf } from '../plan/fan-out.ts';
import { updateStep, withExitStatus } from '../plan/plan-steps.ts';
import { answersCall, type ChildSession, childSessionName, haltSeverity } from '../session/child-session.ts';
import { listingCallKey } from '../session/internal-calls.ts';
import { addUsage, type FanOut } from '../session/run-state.ts';
import { stepOutcome } from '../session/session-queries.ts';
import type { Session } from '../session/session-state.ts';
import { markAnswered, restingRun, withRun } from './reduce-approval.ts';

/** A step was given to a child session, the child was sent a message, or it replied. */
export function reduceChild(session: Session, event: EventOf<'child.sent'> | EventOf<'child.replied'>): Session {
  const known = getOwn(session.children, event.step);
  return event.type === 'child.sent' ? childSent(session, known, event) : childReplied(session, known, event);
}

function childSent(session: Session, known: ChildSession | undefined, event: EventOf<'child.sent'>): Session {
  const { step, attempt, message, command, folder = known?.folder } = event;
  if (answersCall(command)) return { ...session, childCalls: markAnswered(session, event.child) };
  // Not the logged name: the session's folder may have been renamed since.
  const generation = childGeneration(session, step);
  const child = childSessionName(session.name, step, generation);
  const halts = haltSeverity(command) >= 0;
  const entry: ChildSession = {
    name: child,
    step,
    generation,
    attempt,
    // Neither a lost child session nor a step that was changed meanwhile counts as an attempt.
    earlierAttempts:
      (known?.earlierAttempts ?? 0) +
      (known && attempt > known.attempt && (isChildLost(known) || known.isOutdated) ? 1 : 0),
    budget: halts && known ? known.budget : (event.limits ?? null),
    repliedAt: event.at,
    // A stop is answered in addition to the task it stops: the reply that counts is still the task's.
    awaitedMessage: halts && known ? known.awaitedMessage : message,
    messagesSent: (known?.messagesSent ?? 0) + 1,
    state: halts ? 'halting' : 'working',
    reply: null,
    workingSince: halts && known?.workingSince !== undefined ? known.workingSince : event.at,
    ...(folder !== undefined && { folder }),
    ...(halts && command !== undefined && { haltCommand: command }),
    ...(halts && known?.isOutdated && { isOutdated: true as const }),
    ...(known?.attempt === attempt && { wasToldMore: true as const }),
  };
  const { plan } = session;
  const children = { ...session.children, [step]: entry };
  const generations = {
    ...session.childGenerations,
    [step]: Math.max(generation, getOwn(session.childGenerations, step) ?? 0),
  };
  if (!plan) return { ...session, children, childGenerations: generations };
  const marked = { child, ...(attempt > 1 && { attempts: attempt }) };
  return {
    ...session,
    children,
    childGenerations: generations,
    plan: updateStep(plan, step, (one) => ({ ...one, ...marked }), event.at),
  };
}

/** The number of the plan, counted from 1, that gives a step of this id to a child session. */
export function childGeneration({ children, childGenerations }: Session, step: string): number {
  const known = getOwn(children, step);
  return known ? (known.generation ?? 1) : (getOwn(childGenerations, step) ?? 0) + 1;
}

/** The run pays for what a child spent; one that waits for an approval does too, since it goes on. */
function childReplied(session: Session, known: ChildSession | undefined, event: EventOf<'child.replied'>): Session {
  if (!known || known.awaitedMessage !== event.message) return session;
  const run = session.run ?? restingRun(session);
  const usage = event.reply.usage;
  const spent = run && usage && addUsage(run.spent, usage);
  const { exit, status } = event.reply;
  // A question that arrived while no run was active has not been put to anybody yet.
  const isFirstReport = known.state === 'working' && (run !== null || status === 'waiting');
  const { plan } = session;
  const replied = {
    ...session,
    children: {
      ...session.children,
      [event.step]: {
        ...known,
        repliedAt: event.at,
        state: isFirstReport ? ('replied' as const) : ('suspended' as const),
        reply: event.reply,
      },
    },
    plan: plan && {
      ...updateStep(plan, event.step, (step) => withExitStatus(step, exit), event.at),
      iteration_count: plan.iteration_count + (usage?.iterations ?? 0),
    },
  };
  return run && spent ? withRun(replied, { ...run, spent, elapsedMs: run.elapsedMs + (usage.ms ?? 0) }) : replied;
}

/** When a step restarts, its child's reply no longer counts, unless the child can continue where it was. */
export function restartChild(children: Session['children'], step: string): Session['children'] {
  const child = getOwn(children, step);
  if (!child?.reply || child.reply.status === 'paused' || child.reply.status === 'waiting') return children;
  return { ...children, [step]: { ...child, state: 'over', reply: null, earlierAttempts: child.attempt } };
}

/** Fields of a step that were sent to its child. */
const TASK_FIELDS: readonly string[] = ['description', 'notes', 'done_when', 'agent'];

/** Children whose step, or the step whose item they work on, a person has changed. */
export function outdateChildren(
  children: Session['children'],
  plan: Plan,
  changes: EventOf<'plan.edited'>['changes'],
): Session['children'] {
  const changed = new Set(
    changes.flatMap((it) =>
      it.what === 'step' && [...Object.keys(it.set), ...it.unset].some((field) => TASK_FIELDS.includes(field))
        ? [it.step, ...plan.steps.filter((step) => fanOutStepOf(plan, step)?.id === it.step).map((step) => step.id)]
        : [],
    ),
  );
  if (![...changed].some((step) => getOwn(children, step))) return children;
  const entries = Object.entries(children).map(([step, child]): [string, ChildSession] => [
    step,
    changed.has(step) && child.state !== 'over' ? { ...child, isOutdated: true } : child,
  ]);
  return Object.fromEntries(entries);
}

const isChildLost = ({ wasToldMore, reply }: ChildSession): boolean =>
  wasToldMore === true && reply?.reason === RUN_END.stateLost;

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
  return PartsPage.safeParse(parseJson(text)).data;
}

/** A step joins the plan: if it is a listed item, one fewer remains to be added. */
export function countAddedPart(fanOut: Session['fanOut'], { step }: EventOf<'step.added'>): Session['fanOut'] {
  return fanOut && step.parent === fanOut.step ? { ...fanOut, addedParts: fanOut.addedParts + 1 } : fanOut;
}
