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

/** `of`: the step it stands for, where that has several nodes. */
type Node = { id: string; needs?: readonly string[] | undefined; of?: string };

/** The steps of a ring, in the order they need each other; undefined where there is none. */
export function ringIn(steps: readonly Node[]): string[] | undefined {
  return rings(steps).next().value ?? undefined;
}

/** Every ring once; rings that share a step count as one. */
export const ringsIn = (steps: readonly Node[]): string[][] => [...rings(steps)];

/** Depth first, without recursion: a chain may be as long as the plan. The steps of a ring that was found are left out from there on. */
function* rings(steps: readonly Node[]): Generator<string[], null> {
  const nodes = new Map(steps.map((step) => [step.id, step]));
  const done = new Set<string>();
  for (const { id: start } of steps) {
    const path = done.has(start) ? [] : [{ id: start, next: 0 }];
    const places = new Map([[start, 0]]);
    for (let at = path.at(-1); at; at = path.at(-1)) {
      const need = nodes.get(at.id)?.needs?.[at.next++];
      const place = need === undefined ? undefined : places.get(need);
      if (need === undefined || place !== undefined) {
        const ended = path.splice(place ?? path.length - 1);
        for (const { id } of ended) {
          done.add(id);
          places.delete(id);
        }
        if (place !== undefined) yield [...new Set(ended.map(({ id }) => nodes.get(id)?.of ?? id))];
      } else if (!done.has(need) && nodes.has(need)) {
        places.set(need, path.length);
        path.push({ id: need, next: 0 });
      }
    }
  }
  return null;
}
