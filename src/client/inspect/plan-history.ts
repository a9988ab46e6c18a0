import { getOwn, mapGet } from '../../base/collections.ts';
import { UserError } from '../../base/user-error.ts';
import { describePlanChanges } from '../../core/plan/plan-changes.ts';
import type { Event } from '../../protocol/session/event.ts';
import { type Actor, isFromOutside } from '../../protocol/session/log-entry.ts';
import { type Plan, Step } from '../../protocol/session/plan.ts';
import { RUN_END } from '../../protocol/session/reply.ts';
import { NotInPlan } from '../sessions/client-errors.ts';
import { messageAsTyped, planOrderBehind, type ReplayedEvent, replayEvents } from '../sessions/replay.ts';

/** One change of the plan. */
export type PlanHistoryEntry = {
  /** Its event number. */
  event: number;
  /** ISO 8601, UTC. */
  at: string;
  by: Actor;
  /** The sender who ordered it, if they have a name. */
  author?: string;
  /** The plan's revision before and after; the same if nothing was accepted. */
  from: number;
  to: number;
  /** What changed, one sentence each. */
  what: string[];
};

/** The history of one plan. */
type PlanHistory = {
  plan: Plan;
  entries: PlanHistoryEntry[];
  /** The plan at each revision in the event log. */
  versions: ReadonlyMap<number, Plan>;
};

type GrowingHistory = { entries: PlanHistoryEntry[]; versions: Map<number, Plan> };

/** The history of the current plan (else the last one); undefined if there was none yet. Pure. */
export function buildPlanHistory(name: string, events: readonly Event[]): PlanHistory | undefined {
  const histories = new Map<string, GrowingHistory>();
  let last: Plan | undefined;
  for (const replayed of replayEvents(name, events)) {
    const now = replayed.after.plan;
    last = now ?? last;
    const plan = now ?? replayed.before.plan;
    if (!plan) continue;
    const history: GrowingHistory = histories.get(plan.id) ?? { entries: [], versions: new Map() };
    histories.set(plan.id, history);
    if (now) history.versions.set(now.revision, now);
    const entry = historyEntry(replayed);
    if (entry) history.entries.push({ ...entry, from: planBefore(replayed, plan)?.revision ?? 0, to: plan.revision });
  }
  const history = last && histories.get(last.id);
  return last && history && { plan: last, ...history };
}

function planBefore({ before }: ReplayedEvent, { id }: Plan): Plan | undefined {
  return before.plan?.id === id ? before.plan : getOwn(before.shelvedPlans, id);
}

function historyEntry(replayed: ReplayedEvent): Omit<PlanHistoryEntry, 'from' | 'to'> | null {
  const { event } = replayed;
  const entry = (by: Actor, ...what: string[]) => ({ event: event.seq, at: event.at, by, what });
  switch (event.type) {
    case 'plan.started':
      return entry('daemon', `${event.id} started: ${event.goal}`);
    case 'plan.edited': {
      const order = isFromOutside(event.by) ? planOrderBehind(event, replayed) : null;
      const ignored = event.ignored.map((text) => `ignored: ${text}`);
      const what = [...describePlanChanges(event.changes), ...ignored, ...(order === null ? [] : [`by: ${order}`])];
      return { ...entry(event.by, ...what), ...(event.from !== undefined && { author: event.from }) };
    }
    case 'plan.ended':
      return entry(
        event.reason === RUN_END.asked ? 'person' : 'daemon',
        event.status === 'paused' ? 'it was shelved' : `it ended as ${event.status}: ${event.reason}`,
      );
    case 'run.resumed':
      return changedPlanStatus(replayed) ? entry(event.by, 'it resumed') : null;
    case 'run.ended': {
      const by = event.reason === RUN_END.asked || event.reason === RUN_END.stopped ? 'person' : 'daemon';
      return changedPlanStatus(replayed) ? entry(by, `it stopped as ${event.status}: ${event.reason}`) : null;
    }
    case 'step.added':
      return entry(event.by, `${event.step.id} was added: ${event.step.description}`);
    case 'step.started':
      return entry('daemon', `${event.step} started`);
    case 'step.progressed':
      return entry('model', `${event.step} is at ${event.progress.current} of ${event.progress.total}`);
    case 'step.completed':
      return entry(completionActor(event.by), withReason(`${event.step} was closed by ${event.by}`, event.evidence));
    case 'step.failed':
      return entry(event.by, withReason(`${event.step} failed`, event.error));
    case 'step.blocked':
      return entry(event.by, withReason(`${event.step} is blocked`, event.error));
    case 'step.skipped':
      return entry(event.by, withReason(`${event.step} was skipped`, event.reason));
    case 'step.reopened': {
      const message = event.message === undefined ? undefined : mapGet(replayed.after.messages, event.message);
      const order = message ? [`by: ${messageAsTyped(message)}`] : [];
      return entry(event.by, `${event.step} was reopened`, ...order);
    }
    default:
      return null;
  }
}

