import { firstFew } from '../../base/strings.ts';
import type { Plan, Step, StepCondition } from '../../protocol/session/plan.ts';
import { isByHand, SkipCause } from '../../protocol/session/plan.ts';
import type { Language } from '../../protocol/settings/effective-settings.ts';
import { assertsPhrase } from '../text/prose.ts';
import { findCycles, rollbackStepAround, type StepGraph, stepGraph, stepWithGroups } from './step-graph.ts';

/** The outlook of a step that has not started: it may start, something else comes first, or it never will, and why. */
export type StepReadiness = { is: 'ready' } | { is: 'waits' } | { is: 'lost'; cause: LostCause };

/** Why a step is lost. `detail`: how the other one ended, with its punctuation. */
export type LostCause = SkipCause & { detail: string };

/** The reason as people read it (`needs step_1, which was failed`), and the fact it states. */
export const causeInWords = ({ detail, ...because }: LostCause) => ({
  reason: `${because.relation} ${because.step}${detail}`,
  because,
});

const STATED_CAUSE = new RegExp(`^(${SkipCause.shape.relation.options.join('|')}) ([^\\s,:]+)`, 'u');

/** The cause in such a reason: events of earlier versions state it there alone. */
export function causeInReason(reason = ''): SkipCause | undefined {
  const [, relation, step] = STATED_CAUSE.exec(reason) ?? [];
  return SkipCause.safeParse({ relation, step }).data;
}

const readinessCache = new WeakMap<readonly Step[], ReadonlyMap<string, StepReadiness>>();

/**
 * The readiness of each pending step, by id. Computed once per plan version, however often it is needed. Groups are not
 * worked on and have none.
 */
export function readinessOfPending(steps: readonly Step[]): ReadonlyMap<string, StepReadiness> {
  const before = readinessCache.get(steps);
  if (before) return before;
  const graph = stepGraph(steps);
  const pending = steps.filter((step) => step.status === 'pending' && !graph.members.has(step.id));
  const judge = stepJudge(graph);
  const readiness = new Map(pending.map((step) => [step.id, judge(step)]));
  readinessCache.set(steps, readiness);
  return readiness;
}

/**
 * Judges steps one by one. What a group waits for applies to each of its steps and is computed once: a thousand steps
 * in fifty groups with a thousand needs each do not become fifty million.
 */
function stepJudge(graph: StepGraph): (step: Step) => StepReadiness {
  const isClosed = onceForEach((group) => isClosedByPerson(group, graph));
  const called = onceForEach((undo) => rollbackReadiness(undo, graph));
  const needed = onceForEach((step) => needsReadiness(step, graph, false));
  const ordered = onceForEach((step) => needsReadiness(step, graph, true));
  const asked = onceForEach((step) => conditionReadiness(step, graph));
  return (step) => {
    const line = stepWithGroups(step, graph);
    const closed = line.slice(1).find(isClosed);
    if (closed) return neverReady('part of', closed.id, `, which was ${closed.status}`);
    // Only a person blocks a group, and only they open it.
    if (line.slice(1).some(({ status }) => status === 'blocked')) return WAITS;
    const undo = rollbackStepAround(step, graph);
    const first = undo ? called(undo) : READY;
    return first.is === 'ready' ? worstOf([...line.map(undo ? ordered : needed), ...line.map(asked)]) : first;
  };
}

/** Memoises a function of a step. */
function onceForEach<T>(find: (step: Step) => T): (step: Step) => T {
  const known = new Map<Step, T>();
  return (step) => {
    const before = known.get(step);
    if (before !== undefined) return before;
    const found = find(step);
    known.set(step, found);
    return found;
  };
}

const READY: StepReadiness = { is: 'ready' };
const WAITS: StepReadiness = { is: 'waits' };
const neverReady = (relation: SkipCause['relation'], step: string, detail: string): StepReadiness => ({
  is: 'lost',
  cause: { relation, step, detail },
});
const worstOf = (all: readonly StepReadiness[]): StepReadiness =>
  all.find(({ is }) => is === 'lost') ?? all.find(({ is }) => is === 'waits') ?? READY;
const isStillOpen = ({ status }: Step): boolean => status === 'pending' || status === 'running' || status === 'blocked';

