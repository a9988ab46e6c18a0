import type { Plan, Step } from '../../../protocol/session/plan.ts';

/** The state shown for a step: if the plan is not worked on, its current step is not shown as running. */
export type StepState = Step['status'] | 'paused' | 'waiting' | 'cancelled';

export function stepState(plan: Pick<Plan, 'status'>, { status }: Pick<Step, 'status'>): StepState {
  if (status !== 'running' || plan.status === 'running') return status;
  return plan.status === 'cancelled' || plan.status === 'waiting' ? plan.status : 'paused';
}

/** The relations between steps that are drawn as lines. */
export const EDGE_KINDS = ['needs', 'when', 'gather', 'order', 'rollback', 'child'] as const;
export type EdgeKind = (typeof EDGE_KINDS)[number];

/** `more` represents the parts of a step that are left out, with how many there are in each state. */
export type GraphNode = { id: string; group: string | undefined } & (
  | { kind: 'step'; step: Step; state: StepState; place: number }
  | { kind: 'child'; session: string }
  | { kind: 'more'; counts: ReadonlyArray<readonly [StepState, number]>; total: number }
);
/** `cause` is the step that comes first, `effect` the one that waits for it. */
export type GraphEdge = { kind: EdgeKind; cause: string; effect: string };
/** A step together with its parts; `within`: the enclosing group. */
type GraphGroup = { id: string; within: string | undefined };
/** The plan as a graph. A step with parts is in its own group. */
export type PlanGraph = { nodes: GraphNode[]; edges: GraphEdge[]; groups: GraphGroup[] };

/** Further parts of a step are shown as one node, so that a step for each of a thousand files stays readable. */
const MOST_PARTS = 8;

export function planGraph(plan: Pick<Plan, 'steps' | 'mode' | 'status'>): PlanGraph {
  const { steps, mode } = plan;
  const partsOf = groupBy(steps, groupsIn(steps));
  const shown = new Set<string>();
  const nodes: GraphNode[] = [];
  const edges: GraphEdge[] = [];
  const groups: GraphGroup[] = [];
  const add = (group: string | undefined): void => {
    const parts = partsOf.get(group) ?? [];
    const kept = group === undefined ? parts : chooseParts(parts);
    for (const step of parts.filter((one) => kept.includes(one))) {
      if (shown.has(step.id)) continue;
      shown.add(step.id);
      const within = partsOf.has(step.id) ? step.id : group;
      const state = stepState(plan, step);
      nodes.push({ id: step.id, group: within, kind: 'step', step, state, place: steps.indexOf(step) + 1 });
      if (step.child !== undefined) {
        nodes.push({ id: childNodeId(step.id), group: within, kind: 'child', session: step.child });
        edges.push({ kind: 'child', cause: step.id, effect: childNodeId(step.id) });
      }
      if (!partsOf.has(step.id)) continue;
      groups.push({ id: step.id, within: group });
      add(step.id);
    }
    const left = parts.filter((one) => !kept.includes(one));
    if (left.length > 0 && group !== undefined)
      nodes.push({ id: `${group} more`, group, kind: 'more', counts: countStates(plan, left), total: left.length });
  };
  add(undefined);
  edges.push(...relations(steps.filter(({ id }) => shown.has(id))));
  if (mode === 'linear' || mode === 'todo') for (const siblings of partsOf.values()) edges.push(...inOrder(siblings));
  const known = edges.filter(({ kind, cause, effect }) => kind === 'child' || (shown.has(cause) && shown.has(effect)));
  return { nodes, edges: known, groups };
}

type GraphSize = { nodes: number; edges: number };

export const isLarger = ({ nodes, edges }: PlanGraph, most: GraphSize): boolean =>
  nodes.length > most.nodes || edges.length > most.edges;

/**
 * The most relevant part of a large graph: the selected step and active steps with their nearest neighbours, then open
 * steps, then those that ended last.
 */
