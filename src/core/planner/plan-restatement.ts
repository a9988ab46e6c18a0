import type { Plan, Step } from '../../protocol/session/plan.ts';
import { PlanProposal, type PlanRevision, type ProposedStep } from '../../protocol/session/plan-edit.ts';
import { isSameJson } from '../plan/edited-plan.ts';
import { stepGraph } from '../plan/step-graph.ts';
import { comparableDescription } from '../text/content-words.ts';

type StepObject = Exclude<ProposedStep, string>;
type StepChange = NonNullable<PlanRevision['change']>[number];

/** A restated plan in place of a revision: the revision it stands for, and the ids of its steps in their order. */
export type Restatement = { revision: PlanRevision; order: string[] };

/** The open steps in the form of a first plan, as some planners answer; undefined if the answer has another form. */
export function readRestatement(json: unknown, plan: Plan, known: KnownEdits): Restatement | undefined {
  const { data } = PlanProposal.safeParse(json);
  return data?.steps?.length ? restate(data.steps, plan, known) : undefined;
}

type KnownEdits = { editedByPerson: readonly string[]; lastStepNumber: number };

/**
 * The given steps stand in place of what has not begun. Those that are named again stay, with what is said of them now;
 * those that have begun or are completed are not planned again; for one that failed or was skipped it is a new one.
 * What a person wrote stays.
 */
function restate(
  given: readonly ProposedStep[],
  plan: Plan,
  { editedByPerson, lastStepNumber }: KnownEdits,
): Restatement {
  const proposed = given.map((step): StepObject => (typeof step === 'string' ? { description: step } : step));
  const taken = new Set([...plan.steps, ...proposed].flatMap(({ id }) => id ?? []));
  const matched = new Set<string>();
  let last = lastStepNumber;
  const places = proposed.map((step) => {
    const known = findRestated(plan, step, matched);
    if (known) matched.add(known.id);
    const isFree = step.id !== undefined && !plan.steps.some(({ id }) => id === step.id);
    let id = known?.id ?? (isFree ? step.id : undefined);
    while (id === undefined) {
      const next = `step_${++last}`;
      if (!taken.has(next)) id = next;
    }
    return { step, known, id };
  });
  const renamed = new Map(places.flatMap(({ step, id }) => (step.id === undefined ? [] : [[step.id, id]])));
  const nameOf = (id: string) => renamed.get(id) ?? id;
  const add = places.flatMap(({ step, known, id }) => (known ? [] : [{ ...withNames(step, nameOf), id }]));
  const change = places.flatMap(({ step, known }) =>
    known?.status === 'pending' ? changeTo(known, withNames(step, nameOf), editedByPerson) : [],
  );
  const remove = droppedSteps(plan, matched, editedByPerson);
  const wishes = {
    ...(remove.length > 0 && { remove }),
    ...(change.length > 0 && { change }),
    ...(add.length > 0 && { add }),
  };
  return { revision: Object.keys(wishes).length > 0 ? wishes : { keep: true }, order: places.map(({ id }) => id) };
}

/** The step that is named again; undefined for a new one. */
function findRestated(
  { steps }: Plan,
  { id, description }: StepObject,
  matched: ReadonlySet<string>,
): Step | undefined {
  const left = steps.filter((step) => step.status !== 'failed' && step.status !== 'skipped' && !matched.has(step.id));
  const isAlike = (step: Step) => comparableDescription(step.description) === comparableDescription(description);
  return left.find((step) => step.id === id && (step.status === 'pending' || isAlike(step))) ?? left.find(isAlike);
}

/** Steps that have not begun and are not named again, but those that a person wrote, and groups of what stays. */
function droppedSteps({ steps }: Plan, named: ReadonlySet<string>, editedByPerson: readonly string[]): string[] {
  const { members } = stepGraph(steps);
  const stays = ({ id, status }: Step): boolean =>
    status !== 'pending' || named.has(id) || editedByPerson.includes(`${id}:description`);
  const isKept = (step: Step, within: readonly Step[] = []): boolean =>
    stays(step) ||
    (members.get(step.id) ?? []).some((member) => !within.includes(member) && isKept(member, [...within, step]));
  return steps.filter((step) => !isKept(step)).map(({ id }) => id);
}

function withNames(
  { needs, when, rollback, parent, gather, ...step }: StepObject,
  nameOf: (id: string) => string,
): StepObject {
  return {
    ...step,
    ...(needs && { needs: needs.map(nameOf) }),
    ...(when && { when: [when].flat().map((one) => ({ ...one, step: nameOf(one.step) })) }),
    ...(rollback && { rollback: nameOf(rollback) }),
    ...(parent && { parent: nameOf(parent) }),
    ...(gather && { gather: { ...gather, from: nameOf(gather.from) } }),
  };
}

const RELATIONS = ['needs', 'when', 'rollback', 'parent'] as const;
const OTHERS = ['description', 'done_when', 'agent'] as const;

/** What differs; a relation that is not named any more is removed, and what a person wrote stays. */
function changeTo(step: Step, given: StepObject, editedByPerson: readonly string[]): StepChange[] {
  const fields = [...RELATIONS, ...OTHERS.filter((key) => given[key] !== undefined && given[key] !== null)];
  const differs = fields.filter(
    (key) => !isSameJson(given[key] ?? null, step[key] ?? null) && !editedByPerson.includes(`${step.id}:${key}`),
  );
  if (differs.length === 0) return [];
  return [{ id: step.id, ...Object.fromEntries(differs.map((key) => [key, given[key] ?? null])) }];
}
