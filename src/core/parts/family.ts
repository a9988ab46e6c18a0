import { own } from '../../protocol/own.ts';
import type { Plan, Step } from '../../protocol/plan.ts';
import { clip } from '../../protocol/recorded.ts';
import type { Session } from '../session.ts';

/** A step that is never worked on itself: steps of its own are made for it, and its end follows from theirs. */
export const isWhole = (step: Step): boolean => step.each !== undefined || step.gather !== undefined;

/** The step at work that has parts. */
export function wholeAtWork(plan: Plan | null): Step | undefined {
  return plan?.steps.find((step) => step.status === 'running' && isWhole(step));
}

/** The step that this one is a part of; undefined where it stands for itself. */
export function wholeOf(plan: Plan | null, { parent }: Step): Step | undefined {
  const whole = parent === undefined ? undefined : plan?.steps.find((step) => step.id === parent);
  return whole && isWhole(whole) ? whole : undefined;
}

export const partsOf = (plan: Plan, id: string): Step[] => plan.steps.filter((step) => step.parent === id);

export const isLost = ({ status }: Step): boolean => status === 'failed' || status === 'blocked';

/** More parts than these are told as a count, with those that stand out by name. */
const FEW = 12;

/** The steps worth a line each: of many parts only those at work and the first that were lost. */
export function shownSteps(plan: Plan): Step[] {
  const many = new Map<string, Step[]>();
  for (const whole of plan.steps.filter(isWhole)) {
    const parts = partsOf(plan, whole.id);
    if (parts.length > FEW) many.set(whole.id, parts);
  }
  if (many.size === 0) return plan.steps;
  const told = new Set([...many.values()].flatMap((parts) => parts.filter(isLost).slice(0, NAMED)));
  return plan.steps.flatMap((step) => {
    if (step.parent !== undefined && many.has(step.parent))
      return step.status === 'running' || told.has(step) ? [step] : [];
    const parts = many.get(step.id);
    if (!parts) return [step];
    const current = parts.filter((part) => part.status === 'completed').length;
    return [{ ...step, progress: { current, total: parts.length } }];
  });
}

/** Everything a step came to: what its child answered, whole, else the result in the plan. */
export function outcomeOf({ children }: Session, { id, result }: Step): string {
  const reply = own(children, id)?.reply;
  return reply?.status === 'done' ? reply.text.trim() : (result ?? '');
}

/** Parts named in a text; the others are counted. */
const NAMED = 20;

/** Steps in a list for a person or a model, each with why it was lost; of many, the first. */
export function namedParts(parts: readonly Step[]): string {
  const named = parts.slice(0, NAMED).map((part) => `${part.id} (${partName(part)})${because(part)}`);
  const more = parts.length - named.length;
  return [...named, ...(more > 0 ? [`… +${more}`] : [])].join('; ');
}

const because = ({ error }: Step): string => (error ? `: ${clip(error.trim().split('\n')[0] ?? '', 160)}` : '');

/** What a part is called: the file or entry it is done for, else what it does. */
export function partName({ part = [], description }: Step): string {
  if (part.length === 0) return clip(description, 120);
  const first = clip(quotedName(part[0] ?? ''), 120);
  return part.length === 1 ? first : `${first} … ${clip(quotedName(part.at(-1) ?? ''), 120)}, ${part.length}`;
}

/** A name as it is where it fits on a line, else as JSON writes it. */
export function quotedName(name: string): string {
  return /[\p{Cc}"\u2028\u2029]|^\s|\s$/u.test(name) ? JSON.stringify(name) : name;
}