export function nearestPart(graph: PlanGraph, most: GraphSize, selected: string): PlanGraph {
  const nodes = new Map(graph.nodes.map((node) => [node.id, node]));
  const near = new Map(graph.nodes.map(({ id }): [string, string[]] => [id, []]));
  const join = (one: string, other: string) => {
    near.get(one)?.push(other);
    near.get(other)?.push(one);
  };
  for (const { cause, effect } of graph.edges) join(cause, effect);
  for (const { id, group } of graph.nodes) if (group !== undefined && group !== id) join(group, id);
  const groupOf = new Map(graph.groups.map(({ id, within }) => [id, within]));

  const kept = new Set<string>();
  let edges = 0;
  const keep = (id: string): boolean => {
    const outer = groupOf.has(id) ? groupOf.get(id) : nodes.get(id)?.group;
    // A node is not shown without its group.
    if (outer !== undefined && !kept.has(outer) && !keep(outer)) return false;
    const added = near.get(id)?.filter((other) => kept.has(other)).length ?? 0;
    if (kept.size >= most.nodes || edges + added > most.edges) return false;
    kept.add(id);
    edges += added;
    return true;
  };
  for (const seeds of seedsOf(graph, selected)) {
    const queue = seeds.filter((id) => !kept.has(id) && keep(id));
    for (const id of queue)
      for (const other of near.get(id) ?? []) if (!kept.has(other) && keep(other)) queue.push(other);
  }
  return {
    nodes: graph.nodes.filter(({ id }) => kept.has(id)),
    edges: graph.edges.filter(({ cause, effect }) => kept.has(cause) && kept.has(effect)),
    groups: graph.groups.filter(({ id }) => kept.has(id)),
  };
}

/** The steps to start from, in order of priority. */
function seedsOf({ nodes }: PlanGraph, selected: string): string[][] {
  const steps = nodes.flatMap((node) => (node.kind === 'step' ? [node.step] : []));
  const first = steps.filter(({ id, status }) => id === selected || stageOf(status) === 0);
  const open = steps.filter(({ status }) => stageOf(status) === 1);
  const done = steps.filter(({ status }) => stageOf(status) === 2).reverse();
  return [first, ...[...open, ...done].map((step) => [step])].map((some) => some.map(({ id }) => id));
}

/** The group of each step; groups that contain themselves are ignored. */
function groupsIn(steps: readonly Step[]): (step: Step) => string | undefined {
  const parents = new Map(steps.map(({ id, parent }) => [id, parent]));
  return ({ id, parent }) => {
    const way = new Set([id]);
    for (let at = parent; at !== undefined && parents.has(at); at = parents.get(at)) {
      if (way.has(at)) return undefined;
      way.add(at);
    }
    return parent !== undefined && parents.has(parent) ? parent : undefined;
  };
}

function groupBy<K>(steps: readonly Step[], keyOf: (step: Step) => K): Map<K, Step[]> {
  const groups = new Map<K, Step[]>();
  for (const step of steps) {
    const key = keyOf(step);
    const group = groups.get(key);
    if (group) group.push(step);
    else groups.set(key, [step]);
  }
  return groups;
}

const childNodeId = (step: string): string => `${step} child`;

/** Active parts first, then the others in their order. */
function chooseParts(parts: readonly Step[]): readonly Step[] {
  if (parts.length <= MOST_PARTS) return parts;
  return [...parts].sort((a, b) => stageOf(a.status) - stageOf(b.status)).slice(0, MOST_PARTS);
}

/** 0: active, or it needs a person; 1: not begun; 2: over. */
const stageOf = (status: Step['status']): 0 | 1 | 2 =>
  status === 'completed' || status === 'skipped' ? 2 : status === 'pending' ? 1 : 0;

function countStates(plan: Pick<Plan, 'status'>, steps: readonly Step[]): Array<readonly [StepState, number]> {
  return Array.from(
    groupBy(steps, (step) => stepState(plan, step)),
    ([state, all]) => [state, all.length],
  );
}

/** The dependencies that steps declare, each pair once. */
function relations(steps: readonly Step[]): GraphEdge[] {
  return steps.flatMap(({ id, needs = [], when = [], gather, rollback }) => {
    const waitsFor = new Map<string, EdgeKind>();
    if (gather) waitsFor.set(gather.from, 'gather');
    for (const { step } of when) waitsFor.set(step, 'when');
    for (const need of needs) if (!waitsFor.has(need)) waitsFor.set(need, 'needs');
    const edges = Array.from(waitsFor, ([cause, kind]): GraphEdge => ({ kind, cause, effect: id }));
    return rollback === undefined ? edges : [...edges, { kind: 'rollback', cause: id, effect: rollback }];
  });
}

/** In a mode that does steps in order, a step without declared dependencies waits for the one before it. */
function inOrder(steps: readonly Step[]): GraphEdge[] {
  const undoing = new Set(steps.map(({ rollback }) => rollback));
  const chain = steps.filter(({ id }) => !undoing.has(id));
  return chain.slice(1).flatMap(({ id, needs, when, gather }, place): GraphEdge[] => {
    const before = chain[place]?.id;
    return before === undefined || needs?.length || when?.length || gather
      ? []
      : [{ kind: 'order', cause: before, effect: id }];
  });
}
