import { getOwn, isRecord, propertyOf } from '../../base/collections.ts';
import { firstFew, nearestName, truncate } from '../../base/strings.ts';
import { Step } from '../../protocol/session/plan.ts';

/**
 * The forms in which other programs write plans (TodoWrite, task-master, plain lists), as the form of `plan.json`. What
 * is in our form already, or in none that is known, stays as it is; so does an empty list, which may be an accident.
 */
export function readForeignPlan(raw: unknown): unknown {
  if (Array.isArray(raw)) return raw.length > 0 ? { steps: raw.map(readForeignStep) } : raw;
  if (!isRecord(raw)) return raw;
  const list =
    raw['steps'] === undefined ? LIST_KEYS.find((key) => Array.isArray(raw[key]) && raw[key].length > 0) : 'steps';
  const steps = list === undefined ? undefined : raw[list];
  return Array.isArray(steps) ? { ...raw, steps: steps.map(readForeignStep) } : raw;
}

const LIST_KEYS = ['todos', 'tasks', 'items'] as const;
const TEXT_KEYS = ['title', 'content', 'task', 'text', 'name'] as const;
const NEED_KEYS = ['dependencies', 'depends_on', 'dependsOn'] as const;

/** What others call a status, lower case and without separators. */
const STATUSES: Readonly<Record<string, string>> = {
  ...{ done: 'completed', complete: 'completed', finished: 'completed', closed: 'completed' },
  ...{ open: 'pending', todo: 'pending', inprogress: 'pending', deferred: 'pending', review: 'pending' },
  ...{ cancelled: 'skipped', canceled: 'skipped', wontfix: 'skipped' },
};
const OURS: ReadonlySet<string> = new Set(['pending', 'running', 'completed', 'failed', 'blocked', 'skipped']);

function readForeignStep(step: unknown): unknown {
  if (typeof step === 'string') return { description: step };
  if (!isRecord(step)) return step;
  const text = TEXT_KEYS.map((key) => step[key]).find((value) => typeof value === 'string');
  const needs = step['needs'] ?? NEED_KEYS.map((key) => step[key]).find(Array.isArray);
  const status = statusOf(step);
  return {
    ...step,
    ...(step['description'] === undefined && text !== undefined && { description: text }),
    ...(typeof step['id'] === 'number' && { id: String(step['id']) }),
    ...(Array.isArray(needs) && {
      needs: needs.map((need: unknown) => (typeof need === 'number' ? String(need) : need)),
    }),
    ...(status !== undefined && { status }),
  };
}

/** The status in our words; as it is written where no word is known for it. */
function statusOf({ status, done, completed }: Readonly<Record<string, unknown>>): unknown {
  if (status === undefined) return done === true || completed === true ? 'completed' : undefined;
  if (typeof status !== 'string') return status;
  const word = status.toLowerCase().replace(/[\s_-]/g, '');
  return OURS.has(word) ? word : (getOwn(STATUSES, word) ?? status);
}

/** What steps of a save say that no step has: a line for each key, with the key that may be meant. */
export function describeUnknownKeys({ steps }: Readonly<Record<string, unknown>>): string[] {
  const found = new Map<string, string[]>();
  for (const step of Array.isArray(steps) ? steps.filter(isRecord) : [])
    for (const key of Object.keys(step).filter((one) => !(one in Step.shape) && !isRead(step, one))) {
      const of = found.get(key) ?? [];
      found.set(key, of);
      of.push(truncate(String(step['id'] ?? step['description']), 40));
    }
  return [...found].map(([key, of]) => {
    const meant = TEXT_KEYS.some((one) => one === key) ? 'description' : nearestName(key, Object.keys(Step.shape));
    const hint = meant === undefined ? '' : `; did you mean "${meant}"?`;
    return `"${truncate(key, 40)}" is not a field of a step (${firstFew(of, 3).join(', ')})${hint}`;
  });
}

/** Whether it was read as one of our fields. */
function isRead(of: object, key: string): boolean {
  const given = propertyOf(of, key);
  if (key === 'done' || key === 'completed') return typeof given === 'boolean';
  if (NEED_KEYS.some((one) => one === key)) return Array.isArray(propertyOf(of, 'needs'));
  return TEXT_KEYS.some((one) => one === key) && given === propertyOf(of, 'description');
}
