import type { Plan, Step } from '../../../protocol/session/plan.ts';

/** The state shown for a step: if the plan is not worked on, its current step is not shown as running. */
export type StepState = Step['status'] | 'paused' | 'waiting' | 'cancelled';

export function stepState(plan: Pick<Plan, 'status'>, { status }: Pick<Step, 'status'>): StepState {
  if (status !== 'running' || plan.status === 'running') return status;
  return plan.status === 'cancelled' || plan.status === 'waiting' ? plan.status : 'paused';
}

/** The relations between steps that are drawn as lines. */
type EdgeKind = 'needs' | 'when' | 'gather' | 'order' | 'part' | 'rollback' | 'child';

/** `cause` is the step that comes first, `effect` the one that waits for it, is its part, its undoing or its child. */
export type GraphEdge = { kind: EdgeKind; cause: string; effect: string };

/** `rows`: the ids of steps and child sessions from top to bottom, each below what it waits for. */
export type PlanGraph = { steps: readonly Step[]; edges: readonly GraphEdge[]; rows: ReadonlyArray<readonly string[]> };

export const childNodeId = (step: string): string => `${step} child`;

/** Of a larger plan only a part is drawn, as nobody could read it. */
const MOST = { whole: 120, part: 60, edges: 300 };
/** More that could be done at the same time is continued in the next row. */
const ROW = 4;

/** The plan as a graph; of a large one, the steps around one of them. */
export function planGraph({ steps: all, mode }: Pick<Plan, 'steps' | 'mode'>, around: string): PlanGraph {
  const steps = all.length > MOST.whole ? stepsAround(all, around) : all;
  const shown = new Set(steps.map(({ id }) => id));
  const edges = [
    ...relations(steps),
    ...(mode === 'linear' || mode === 'todo' ? inOrder(steps) : []),
    ...steps.flatMap(({ id, parent, child }): GraphEdge[] => [
      ...(parent === undefined || parent === id ? [] : [{ kind: 'part' as const, cause: parent, effect: id }]),
      ...(child === undefined ? [] : [{ kind: 'child' as const, cause: id, effect: childNodeId(id) }]),
    ]),
  ].filter(({ kind, cause, effect }) => kind === 'child' || (shown.has(cause) && shown.has(effect)));
  const ids = steps.flatMap(({ id, child }) => (child === undefined ? [id] : [id, childNodeId(id)]));
  return { steps, edges: edges.slice(0, MOST.edges), rows: rowsOf(ids, edges) };
}

function stepsAround(all: readonly Step[], around: string): readonly Step[] {
  const place = all.findIndex(({ id }) => id === around);
  const from = Math.max(0, Math.min(place - MOST.part / 2, all.length - MOST.part));
  return all.slice(from, from + MOST.part);
}

function rowsOf(ids: readonly string[], edges: readonly GraphEdge[]): string[][] {
  const before = new Map(ids.map((id): [string, string[]] => [id, []]));
  for (const { cause, effect } of edges) before.get(effect)?.push(cause);
  // What waits for a step waits for its parts.
  for (const { kind, cause, effect } of edges)
    if (kind === 'part') for (const after of edges) if (waitsFor(after, cause)) before.get(after.effect)?.push(effect);
  const ranks = new Map<string, number>();
  const rankOf = (id: string, way: ReadonlySet<string>): number => {
    const known = ranks.get(id);
    if (known !== undefined || way.has(id)) return known ?? 0;
    const within = new Set([...way, id]);
    const rank = Math.max(0, ...(before.get(id) ?? []).map((one) => (within.has(one) ? 0 : 1 + rankOf(one, within))));
    ranks.set(id, rank);
    return rank;
  };
  const rows: string[][] = [];
  for (const id of ids) {
    const rank = rankOf(id, new Set());
    rows[rank] = [...(rows[rank] ?? []), id];
  }
  return rows.flatMap((row) =>
    Array.from({ length: Math.ceil(row.length / ROW) }, (_, part) => row.slice(part * ROW, (part + 1) * ROW)),
  );
}

const waitsFor = ({ kind, cause }: GraphEdge, step: string): boolean =>
  cause === step && kind !== 'part' && kind !== 'child' && kind !== 'rollback';

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
