import type { EventBody } from '../protocol/event.ts';
import type { Plan, Step } from '../protocol/plan.ts';
import { clip } from '../protocol/recorded.ts';
import { outlooksOf } from './outlook.ts';
import { lineOf, type Structure, structureOf } from './structure.ts';

/** Steps that change in one go: each change of a large plan takes its time, and other sessions come in between. */
export const AT_ONCE = 200;

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
  return skipped.length > 0 ? skipped.slice(0, AT_ONCE) : groupsOf(plan, replaced);
}

/** A step begins, and with its first part every group it is in. */
export function starting(plan: Plan, step: Step): EventBody[] {
  const groups = lineOf(step, structureOf(plan.steps)).slice(1).reverse();
  return [...groups.filter(({ status }) => status === 'pending'), step].map(({ id }) => ({
    type: 'step.started',
    step: id,
  }));
}

function groupsOf(plan: Plan, replacedIds: readonly string[]): EventBody[] {
  const replaced = new Set(replacedIds);
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
  replaced: ReadonlySet<string>,
): EventBody | null {
  const open = parts.some((part) => part.status === 'pending' || part.status === 'running');
  const isOpen = status === 'pending' || status === 'running' || status === 'blocked';
  if (open) return isOpen ? null : { type: 'step.reopened', step: id, by: 'daemon' };
  if (!isOpen || parts.some((part) => part.status === 'blocked')) return null;
  const failed = parts.filter((part) => part.status === 'failed' && !replaced.has(part.id));
  if (failed.length > 0) return failure(id, failed, 'failed');
  if (parts.every((part) => part.status === 'skipped'))
    return { type: 'step.skipped', step: id, reason: 'all its parts were skipped', by: 'daemon' };
  const spoilt = spoiltIn(structure, replaced);
  const lost = parts.filter((part) => spoilt.has(part.id));
  if (lost.length > 0) return failure(id, lost, 'could not be done');
  const result = parts.flatMap((part) => (part.result ? [`${part.description}: ${part.result}`] : [])).join('\n');
  const done = parts.filter((part) => part.status === 'completed').map((part) => part.id);
  return { type: 'step.completed', step: id, by: 'parts', evidence: done.join(', '), result: clip(result, 2000) };
}

function failure(step: string, parts: readonly Step[], how: string): EventBody {
  return { type: 'step.failed', step, error: `${parts.map(({ id }) => id).join(', ')} ${how}`, by: 'daemon' };
}

/**
 * Steps that were lost, and skipped ones that were because of them: one that a condition or a person left out is no loss. Found from
 * those that failed on, since a chain may be as long as the plan.
 */
function spoiltIn(structure: Structure, replaced: ReadonlySet<string>): ReadonlySet<string> {
  const behind = new Map<string, string[]>();
  for (const step of structure.byId.values()) {
    if (step.status !== 'skipped' || structure.undoes.has(step.id)) continue;
    for (const need of lineOf(step, structure).flatMap(({ needs = [] }) => needs)) {
      const others = behind.get(need);
      if (others) others.push(step.id);
      else behind.set(need, [step.id]);
    }
  }
  const spoilt = new Set<string>();
  const left = [...structure.byId.values()].flatMap(({ id, status }) =>
    status === 'failed' && !replaced.has(id) ? [id] : [],
  );
  for (let id = left.pop(); id !== undefined; id = left.pop()) {
    if (spoilt.has(id)) continue;
    spoilt.add(id);
    left.push(...(behind.get(id) ?? []));
  }
  return spoilt;
}
