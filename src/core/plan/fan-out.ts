import { truncate } from '../../base/strings.ts';
import type { Plan, Step } from '../../protocol/session/plan.ts';

/** A step that is never worked on itself: steps of its own are made for it, and its end follows from theirs. */
export const isFanOutStep = (step: Step): boolean => step.each !== undefined || step.gather !== undefined;

/** The step at work that has parts. */
export function runningFanOutStep(plan: Plan | null): Step | undefined {
  return plan?.steps.find((step) => step.status === 'running' && isFanOutStep(step));
}

/** The step that this one is a part of; undefined where it stands for itself. */
export function fanOutStepOf(plan: Plan | null, { parent }: Step): Step | undefined {
  const fanOutStep = parent === undefined ? undefined : plan?.steps.find((step) => step.id === parent);
  return fanOutStep && isFanOutStep(fanOutStep) ? fanOutStep : undefined;
}

export const partsOf = (plan: Plan, id: string): Step[] => plan.steps.filter((step) => step.parent === id);

export const isFailedOrBlocked = ({ status }: Step): boolean => status === 'failed' || status === 'blocked';

/** More parts than these are told as a count, with those that stand out by name. */
const MAX_PARTS_LISTED = 12;

/** The steps worth a line each: of many parts only those at work and the first that were lost. */
export function stepsToShow(plan: Plan): Step[] {
  const many = new Map<string, Step[]>();
  for (const fanOutStep of plan.steps.filter(isFanOutStep)) {
    const parts = partsOf(plan, fanOutStep.id);
    if (parts.length > MAX_PARTS_LISTED) many.set(fanOutStep.id, parts);
  }
  if (many.size === 0) return plan.steps;
  const told = new Set(
    [...many.values()].flatMap((parts) => parts.filter(isFailedOrBlocked).slice(0, MAX_PARTS_NAMED)),
  );
  return plan.steps.flatMap((step) => {
    if (step.parent !== undefined && many.has(step.parent))
      return step.status === 'running' || told.has(step) ? [step] : [];
    const parts = many.get(step.id);
    if (!parts) return [step];
    const current = parts.filter((part) => part.status === 'completed').length;
    return [{ ...step, progress: { current, total: parts.length } }];
  });
}

/** Parts named in a text; the others are counted. */
const MAX_PARTS_NAMED = 20;

/** Steps in a list for a person or a model, each with why it was lost; of many, the first. */
export function describeParts(parts: readonly Step[]): string {
  const named = parts.slice(0, MAX_PARTS_NAMED).map((part) => `${part.id} (${partLabel(part)})${errorSuffix(part)}`);
  const more = parts.length - named.length;
  return [...named, ...(more > 0 ? [`… +${more}`] : [])].join('; ');
}

const errorSuffix = ({ error }: Step): string => (error ? `: ${truncate(error.trim().split('\n')[0] ?? '', 160)}` : '');

/** What a part is called: the file or entry it is done for, else what it does. */
export function partLabel({ part = [], description }: Step): string {
  if (part.length === 0) return truncate(description, 120);
  const first = truncate(quoteIfNeeded(part[0] ?? ''), 120);
  return part.length === 1 ? first : `${first} … ${truncate(quoteIfNeeded(part.at(-1) ?? ''), 120)}, ${part.length}`;
}

/** A name as it is where it fits on a line, else as JSON writes it. */
export function quoteIfNeeded(name: string): string {
  return /[\p{Cc}"\u2028\u2029]|^\s|\s$/u.test(name) ? JSON.stringify(name) : name;
}

/** What an outcome counts for where there is none: nothing would let it slip into a batch that is full (JManus). */
export const MISSING_OUTCOME_SIZE = 100;

/**
 * Puts items together in their order, as many in each batch as fit into `limit`. One that is larger stands alone; none
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
