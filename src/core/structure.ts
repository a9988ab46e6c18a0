import type { Step } from '../protocol/plan.ts';

/** How the steps of a plan hang together, apart from how far each has come. */
export type Structure = {
  byId: ReadonlyMap<string, Step>;
  /** The parts of each step that has some. Such a step is a group: it is not worked on itself. */
  parts: ReadonlyMap<string, readonly Step[]>;
  /** By the id of a step that undoes: the steps that name it as their `rollback`. */
  undoes: ReadonlyMap<string, readonly Step[]>;
};

/** A step that is done once for each part has a beginning and an end of its own. */
const isGroupOf = (step: Step | undefined): boolean => step !== undefined && !step.each && !step.gather;

const known = new WeakMap<readonly Step[], Structure>();

/** Plans never change in place, so each list of steps is looked at once. */
export function structureOf(steps: readonly Step[]): Structure {
  const before = known.get(steps);
  if (before) return before;
  const byId = new Map(steps.map((step) => [step.id, step]));
  const structure = {
    byId,
    parts: gathered(steps, (step) => (isGroupOf(byId.get(step.parent ?? '')) ? step.parent : undefined)),
    undoes: gathered(steps, (step) => step.rollback),
  };
  known.set(steps, structure);
  return structure;
}

function gathered(steps: readonly Step[], keyOf: (step: Step) => string | undefined): Map<string, Step[]> {
  const groups = new Map<string, Step[]>();
  for (const step of steps) {
    const key = keyOf(step);
    if (key !== undefined && key !== step.id) groups.set(key, [...(groups.get(key) ?? []), step]);
  }
  return groups;
}

/** Other steps name it as their `parent`. */
export const isGroup = (steps: readonly Step[], id: string): boolean => structureOf(steps).parts.has(id);

/** The step and the groups it is in, the innermost first. A ring of parents ends where it closes. */
export function lineOf(step: Step, { byId }: Structure): Step[] {
  const line: Step[] = [];
  for (let at: Step | undefined = step; at && !line.includes(at); at = byId.get(at.parent ?? '')) line.push(at);
  return line;
}

/** The step that must fail before this one runs is named by what this one, or a group it is in, undoes. */
export function undoOf(step: Step, structure: Structure): Step | undefined {
  return lineOf(step, structure).find((one) => structure.undoes.has(one.id));
}

/** Steps whose end a step waits for by its own words. */
const waitsFor = ({ needs = [], when = [], gather }: Step): string[] => [
  ...needs,
  ...when.map(({ step }) => step),
  ...(gather ? [gather.from] : []),
];

/** Each step with all that has to end before it can: for looking for rings. */
export function nodesOf(steps: readonly Step[]): Array<{ id: string; needs: string[] }> {
  const structure = structureOf(steps);
  return steps.map((step) => ({
    id: step.id,
    needs: [
      ...lineOf(step, structure).flatMap(waitsFor),
      ...(structure.parts.get(step.id) ?? []).map(({ id }) => id),
      ...(structure.undoes.get(step.id) ?? []).map(({ id }) => id),
    ],
  }));
}