/** A group that a person closed, without its steps, takes those that have not started with it. */
function isClosedByPerson(group: Step, { members }: StepGraph): boolean {
  if (group.status === 'skipped') return true;
  if (group.status === 'completed') return isByHand(group.completed_by);
  return group.status === 'failed' && !(members.get(group.id) ?? []).some(({ status }) => status === 'failed');
}

/** A rollback step runs once one of its steps has failed, and never if all of them ended in another way. */
function rollbackReadiness(undo: Step, { rollbackTargets }: StepGraph): StepReadiness {
  const targets = rollbackTargets.get(undo.id) ?? [];
  if (targets.some(({ status }) => status === 'failed')) return { is: 'ready' };
  if (targets.some(isStillOpen)) return WAITS;
  const [first = '', ...others] = firstFew(targets.map(({ id }) => id));
  return neverReady('undoes', first, `${others.map((id) => ` and ${id}`).join('')}, which did not fail`);
}

/** Whether steps that need this one may begin: it is completed, or a person decided to do without it. */
export const isNeedMet = (step: Step, graph: StepGraph): boolean =>
  step.status === 'completed' || isLeftOutByPerson(step, graph);

/** Whether a person skipped a step, the group it is a part of, or all of its members. */
export function isLeftOutByPerson(step: Step, graph: StepGraph): boolean {
  const group = step.because;
  const whole = group?.relation === 'part of' ? graph.byId.get(group.step) : undefined;
  return isSkippedByPerson(step, graph, []) || (whole !== undefined && isSkippedByPerson(whole, graph, []));
}

function isSkippedByPerson(step: Step, graph: StepGraph, within: readonly Step[]): boolean {
  if (step.status !== 'skipped' || within.includes(step)) return false;
  if (step.completed_by === 'person') return true;
  const members = graph.members.get(step.id) ?? [];
  return members.length > 0 && members.every((member) => isSkippedByPerson(member, graph, [...within, step]));
}

/** For a rollback step, needs only define the order: it runs whatever their outcome. */
function needsReadiness({ needs = [], when = [] }: Step, graph: StepGraph, undoes: boolean): StepReadiness {
  // If `when` asks how a step ended, the step waits for that end, and `when` says which outcome is needed.
  const judged = new Set(when.flatMap(({ step, status }) => (status === undefined ? [] : [step])));
  let readiness = READY;
  for (const need of needs) {
    const other = graph.byId.get(need);
    // Only a person can write a need of an unknown step, and only a person can fix it.
    if (!other || isStillOpen(other)) readiness = WAITS;
    else if (undoes || judged.has(need)) continue;
    else if (!isNeedMet(other, graph)) return neverReady('needs', need, `, which was ${other.status}`);
  }
  return readiness;
}

function conditionReadiness({ when = [] }: Step, { byId }: StepGraph): StepReadiness {
  let readiness = READY;
  for (const one of when) {
    const other = byId.get(one.step);
    if (!other || !isConditionDecided(one, other)) readiness = WAITS;
    else if (!conditionHolds(one, other))
      return neverReady('when', one.step, `: it does not hold that ${describeCondition(one)}`);
  }
  return readiness;
}

/**
 * Steps that may start now: pending, everything that they and their groups need is completed, and their conditions
 * hold. Groups are never worked on themselves. While something failed is to be rolled back, nothing else starts: of
 * several failures, the one that was started last is rolled back first.
 */
export function readySteps(steps: readonly Step[]): Step[] {
  const readiness = readinessOfPending(steps);
  const graph = stepGraph(steps);
  const free = steps.filter((step) => readiness.get(step.id)?.is === 'ready');
  const undos = [...new Set(free.flatMap((step) => rollbackStepAround(step, graph) ?? []))];
  const [next] = undos.sort((a, b) => compareStartTimes(lastFailedTarget(a, graph), lastFailedTarget(b, graph), steps));
  return next ? free.filter((step) => rollbackStepAround(step, graph) === next) : free;
}

function lastFailedTarget(undo: Step, { rollbackTargets }: StepGraph): Step | undefined {
  return (rollbackTargets.get(undo.id) ?? []).filter(({ status }) => status === 'failed').at(-1);
}

function compareStartTimes(a: Step | undefined, b: Step | undefined, steps: readonly Step[]): number {
  const [early, late] = [a?.started_at ?? '', b?.started_at ?? ''];
  if (early !== late) return early < late ? 1 : -1;
  return (b ? steps.indexOf(b) : -1) - (a ? steps.indexOf(a) : -1);
}

