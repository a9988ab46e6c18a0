import { firstFew, truncate } from '../../base/strings.ts';
import type { EventBody } from '../../protocol/session/event.ts';
import type { Plan, Step } from '../../protocol/session/plan.ts';
import { isByHand } from '../../protocol/session/plan.ts';
import { groupStepsBy, groupsAround, type StepGraph, stepGraph, stepWithGroups } from './step-graph.ts';
import { moveStep } from './step-moves.ts';
import { causeInWords, isNeedMet, readinessOfPending } from './step-readiness.ts';

/** Steps changed in one go: each change of a large plan takes time, and other sessions get their turn in between. */
export const MAX_CHANGES_AT_ONCE = 200;

/**
 * What follows from the plan alone before more of it starts: steps that can never run are skipped, with the reason, and
 * groups end with their steps. `replaced`: failed steps that were replaced by others.
 */
export function cascadeEvents(plan: Plan, replaced: readonly string[]): EventBody[] {
  const readiness = readinessOfPending(plan.steps);
  const skipped = plan.steps.flatMap((step): EventBody[] => {
    const own = readiness.get(step.id);
    if (own?.is !== 'lost') return [];
    return [{ type: 'step.skipped', step: step.id, ...causeInWords(own.cause), by: 'daemon' }];
  });
  return skipped.length > 0 ? skipped.slice(0, MAX_CHANGES_AT_ONCE) : groupEndEvents(plan, replaced);
}

/** Starts a step, and every group of which it is the first step to start. */
export function startStepEvents(plan: Plan, step: Step): EventBody[] {
  const groups = stepWithGroups(step, stepGraph(plan.steps)).slice(1).reverse();
  return [...groups.filter(({ status }) => status === 'pending'), step].map(({ id }) => ({
    type: 'step.started',
    step: id,
  }));
}

function groupEndEvents({ steps }: Plan, replaced: readonly string[]): EventBody[] {
  const event = groupEvents(steps, replaced).next().value;
  return event ? [event] : [];
}

/** The end of the first open group whose steps have all ended; null if there is none. */
export function nextGroupEnd(steps: readonly Step[], replaced: readonly string[]): GroupEnd | null {
  for (const event of groupEvents(steps, replaced)) if (event.type !== 'step.reopened') return event;
  return null;
}

function* groupEvents(steps: readonly Step[], replacedIds: readonly string[]): Generator<GroupChange> {
  const replaced = new Set(replacedIds);
  const graph = stepGraph(steps);
  for (const [id, members] of graph.members) {
    const group = graph.byId.get(id);
    const event = group && groupEndEvent(group, members, graph, replaced);
    if (event) yield event;
  }
}

type GroupChange = Extract<EventBody, { type: 'step.completed' | 'step.failed' | 'step.skipped' | 'step.reopened' }>;
type GroupEnd = Exclude<GroupChange, { type: 'step.reopened' }>;

/**
 * Groups that failed or were skipped because of a step that a person has since closed, and that would now be
 * completed. A group that a person has closed, and one with a step that still fails it, stays as it is.
 */
export function groupsToReopen(
  steps: readonly Step[],
  closed: readonly string[],
  { editedByPerson, replacedSteps }: { editedByPerson: readonly string[]; replacedSteps: readonly string[] },
): string[] {
  const graph = stepGraph(steps);
  return closed.flatMap((id) => {
    const [group] = groupsAround(steps, id);
    const members = graph.members.get(group?.id ?? '');
    if (!group || !members || (group.status !== 'failed' && group.status !== 'skipped')) return [];
    if (editedByPerson.includes(`${group.id}:status`)) return [];
    const end = groupEndEvent({ ...group, status: 'running' }, members, graph, new Set(replacedSteps));
    return end && end.type !== 'step.failed' ? [group.id] : [];
  });
}

/** A group whose steps have ended ends accordingly; one with a reopened step is open again. */
function groupEndEvent(
  { id, status }: Step,
  members: readonly Step[],
  graph: StepGraph,
  replaced: ReadonlySet<string>,
): GroupChange | null {
  const open = members.some((member) => member.status === 'pending' || member.status === 'running');
  if (status === 'blocked') return null;
  const isOpen = status === 'pending' || status === 'running';
  if (open) return isOpen ? null : { type: 'step.reopened', step: id, by: 'daemon' };
  if (!isOpen || members.some((member) => member.status === 'blocked')) return null;
  const failed = members.filter((member) => member.status === 'failed' && !replaced.has(member.id));
  if (failed.length > 0) return groupFailedEvent(id, failed, 'failed');
  if (members.every((member) => member.status === 'skipped'))
    return { type: 'step.skipped', step: id, reason: 'all its parts were skipped', by: 'daemon' };
  const lostSteps = stepsLostIn(graph, replaced);
  const lost = members.filter((member) => lostSteps.has(member.id));
  if (lost.length > 0) return groupFailedEvent(id, lost, 'could not be done');
  const result = members
    .flatMap((member) => (member.result ? [`${member.description}: ${member.result}`] : []))
    .join('\n');
  const done = members.filter((member) => member.status === 'completed').map((member) => member.id);
  return {
    type: 'step.completed',
    step: id,
    by: 'parts',
    evidence: firstFew(done).join(', '),
    result: truncate(result, 2000),
  };
}

