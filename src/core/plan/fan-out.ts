import { truncate } from '../../base/strings.ts';
import type { Plan, Step } from '../../protocol/session/plan.ts';

/** A step that is never worked on itself: further steps are created for it, and its end follows from theirs. */
export const isFanOutStep = ({ each, gather }: Pick<Step, 'each' | 'gather'>): boolean =>
  each !== undefined || gather !== undefined;

/** The running step that has items. */
export function runningFanOutStep(plan: Plan | null): Step | undefined {
  return plan?.steps.find((step) => step.status === 'running' && isFanOutStep(step));
}

/** The step of which this one is an item; undefined if it stands alone. */
export function fanOutStepOf(plan: Plan | null, { parent }: Step): Step | undefined {
  const fanOutStep = parent === undefined ? undefined : plan?.steps.find((step) => step.id === parent);
  return fanOutStep && isFanOutStep(fanOutStep) ? fanOutStep : undefined;
}

export const partsOf = (plan: Plan, id: string): Step[] => plan.steps.filter((step) => step.parent === id);

export const isFailedOrBlocked = ({ status }: Step): boolean => status === 'failed' || status === 'blocked';

/** More items than this are summarised as a count, with the notable ones by name. */
const MAX_PARTS_LISTED = 12;

/** The steps that get a line each: of many items only those running and the first that failed. */
export function stepsToShow(plan: Plan): Step[] {
  const many = new Map<string, Step[]>();
  for (const fanOutStep of plan.steps.filter(isFanOutStep)) {
    const parts = partsOf(plan, fanOutStep.id);
    if (parts.length > MAX_PARTS_LISTED) many.set(fanOutStep.id, parts);
  }
  if (many.size === 0) return plan.steps;
  const reported = new Set(
    [...many.values()].flatMap((parts) => parts.filter(isFailedOrBlocked).slice(0, MAX_PARTS_NAMED)),
  );
  return plan.steps.flatMap((step) => {
    if (step.parent !== undefined && many.has(step.parent))
      return step.status === 'running' || reported.has(step) ? [step] : [];
    const parts = many.get(step.id);
    if (!parts) return [step];
    const current = parts.filter((part) => part.status === 'completed').length;
    return [{ ...step, progress: { current, total: parts.length } }];
  });
}

/** Items named in a text; the rest are counted. */
const MAX_PARTS_NAMED = 20;

/** Steps in a list for a person or a model, each with why it failed; of many, the first. */
export function describeParts(parts: readonly Step[]): string {
  const named = parts.slice(0, MAX_PARTS_NAMED).map((part) => `${part.id} (${partLabel(part)})${errorSuffix(part)}`);
  const more = parts.length - named.length;
  return [...named, ...(more > 0 ? [`… +${more}`] : [])].join('; ');
}

const errorSuffix = ({ error }: Step): string => (error ? `: ${truncate(error.trim().split('\n')[0] ?? '', 160)}` : '');

/** The name of an item: its file or entry, else its description. */
export function partLabel({ part = [], description }: Step): string {
  if (part.length === 0) return truncate(description, 120);
  const first = truncate(quoteIfNeeded(part[0] ?? ''), 120);
  return part.length === 1 ? first : `${first} … ${truncate(quoteIfNeeded(part.at(-1) ?? ''), 120)}, ${part.length}`;
}

/** A name unchanged if it fits on a line, else as JSON. */
export function quoteIfNeeded(name: string): string {
  return /[\p{Cc}"\u2028\u2029]|^\s|\s$/u.test(name) ? JSON.stringify(name) : name;
}

/** The size of a missing outcome: at zero it would slip into a batch that is full (JManus). */
export const MISSING_OUTCOME_SIZE = 100;

/**
 * Packs items into batches in order, as many per batch as fit into `limit`. A larger item gets a batch of its own; none
 * is split and no batch is empty (as JManus fills them).
 */
export function packIntoBatches<T>(items: readonly T[], sizeOf: (item: T) => number, limit: number): T[][] {
  const batches: T[][] = [];
  let room = 0;
  for (const item of items) {
    const size = sizeOf(item);
    const last = batches.at(-1);
    if (last && size <= room) {
      last.push(item);
      room -= size;
    } else {
      batches.push([item]);
      room = limit - size;
    }
  }
  return batches;
}
