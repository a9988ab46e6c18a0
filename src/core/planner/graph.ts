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
