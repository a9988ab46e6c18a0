import { UserError } from '../protocol/errors.ts';
import { type Plan, Step } from '../protocol/plan.ts';
import type { Deed, History } from './plan-history.ts';

/** One field that differs; `step` and `description` are null for a field of the plan, a value where it is not there. */
export type FieldChange = {
  step: string | null;
  description: string | null;
  field: string;
  from: unknown;
  to: unknown;
};

export type PlanDiff = {
  plan: string;
  from: number;
  to: number;
  changes: FieldChange[];
  /** What happened in between, first to last. */
  deeds: Deed[];
};

const PLAN_FIELDS = ['goal', 'mode', 'status', 'reason', 'limits', 'iteration_count'] as const satisfies Array<
  keyof typeof Plan.shape
>;
const STEP_FIELDS = Step.keyof().options.filter((key) => key !== 'id');

/**
 * What differs between two revisions of a plan, and who did it. Without `to` up to now; without both, what the last change did.
 * A revision that was passed over (one event may count several) is read as the one before it. Throws UserError where a
 * revision never was.
 */
export function planDiff({ plan, deeds, versions }: History, from?: number, to?: number): PlanDiff {
  const last = deeds.findLast((deed) => deed.to > deed.from);
  const first = from ?? last?.from ?? 0;
  const second = to ?? (from === undefined ? last?.to : undefined) ?? plan.revision;
  for (const revision of [first, second]) {
    if (revision <= plan.revision) continue;
    throw new UserError(`${plan.id} has revisions 1 to ${plan.revision}; there is no ${revision}.`);
  }
  if (first >= second) throw new UserError(`Wanted an earlier and a later revision; ${first} is not before ${second}.`);
  return {
    plan: plan.id,
    from: first,
    to: second,
    changes: changesBetween(versionAt(versions, first), versionAt(versions, second)),
    deeds: deeds.filter((deed) => deed.to > first && deed.to <= second),
  };
}

function versionAt(versions: ReadonlyMap<number, Plan>, revision: number): Plan | undefined {
  for (let at = revision; at > 0; at--) {
    const plan = versions.get(at);
    if (plan) return plan;
  }
  return undefined;
}

function changesBetween(from: Plan | undefined, to: Plan | undefined): FieldChange[] {
  const was = from?.steps ?? [];
  const is = to?.steps ?? [];
  const kept = (steps: readonly Step[], others: readonly Step[]) =>
    steps.map((step) => step.id).filter((id) => others.some((other) => other.id === id));
  return [
    ...fieldsOf(PLAN_FIELDS, null, from, to),
    ...fieldsOf(['order'], null, { order: kept(was, is) }, { order: kept(is, was) }),
    ...is.flatMap((step) => {
      const before = was.find((other) => other.id === step.id);
      return before ? fieldsOf(STEP_FIELDS, step, before, step) : [whole(step, null, step)];
    }),
    ...was.filter((step) => is.every((other) => other.id !== step.id)).map((step) => whole(step, step, null)),
  ];
}

function fieldsOf<K extends string>(
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
const whole = ({ id, description }: Step, from: Step | null, to: Step | null): FieldChange => ({
  ...{ step: id, description, field: 'step' },
  from,
  to,
});