function withReason(what: string, why: string): string {
  return why.trim() === '' ? what : `${what}: ${why}`;
}

/** Whether an event changed the plan's own status. */
function changedPlanStatus({ before, after }: ReplayedEvent): boolean {
  return after.plan !== null && after.plan.status !== before.plan?.status;
}

function completionActor(by: string): Actor {
  return by === 'person' ? 'person' : by === 'timeout' ? 'daemon' : 'model';
}

/** One field that differs; `step` and `description` are null for a field of the plan, a value if it is missing. */
export type FieldChange = {
  step: string | null;
  description: string | null;
  field: string;
  from: unknown;
  to: unknown;
};

/** A change of the plan, with the fields that differ after it. */
export type PlanVersion = PlanHistoryEntry & { changes: FieldChange[] };

/** The newest `most` changes, oldest first, each with what differs after it. */
export function listPlanVersions(history: PlanHistory, most: number): PlanVersion[] {
  return history.entries.slice(-most).map((entry) => ({
    ...entry,
    changes:
      entry.from < entry.to ? diffPlans(planAtRevision(history, entry.from), planAtRevision(history, entry.to)) : [],
  }));
}

/** What changed between two revisions of a plan. */
export type PlanDiff = {
  plan: string;
  from: number;
  to: number;
  changes: FieldChange[];
  /** The changes in between, first to last. */
  entries: PlanHistoryEntry[];
};

const PLAN_FIELDS = ['goal', 'mode', 'status', 'reason', 'limits', 'iteration_count'] as const satisfies Array<
  keyof typeof Plan.shape
>;
const STEP_FIELDS = Step.keyof().options.filter((key) => key !== 'id');

/**
 * The differences between two revisions of a plan, and who made them. Without `to` up to now; without both, those of
 * the last change. A skipped revision (one event may advance several) is read as the one before it. Throws UserError if
 * a revision never existed.
 */
export function diffPlanRevisions(history: PlanHistory, from?: number, to?: number): PlanDiff {
  const { plan, entries } = history;
  const last = entries.findLast((entry) => entry.to > entry.from);
  const first = from ?? last?.from ?? 0;
  const second = to ?? (from === undefined ? last?.to : undefined) ?? plan.revision;
  for (const revision of [first, second]) {
    if (revision <= plan.revision) continue;
    throw new NotInPlan(`${plan.id} has revisions 1 to ${plan.revision}; there is no revision ${revision}.`);
  }
  if (first >= second)
    throw new UserError(`Expected an earlier and a later revision; ${first} is not before ${second}.`);
  return {
    plan: plan.id,
    from: first,
    to: second,
    changes: diffPlans(planAtRevision(history, first), planAtRevision(history, second)),
    entries: entries.filter((entry) => entry.to > first && entry.to <= second),
  };
}

/** The plan at a revision, or at the last one before it that is in the event log. */
export function planAtRevision({ versions }: Pick<PlanHistory, 'versions'>, revision: number): Plan | undefined {
  for (let at = revision; at > 0; at--) {
    const plan = versions.get(at);
    if (plan) return plan;
  }
  return undefined;
}

function diffPlans(from: Plan | undefined, to: Plan | undefined): FieldChange[] {
  const was = from?.steps ?? [];
  const is = to?.steps ?? [];
  const before = new Map(was.map((step) => [step.id, step]));
  const after = new Set(is.map((step) => step.id));
  return [
    ...diffFields(PLAN_FIELDS, null, from, to),
    ...diffFields(
      ['order'],
      null,
      { order: was.map(({ id }) => id).filter((id) => after.has(id)) },
      { order: is.map(({ id }) => id).filter((id) => before.has(id)) },
    ),
    ...is.flatMap((step) => {
      const old = before.get(step.id);
      if (!old) return [wholeStepChange(step, null, step)];
      return old === step ? [] : diffFields(STEP_FIELDS, step, old, step);
    }),
    ...was.filter(({ id }) => !after.has(id)).map((step) => wholeStepChange(step, step, null)),
  ];
}

function diffFields<K extends string>(
  fields: readonly K[],
  step: Step | null,
  from: { readonly [key in K]?: unknown } | undefined,
  to: { readonly [key in K]?: unknown } | undefined,
): FieldChange[] {
  return fields.flatMap((field): FieldChange[] => {
    const [was, is] = [from?.[field] ?? null, to?.[field] ?? null];
    if (JSON.stringify(was) === JSON.stringify(is)) return [];
    return [{ step: step?.id ?? null, description: step?.description ?? null, field, from: was, to: is }];
  });
}

/** A step that was added or removed. */
const wholeStepChange = ({ id, description }: Step, from: Step | null, to: Step | null): FieldChange => ({
  ...{ step: id, description, field: 'step' },
  from,
  to,
});
