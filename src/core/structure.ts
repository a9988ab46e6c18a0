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

/** Steps by a key each has, or has not. */
export function gathered(steps: readonly Step[], keyOf: (step: Step) => string | undefined): Map<string, Step[]> {
  const groups = new Map<string, Step[]>();
  for (const step of steps) {
    const key = keyOf(step);
    if (key === undefined || key === step.id) continue;
    const group = groups.get(key);
    if (group) group.push(step);
    else groups.set(key, [step]);
  }
  return groups;
}

const knownGroups = new WeakMap<readonly Step[], ReadonlySet<string>>();
const askedOnce = new WeakSet<readonly Step[]>();

/** Other steps name it as their `parent`. Of each version of a plan a single step is asked about; a list is indexed for the second. */
export function isGroup(steps: readonly Step[], id: string): boolean {
  const known = knownGroups.get(steps);
  if (known) return known.has(id);
  if (!askedOnce.has(steps)) {
    askedOnce.add(steps);
    return (
      isGroupOf(steps.find((step) => step.id === id)) && steps.some((step) => step.parent === id && step.id !== id)
    );
  }
  const groups = new Set(structureOf(steps).parts.keys());
  knownGroups.set(steps, groups);
  return groups.has(id);
}

/** The steps with one of them changed. Where it hangs together with the others as before, what is known of that stays known. */
export function withChanged(steps: readonly Step[], id: string, change: (step: Step) => Step): Step[] {
  const groups = knownGroups.get(steps);
  let isSame = groups !== undefined;
  const changed = steps.map((step) => {
    if (step.id !== id) return step;
    const next = change(step);
    isSame &&= next.parent === step.parent && next.each === step.each && next.gather === step.gather;
    return next;
  });
  if (groups && isSame) knownGroups.set(changed, groups);
  return changed;
}

/** The step and the groups it is in, the innermost first. A ring of parents ends where it closes. */
export function lineOf(step: Step, { byId }: Structure): Step[] {
  const line = new Set<Step>();
  for (let at: Step | undefined = step; at && !line.has(at); at = byId.get(at.parent ?? '')) line.add(at);
  return [...line];
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

/**
 * Each step with all that has to end before it can: for looking for rings. What a group waits for stands once, at the node of
 * its beginning, which its parts need: a thousand parts of a group with a thousand needs are no million.
 */
export function nodesOf(steps: readonly Step[]): Array<{ id: string; needs: string[]; of?: string }> {
  const { byId, parts, undoes } = structureOf(steps);
  const idsOf = (some: readonly Step[] = []) => some.map(({ id }) => id);
  return steps.flatMap((step) => {
    const group = byId.get(step.parent ?? '');
    const before = [...waitsFor(step), ...(group ? [beginOf(group)] : [])];
    const after = [...idsOf(parts.get(step.id)), ...idsOf(undoes.get(step.id))];
    return [
      { id: step.id, needs: [beginOf(step), ...after] },
      { id: beginOf(step), needs: before, of: step.id },
    ];
  });
}

const BEGINS = '\u0000begins ';
const beginOf = ({ id }: Step): string => `${BEGINS}${id}`;
