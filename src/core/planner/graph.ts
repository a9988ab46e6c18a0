import type { Step } from '../../protocol/plan.ts';

/** Every other step that a step names, and in which field. */
export function namedBy({
  needs = [],
  when = [],
  rollback,
  parent,
  gather,
}: Pick<Step, 'needs' | 'when' | 'rollback' | 'parent' | 'gather'>): Array<[field: string, id: string]> {
  return [
    ...needs.map((id): [string, string] => ['needs', id]),
    ...when.map(({ step }): [string, string] => ['when', step]),
    ...(rollback === undefined ? [] : [['rollback', rollback] as [string, string]]),
    ...(parent === undefined ? [] : [['parent', parent] as [string, string]]),
    ...(gather === undefined ? [] : [['gather', gather.from] as [string, string]]),
  ];
}

type Node = { id: string; needs?: readonly string[] | undefined };

/** The steps of a ring, in the order they need each other; undefined where there is none. */
export function ringIn(steps: readonly Node[]): string[] | undefined {
  const needs = new Map(steps.map((step) => [step.id, step.needs ?? []]));
  const done = new Set<string>();
  for (const { id } of steps) {
    const ring = walk(id, [], needs, done);
    if (ring) return ring;
  }
  return undefined;
}

function walk(
  id: string,
  path: readonly string[],
  needs: ReadonlyMap<string, readonly string[]>,
  done: Set<string>,
): string[] | undefined {
  if (path.includes(id)) return path.slice(path.indexOf(id));
  if (done.has(id)) return undefined;
  for (const need of needs.get(id) ?? []) {
    const ring = walk(need, [...path, id], needs, done);
    if (ring) return ring;
  }
  done.add(id);
  return undefined;
}