function groupFailedEvent(step: string, members: readonly Step[], how: string): GroupEnd {
  return {
    type: 'step.failed',
    step,
    error: `${firstFew(members.map(({ id }) => id)).join(', ')} ${how}`,
    by: 'daemon',
  };
}

/**
 * Steps lost through a failure, including those skipped because of it: a step left out by a condition or a person is no
 * loss. Searched from the failed steps on, since a chain may be as long as the plan.
 */
function stepsLostIn(graph: StepGraph, replaced: ReadonlySet<string>): ReadonlySet<string> {
  const behind = new Map<string, Step[]>();
  for (const step of graph.byId.values())
    for (const need of step.needs ?? []) {
      const others = behind.get(need);
      if (others) others.push(step);
      else behind.set(need, [step]);
    }
  const below = groupStepsBy([...graph.byId.values()], ({ parent }) => parent);
  const lostSteps = new Set<string>();
  const visited = new Set<Step>();
  const left = [...graph.byId.values()].filter(({ id, status }) => status === 'failed' && !replaced.has(id));
  for (let lost = left.pop(); lost; lost = left.pop()) {
    if (lostSteps.has(lost.id)) continue;
    lostSteps.add(lost.id);
    // What holds a group back holds back each of its steps.
    for (const line = [...(behind.get(lost.id) ?? [])]; line.length > 0; ) {
      const step = line.pop();
      if (!step || visited.has(step)) continue;
      visited.add(step);
      line.push(...(below.get(step.id) ?? []));
      if (step.status === 'skipped' && !graph.rollbackTargets.has(step.id)) left.push(step);
    }
  }
  return lostSteps;
}

/**
 * The steps after some have been reopened: groups around them are open again; those skipped because of any of these are
 * reopened too, and what those held back in turn; a rollback step may be needed once more. A group that a person has
 * closed stays closed, with its steps: `editedByPerson` has the fields that are theirs.
 */
export function reopenWithDependents(
  steps: readonly Step[],
  opened: ReadonlySet<string>,
  editedByPerson: readonly string[],
): Step[] {
  const behind = groupStepsBy(steps, (step) => step.because?.step);
  const isKept = ({ id, status, completed_by }: Step) =>
    (status === 'skipped' || status === 'failed' || isByHand(completed_by)) && editedByPerson.includes(`${id}:status`);
  const groups = new Set<string>();
  const back = new Set(opened);
  for (const id of back) {
    const around = groupsAround(steps, id);
    if (around.some(isKept)) continue;
    for (const group of around) groups.add(group.id);
    const dependents = (behind.get(id) ?? []).filter(
      (step) => !isKept(step) && !groupsAround(steps, step.id).some(isKept),
    );
    for (const step of [...around, ...dependents]) back.add(step.id);
  }
  const undos = new Set(
    steps.flatMap(({ id, rollback }) => (rollback !== undefined && back.has(id) ? [rollback] : [])),
  );
  return steps.map((step) => {
    if (opened.has(step.id)) return step;
    const open = step.status === 'pending' || step.status === 'running';
    if (open || !(back.has(step.id) || undos.has(step.id))) return step;
    return moveStep(step, groups.has(step.id) ? 'running' : 'pending');
  });
}

/**
 * The steps after a person has edited them. A step that they opened is reopened like any other; what was skipped
 * because of a step that is completed now is open again, unless something else holds it back; so is a step that was
 * skipped and whose relations to others, or those of its groups, are `rewired`.
 */
export function reopenAfterHandEdit(
  steps: readonly Step[],
  { opened, rewired }: { opened: readonly string[]; rewired: readonly string[] },
  editedByPerson: readonly string[],
): Step[] {
  const graph = stepGraph(steps);
  let released = steps.filter((step) => {
    const cause = step.because;
    if (!cause || editedByPerson.includes(`${step.id}:status`)) return false;
    const held = graph.byId.get(cause.step);
    const isOver = held !== undefined && isNeedMet(held, graph);
    return isOver || stepWithGroups(step, graph).some(({ id }) => rewired.includes(id));
  });
  for (;;) {
    const ids = new Set(released.map(({ id }) => id));
    const pending = steps.map((step) => (ids.has(step.id) ? moveStep(step, 'pending') : step));
    const after = reopenWithDependents(pending, new Set([...opened, ...ids]), editedByPerson);
    const readiness = readinessOfPending(after);
    const left = released.filter(({ id }) => readiness.get(id)?.is !== 'lost');
    if (left.length === released.length) return after;
    released = left;
  }
}
