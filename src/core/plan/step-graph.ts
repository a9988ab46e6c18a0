import type { Plan, Step } from '../../protocol/session/plan.ts';

/** The relations between the steps of a plan, independent of their progress. */
export type StepGraph = {
  byId: ReadonlyMap<string, Step>;
  /** The steps of each group. A group is not worked on itself. */
  members: ReadonlyMap<string, readonly Step[]>;
  /** By the id of a rollback step: the steps that name it as their `rollback`. */
  rollbackTargets: ReadonlyMap<string, readonly Step[]>;
};

/** A step that runs once for each item has a start and an end of its own. */
const canBeGroup = (step: Step | undefined): boolean => step !== undefined && !step.each && !step.gather;

const graphCache = new WeakMap<readonly Step[], StepGraph>();

/** Plans are immutable, so each list of steps is indexed once. */
export function stepGraph(steps: readonly Step[]): StepGraph {
  const before = graphCache.get(steps);
  if (before) return before;
  const byId = new Map(steps.map((step) => [step.id, step]));
  const graph = {
    byId,
    members: groupStepsBy(steps, (step) => (canBeGroup(byId.get(step.parent ?? '')) ? step.parent : undefined)),
    rollbackTargets: groupStepsBy(steps, (step) => step.rollback),
  };
  graphCache.set(steps, graph);
  return graph;
}

/** Groups steps by an optional key. */
export function groupStepsBy(steps: readonly Step[], keyOf: (step: Step) => string | undefined): Map<string, Step[]> {
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

const groupCache = new WeakMap<readonly Step[], ReadonlySet<string>>();
const askedOnce = new WeakSet<readonly Step[]>();

/**
 * Whether other steps name it as their `parent`. Most plan versions are asked about a single step; a list is indexed at
 * the second question.
 */
export function isGroup(steps: readonly Step[], id: string): boolean {
  const known = groupCache.get(steps);
  if (known) return known.has(id);
  if (!askedOnce.has(steps)) {
    askedOnce.add(steps);
    return (
      canBeGroup(steps.find((step) => step.id === id)) && steps.some((step) => step.parent === id && step.id !== id)
    );
  }
  const groups = new Set(stepGraph(steps).members.keys());
  groupCache.set(steps, groups);
  return groups.has(id);
}

/** The steps with one of them changed. If its relations to the others stay the same, the index is kept. */
export function replaceStep(steps: readonly Step[], id: string, change: (step: Step) => Step): Step[] {
  const groups = groupCache.get(steps);
  let isSame = groups !== undefined;
  const changed = steps.map((step) => {
    if (step.id !== id) return step;
    const next = change(step);
    isSame &&= next.parent === step.parent && next.each === step.each && next.gather === step.gather;
    return next;
  });
  if (groups && isSame) groupCache.set(changed, groups);
  return changed;
}

/** The step and its groups, innermost first. Stops at a cycle of parents. */
export function stepWithGroups(step: Step, { byId }: StepGraph): Step[] {
  const line = new Set<Step>();
  for (let at: Step | undefined = step; at && !line.has(at); at = byId.get(at.parent ?? '')) line.add(at);
  return [...line];
}

/** The groups around a step, innermost first. */
export function groupsAround(steps: readonly Step[], id: string): Step[] {
  const graph = stepGraph(steps);
  const step = graph.byId.get(id);
  return step ? stepWithGroups(step, graph).slice(1) : [];
}

/** The rollback step among the step and its groups, innermost first; undefined if there is none. */
export function rollbackStepAround(step: Step, graph: StepGraph): Step | undefined {
  return stepWithGroups(step, graph).find((one) => graph.rollbackTargets.has(one.id));
}

/** Steps whose end a step explicitly waits for. */
const awaitedSteps = ({ needs = [], when = [], gather }: Step): string[] => [
  ...needs,
  ...when.map(({ step }) => step),
  ...(gather ? [gather.from] : []),
];

/**
 * Each step with everything that has to end before it can, to search for cycles. What a group waits for stands once, at
 * the node of its start, which its steps need: a thousand steps in a group with a thousand needs do not become a
 * million.
 */
export function dependencyNodes(steps: readonly Step[]): Array<{ id: string; needs: string[]; of?: string }> {
  const { byId, members, rollbackTargets } = stepGraph(steps);
  const idsOf = (some: readonly Step[] = []) => some.map(({ id }) => id);
  return steps.flatMap((step) => {
    const group = byId.get(step.parent ?? '');
    const before = [...awaitedSteps(step), ...(group ? [beginNodeOf(group)] : [])];
    const after = [...idsOf(members.get(step.id)), ...idsOf(rollbackTargets.get(step.id))];
    return [
      { id: step.id, needs: [beginNodeOf(step), ...after] },
      { id: beginNodeOf(step), needs: before, of: step.id },
    ];
  });
}

const BEGIN_NODE = '\u0000begins ';
const beginNodeOf = ({ id }: Step): string => `${BEGIN_NODE}${id}`;

/** Every other step that a step names, and in which field. */
export function stepReferences({
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

/** `of`: the step it stands for, if that has several nodes. */
type DependencyNode = { id: string; needs?: readonly string[] | undefined; of?: string };

/** The steps of a cycle, in the order they need each other; undefined if there is none. */
export function findCycle(steps: readonly DependencyNode[]): string[] | undefined {
  return generateCycles(steps).next().value ?? undefined;
}

/** Every cycle once; cycles that share a step count as one. */
export const findCycles = (steps: readonly DependencyNode[]): string[][] => [...generateCycles(steps)];

/**
 * Depth first, without recursion: a chain may be as long as the plan. The steps of a cycle that was found are left out
 * from then on.
 */
function* generateCycles(steps: readonly DependencyNode[]): Generator<string[], null> {
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

/** How many steps of a plan are completed. */
export function countCompletedSteps(plan: Plan): number {
  return plan.steps.filter((step) => step.status === 'completed').length;
}
