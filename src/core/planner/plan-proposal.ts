import { firstJsonObject } from '../../base/json.ts';
import type { Step } from '../../protocol/session/plan.ts';
import { PlanProposal, type ProposedStep } from '../../protocol/session/plan-edit.ts';
import type { AgentProfile } from '../../protocol/settings/config.ts';
import { findAgentName } from '../plan/plan-steps.ts';
import { dependencyNodes, findCycle, stepReferences } from '../plan/step-graph.ts';

/** A plan with more steps than this is too long for a person to read. */
export const MAX_PLAN_STEPS = 50;

/** The result of a planner's answer. A fault is worded so that the planner can fix it. */
export type ProposalReading =
  | { is: 'plan'; title: string | undefined; steps: Step[] }
  | { is: 'answer'; text: string }
  | { is: 'fault'; why: string };

type ProposalContext = {
  agents: Readonly<Record<string, AgentProfile>>;
  /** Steps that stay: they may be needed, and their ids are taken. */
  steps?: readonly Step[];
  /** Highest step number used so far. */
  lastStepNumber?: number;
  /** The most steps it may have. */
  most?: number;
  /** Ids of removed steps: none is reused. */
  gone?: readonly string[];
};

/** Parses a planner's answer: JSON that fits the schema, complete, without cycles, naming only what exists. */
export function readProposal(text: string, known: ProposalContext): ProposalReading {
  const json = firstJsonObject(text);
  if (json === undefined)
    return proposalFault(
      text.includes('{') ? 'its JSON breaks off or is not valid' : 'the answer holds no JSON object',
    );
  const parsed = PlanProposal.safeParse(json);
  if (!parsed.success) return proposalFault(describeIssue(parsed.error.issues));
  const { title, steps, answer } = parsed.data;
  if (answer?.trim() && !steps?.length) return { is: 'answer', text: answer.trim() };
  if (!steps?.length)
    return proposalFault('"steps" is empty; give at least one step, or "answer" where no plan is needed');
  const { most = MAX_PLAN_STEPS } = known;
  if (steps.length > most) return proposalFault(`${steps.length} steps; ${most} are the most`);
  const made = assignStepIds(steps, known);
  return 'why' in made
    ? { is: 'fault', why: made.why }
    : { is: 'plan', title: title?.trim() || undefined, steps: made.steps };
}

const proposalFault = (why: string): ProposalReading => ({ is: 'fault', why });

type ProposalIssue = { code: string; path: PropertyKey[]; message: string; errors?: ProposalIssue[][] };

/** The first fault. A step may be text or an object: if it has keys, the object's issue is reported. */
function describeIssue([issue]: readonly ProposalIssue[], within: readonly PropertyKey[] = []): string {
  if (!issue) return 'the object does not fit';
  const path = [...within, ...issue.path];
  const meant = issue.errors?.find(([first]) => first && (first.path.length > 0 || first.code !== 'invalid_type'));
  return meant ? describeIssue(meant, path) : `${path.join('.') || 'the object'}: ${issue.message}`;
}

/** The first `most` steps that do not depend on the others; what was left out is mentioned with the last of them. */
export function firstIndependentSteps(steps: readonly Step[], most: number): Step[] {
  const chosen: Step[] = [];
  for (let added = true; added && chosen.length < most; ) {
    const ids = chosen.map((step) => step.id);
    const next = steps.find(
      (step) => !ids.includes(step.id) && stepReferences(step).every(([, id]) => ids.includes(id)),
    );
    added = next !== undefined;
    if (next) chosen.push(next);
  }
  const left = steps.filter((step) => !chosen.includes(step)).map((step) => step.description);
  const last = chosen.at(-1);
  if (!last || left.length === 0) return chosen;
  return [...chosen.slice(0, -1), { ...last, notes: `The planner also named: ${left.join('; ')}` }];
}

type StepObject = Exclude<ProposedStep, string>;

const toStepObject = (step: ProposedStep): StepObject => (typeof step === 'string' ? { description: step } : step);

/** The steps with ids of their own, with all references checked. */
export function assignStepIds(
  proposed: readonly ProposedStep[],
  { agents, steps: kept = [], lastStepNumber = 0, gone = [] }: ProposalContext,
): { steps: Step[] } | { why: string } {
  const given = proposed.map(toStepObject);
  const here = new Set(kept.map((step) => step.id));
  const taken = new Set([...here, ...gone]);
  let next = lastStepNumber;
  const ids = given.map((step) => {
    let id = step.id && !taken.has(step.id) ? step.id : '';
    while (id === '' || taken.has(id)) id = `step_${++next}`;
    taken.add(id);
    here.add(id);
    return id;
  });
  // A planner that numbers its steps refers to its own numbers, even if they were used before.
  const own = new Map(given.flatMap((step, n) => (step.id ? [[step.id, ids[n] ?? '']] : [])));
  const nameOf = (id: string) => own.get(id) ?? id;
  const steps: Step[] = [];
  for (const [n, step] of given.entries()) {
    const made = toPlanStep(step, ids[n] ?? '', nameOf);
    const named = stepReferences(made).find(([, id]) => !here.has(id) || id === made.id);
    if (named?.[1] === made.id) return { why: `step ${n + 1} names itself in "${named[0]}"` };
    if (named)
      return {
        why: `step ${n + 1} names ${named[1]} in "${named[0]}", and no step has that id. Ids: ${ids.join(', ')}`,
      };
    const { agent } = step;
    if (agent && !findAgentName(agents, agent))
      return { why: `step ${n + 1} names the agent "${agent}". Agents: ${Object.keys(agents).join(', ') || 'none'}` };
    steps.push({ ...made, ...(agent && { agent: findAgentName(agents, agent) ?? agent }) });
  }
  const cycle = findCycle(dependencyNodes([...kept, ...steps]));
  return cycle ? { why: `the steps ${cycle.join(' → ')} need each other in a cycle` } : { steps };
}

/** A proposed step in the format of plan.json, with the new ids. */
function toPlanStep(step: StepObject, id: string, nameOf: (id: string) => string): Step {
  const needs = [...new Set((step.needs ?? []).map(nameOf))];
  const when = [step.when ?? []].flat().map((one) => ({ ...one, step: nameOf(one.step) }));
  return {
    id,
    description: step.description,
    status: 'pending',
    ...(needs.length > 0 && { needs }),
    ...(when.length > 0 && { when }),
    ...(step.rollback && { rollback: nameOf(step.rollback) }),
    ...(step.parent && { parent: nameOf(step.parent) }),
    ...(step.each && { each: step.each }),
    ...(step.gather && { gather: { ...step.gather, from: nameOf(step.gather.from) } }),
    ...(step.on_failed_part && { on_failed_part: step.on_failed_part }),
    ...(step.done_when && step.done_when.length > 0 && { done_when: step.done_when }),
  };
}
