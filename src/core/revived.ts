import type { Step } from '../protocol/plan.ts';
import { causeOf } from './outlook.ts';
import { without } from './steps.ts';
import { gathered, lineOf, structureOf } from './structure.ts';

/**
 * The steps as they are once some have been opened again: what was skipped because of them comes back with them, and what that held
 * back in turn; a step that undoes one of them may be needed once more; groups around them are open again.
 */
export function revived(steps: readonly Step[], opened: ReadonlySet<string>): Step[] {
  const structure = structureOf(steps);
  const behind = gathered(steps, causeOf);
  const back = new Set<string>();
  for (const left = [...opened]; left.length > 0; )
    for (const { id } of behind.get(left.pop() ?? '') ?? []) {
      if (opened.has(id) || back.has(id)) continue;
      back.add(id);
      left.push(id);
    }
  const again = steps.filter((step) => opened.has(step.id) || back.has(step.id));
  const undos = new Set(again.flatMap(({ rollback }) => (rollback === undefined ? [] : [rollback])));
  const groups = new Set(again.flatMap((step) => lineOf(step, structure).slice(1)).map(({ id }) => id));
  return steps.map((step) => {
    if (opened.has(step.id)) return step;
    const open = step.status === 'pending' || step.status === 'running';
    if (groups.has(step.id)) return open ? step : { ...bare(step), status: 'running' as const };
    return (back.has(step.id) || undos.has(step.id)) && !open ? { ...bare(step), status: 'pending' as const } : step;
  });
}

/** Without what an earlier go at it came to. */
export const bare = (step: Step): Step =>
  without(step, 'result', 'completed_by', 'evidence', 'completed_at', 'error', 'attachments');
