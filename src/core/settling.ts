import type { EventBody } from '../protocol/event.ts';
import type { Plan, Step } from '../protocol/plan.ts';
import { clip } from '../protocol/recorded.ts';
import { outlooksOf } from './outlook.ts';
import { lineOf, type Structure, structureOf } from './structure.ts';

/**
 * What follows from the plan alone, before more of it begins: steps that never will are skipped, with the reason, and groups end
 * with their parts. `replaced`: failed steps in whose place others were planned.
 */
export function settling(plan: Plan, replaced: readonly string[]): EventBody[] {
  const outlooks = outlooksOf(plan.steps);
  const skipped = plan.steps.flatMap((step): EventBody[] => {
    const outlook = outlooks.get(step.id);
    return outlook?.is === 'lost' ? [{ type: 'step.skipped', step: step.id, reason: outlook.why, by: 'daemon' }] : [];
  });
  return skipped.length > 0 ? skipped : groupsOf(plan, replaced);
}

/** A step begins, and with its first part every group it is in. */
export function starting(plan: Plan, step: Step): EventBody[] {
  const groups = lineOf(step, structureOf(plan.steps)).slice(1).reverse();
  return [...groups.filter(({ status }) => status === 'pending'), step].map(({ id }) => ({
    type: 'step.started',
    step: id,
  }));
}

function groupsOf(plan: Plan, replaced: readonly string[]): EventBody[] {
  const structure = structureOf(plan.steps);
  for (const [id, parts] of structure.parts) {
    const group = structure.byId.get(id);
    const event = group && ofGroup(group, parts, structure, replaced);
    if (event) return [event];
  }
  return [];
}

/** A group whose parts have ended ends as they did; one that has a part open again is open again. */
function ofGroup(
  { id, status }: Step,
  parts: readonly Step[],
  structure: Structure,
  replaced: readonly string[],
): EventBody | null {
  const open = parts.some((part) => part.status === 'pending' || part.status === 'running');
  const isOpen = status === 'pending' || status === 'running' || status === 'blocked';
  if (open) return isOpen ? null : { type: 'step.reopened', step: id, by: 'daemon' };
  if (!isOpen || parts.some((part) => part.status === 'blocked')) return null;
  const failed = parts.filter((part) => part.status === 'failed' && !replaced.includes(part.id));
  if (failed.length > 0) return failure(id, failed, 'failed');
  if (parts.every((part) => part.status === 'skipped'))
    return { type: 'step.skipped', step: id, reason: 'all its parts were skipped', by: 'daemon' };
  const lost = parts.filter((part) => isSpoilt(part, structure, replaced));
  if (lost.length > 0) return failure(id, lost, 'could not be done');
  const result = parts.flatMap((part) => (part.result ? [`${part.description}: ${part.result}`] : [])).join('\n');
  const done = parts.filter((part) => part.status === 'completed').map((part) => part.id);
  return { type: 'step.completed', step: id, by: 'parts', evidence: done.join(', '), result: clip(result, 2000) };
}

function failure(step: string, parts: readonly Step[], how: string): EventBody {
  return { type: 'step.failed', step, error: `${parts.map(({ id }) => id).join(', ')} ${how}`, by: 'daemon' };
}

/** A skipped step is no loss where a condition or a person left it out; it is one where something before it failed. */
function isSpoilt(step: Step, structure: Structure, replaced: readonly string[], seen = new Set<string>()): boolean {
  if (seen.has(step.id)) return false;
  seen.add(step.id);
  if (step.status === 'failed') return !replaced.includes(step.id);
  if (step.status !== 'skipped' || structure.undoes.has(step.id)) return false;
  const needed = lineOf(step, structure).flatMap(({ needs = [] }) => needs);
  return needed.some((id) => {
    const other = structure.byId.get(id);
    return other !== undefined && isSpoilt(other, structure, replaced, seen);
  });
}
