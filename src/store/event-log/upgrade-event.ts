import { getOwn, propertyOf } from '../../base/collections.ts';

/** What version 1 of the event log called the fields of each type of event, and what they are called now. */
const FIELD_NAMES: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  'run.started': { seal: 'nonce', beside: 'paused_plan' },
  'run.resumed': { seal: 'nonce' },
  'model.answered': { carried: 'delivered', consult: 'planner_query' },
  'approval.asked': { shows: 'display' },
  'step.claimed': { to: 'next_step' },
  'step.completed': { to: 'next_step' },
  'recovery.started': { against: 'crashes' },
};
const TYPE_NAMES: Readonly<Record<string, string>> = { 'run.rested': 'run.ended' };

/** An event of version 1 as this version writes it. Any other value is returned unchanged. */
export function upgradeEvent(value: unknown): unknown {
  const type = propertyOf(value, 'type');
  if (propertyOf(value, 'v') !== 1 || typeof value !== 'object' || value === null || typeof type !== 'string')
    return value;
  const names = new Map(Object.entries(getOwn(FIELD_NAMES, type) ?? {}));
  const fields = Object.entries(value).map(([key, field]) => [names.get(key) ?? key, upgradeSteps(key, field)]);
  return { ...Object.fromEntries(fields), v: 2, type: getOwn(TYPE_NAMES, type) ?? type };
}

/** Steps, alone, in a list or in changes to a plan. */
function upgradeSteps(key: string, field: unknown): unknown {
  if (key === 'steps' && Array.isArray(field)) return field.map(upgradeStep);
  if (key === 'changes' && Array.isArray(field))
    return field.map((change) => ('step' in Object(change) ? { ...change, step: upgradeStep(change.step) } : change));
  return key === 'step' ? upgradeStep(field) : field;
}

const upgradeStep = (step: unknown): unknown =>
  propertyOf(step, 'on_failed_part') === 'go_on' ? { ...Object(step), on_failed_part: 'continue' } : step;