/** Whether a `when` can be decided by now: its step has ended, or is blocked and that is what it asks for. */
function isConditionDecided({ status: asked }: StepCondition, { status }: Step): boolean {
  return status === 'blocked' ? asked === 'blocked' : status !== 'pending' && status !== 'running';
}

/** Whether a `when` holds for its step. The error of a failed step counts as its result. */
function conditionHolds({ status, result, exit, not = false }: StepCondition, other: Step): boolean {
  const outcome = other.result ?? (other.status === 'failed' ? other.error : undefined) ?? '';
  const all =
    (status === undefined || other.status === status) &&
    (result === undefined || assertsPhrase(outcome, result)) &&
    (exit === undefined || other.exit === exit);
  return all !== not;
}

/** A condition as a person reads it: `check says "error"`. */
function describeCondition({ step, status, result, exit, not = false }: StepCondition): string {
  const facts = [
    ...(status === undefined ? [] : [`is ${status}`]),
    ...(result === undefined ? [] : [`says "${result}"`]),
    ...(exit === undefined ? [] : [`ended with exit ${exit}`]),
  ];
  return `${not ? 'not ' : ''}${step} ${facts.join(' and ') || 'has ended'}`;
}

const NEEDS_WORDING = {
  en: {
    ring: (cycle: string) => `The steps ${cycle} need each other in a cycle: none of them can start.`,
    unknown: (step: string, need: string) => `${step} needs ${need}, and no step has that id: it cannot start.`,
    needLost: (step: string, need: string, status: string) => `${step} needs ${need}, which is ${status}.`,
    more: (count: number) => `The same is true of ${count} more.`,
  },
  zh: {
    ring: (cycle: string) => `步骤 ${cycle} 互相需要，形成循环：都无法开始。`,
    unknown: (step: string, need: string) => `${step} 需要 ${need}，但没有这个步骤：无法开始。`,
    needLost: (step: string, need: string, status: string) => `${step} 需要 ${need}，而它的状态是 ${status}。`,
    more: (count: number) => `另有 ${count} 处同样的问题。`,
  },
};

/**
 * What is wrong with the needs of the open steps, in words: a cycle, or an unknown step. A person can write both into
 * plan.json; no planner and no tool can.
 */
export function describeBrokenNeeds(plan: Plan, language: Language): string[] {
  const words = NEEDS_WORDING[language];
  const open = plan.steps.filter((step) => step.status === 'pending');
  const ids = new Set(plan.steps.map((step) => step.id));
  const unknown = open.flatMap((step) =>
    (step.needs ?? []).flatMap((need) => (ids.has(need) ? [] : [[step.id, need]])),
  );
  return firstSentences(
    [
      ...findCycles(open).map((cycle) => words.ring(shortenCycle([...cycle, cycle[0] ?? '']).join(' → '))),
      ...unknown.map(([step = '', need = '']) => words.unknown(step, need)),
    ],
    language,
  );
}

/** Why each open step cannot start; if one only waits for another that cannot, only the latter is reported. */
export function explainNothingReady(plan: Plan, language: Language): string[] {
  const graph = stepGraph(plan.steps);
  const ended = new Map(
    plan.steps.flatMap((step) => (step.status === 'pending' || isNeedMet(step, graph) ? [] : [[step.id, step.status]])),
  );
  const sentences = plan.steps.flatMap(({ id, status, needs = [] }) =>
    needs.flatMap((need) => {
      const how = status === 'pending' ? ended.get(need) : undefined;
      return how === undefined ? [] : [NEEDS_WORDING[language].needLost(id, need, how)];
    }),
  );
  return [...describeBrokenNeeds(plan, language), ...firstSentences(sentences, language)];
}

/** The most sentences in one text, and the most steps named of one cycle. */
const MAX_SENTENCES = 20;

function firstSentences(sentences: string[], language: Language): string[] {
  const over = sentences.length - MAX_SENTENCES;
  return over > 0 ? [...sentences.slice(0, MAX_SENTENCES), NEEDS_WORDING[language].more(over)] : sentences;
}

/** The start of a long cycle, with a mark that it closes. */
function shortenCycle(cycle: readonly string[]): readonly string[] {
  return cycle.length > MAX_SENTENCES ? [...cycle.slice(0, MAX_SENTENCES - 1), '…', cycle.at(-1) ?? ''] : cycle;
}
