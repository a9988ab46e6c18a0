import { Plan, Step } from '../../protocol/session/plan.ts';
import type { AgentProfile } from '../../protocol/settings/config.ts';
import type { Rules } from '../../protocol/settings/effective-settings.ts';
import { readTags } from '../text/bracket-tags.ts';
import { isFanOutStep } from './fan-out.ts';
import { isGroup, replaceStep } from './step-graph.ts';

/** Steps still to be worked on. */
export function openSteps(plan: Plan): Step[] {
  return plan.steps.filter((step) => step.status === 'pending' || step.status === 'running');
}

/** Whether a step is in the plan and open. */
export const isOpenStep = (plan: Plan | null, id: string): boolean =>
  plan !== null && openSteps(plan).some((step) => step.id === id);

/**
 * Steps that prevent the goal. A step that a `spawn` call asked for is only a means: the model decides whether its
 * failure matters, as long as any other step was completed. An item of a step that was completed without it was not
 * needed.
 */
function failedOrBlockedSteps(plan: Plan): Step[] {
  const completed = new Set(plan.steps.flatMap((step) => (step.status === 'completed' ? [step.id] : [])));
  return plan.steps.filter(
    (step) =>
      (step.status === 'failed' || step.status === 'blocked') &&
      (step.call === undefined || completed.size === 0) &&
      !completed.has(step.parent ?? '') &&
      // The outcome of a group is that of its steps, unless a person has set it.
      (!isGroup(plan.steps, step.id) || isOutcomeOfItsOwn(plan, step.id)),
  );
}

/** Whether a failed or blocked group owes this to none of its steps: none failed, and none was held back by another. */
function isOutcomeOfItsOwn({ steps }: Plan, group: string): boolean {
  return steps.every(
    (step) =>
      step.parent !== group ||
      (step.status !== 'failed' && step.status !== 'blocked' && (step.because?.relation ?? 'part of') === 'part of'),
  );
}

/**
 * Steps that prevented the goal: failed or blocked, and not replaced; and those that the model left out, if none was
 * completed.
 */
export function unreachedStepIds(plan: Plan, replaced: readonly string[]): string[] {
  const made = replacedFailures(plan, replaced);
  const prevented = failedOrBlockedSteps(plan).filter((step) => step.status === 'blocked' || !made.includes(step.id));
  return [...prevented, ...undoneSteps(plan)].map((step) => step.id);
}

/** Whether the model left the step out: it said that the step cannot be done, or need not be. */
export const isLeftOutByModel = ({ status, completed_by }: Step): boolean =>
  status === 'skipped' && completed_by === 'marker';

/** Steps that the model left out of a plan of which nothing was completed. */
export const undoneSteps = ({ steps }: Plan): Step[] =>
  steps.some((step) => step.status === 'completed') ? [] : steps.filter(isLeftOutByModel);

/** Failed steps that others took the place of: none as long as no step is completed. */
export const replacedFailures = (plan: Plan, replaced: readonly string[]): readonly string[] =>
  plan.steps.some((step) => step.status === 'completed') ? replaced : [];

/** Failed steps whose `rollback` was carried out. */
export function rolledBackSteps(steps: readonly Step[]): Step[] {
  const completed = new Set(steps.filter((step) => step.status === 'completed').map((step) => step.id));
  return steps.filter((step) => step.status === 'failed' && completed.has(step.rollback ?? ''));
}

/** The current position in the plan: the running step, else the first open one, else the last. */
export function currentStepIndex(steps: readonly Step[]): number {
  const running = steps.findIndex((step) => step.status === 'running' && !isGroup(steps, step.id));
  if (running >= 0) return running;
  const pending = steps.findIndex((step) => step.status === 'pending' && !isGroup(steps, step.id));
  return pending >= 0 ? pending : Math.max(0, steps.length - 1);
}

/** The same plan with one step changed, its index updated and its revision incremented. */
export function updateStep(plan: Plan, id: string, change: (step: Step) => Step, at: string): Plan {
  return replaceSteps(plan, replaceStep(plan.steps, id, change), at);
}

export function replaceSteps(plan: Plan, steps: Step[], at: string): Plan {
  return bumpRevision({ ...plan, steps, current_step_index: currentStepIndex(steps) }, at);
}

export function bumpRevision(plan: Plan, at: string): Plan {
  return { ...plan, revision: plan.revision + 1, updated_at: at };
}

/** A step without these keys: neither JSON nor a plan has undefined. */
export function omitFields<K extends keyof Step>(step: Step, ...keys: K[]): Step {
  const copy = { ...step };
  for (const key of keys) delete copy[key];
  return copy;
}

/** Whether nothing that a person could check shows that a step is done. A step that was only assumed done is that. */
export const isUnproven = ({ status, proof, completed_by }: Step): boolean =>
  status === 'completed' && completed_by !== 'timeout' && proof?.length === 0;

/** A step in which a command ended with that status; undefined: none ended by itself. */
export function withExitStatus(step: Step, exit: number | undefined): Step {
  return exit === undefined ? omitFields(step, 'exit') : { ...step, exit };
}

const PLAN_KEYS = Object.keys(Plan.shape) as Array<keyof Plan>;
const STEP_KEYS = Object.keys(Step.shape) as Array<keyof Step>;

/** The content of `plan.json`: keys in the order of the schema, whatever order they were added in. */
export function formatPlanFile(plan: Plan): string {
  const steps = plan.steps.map((step) => inKeyOrder(step, STEP_KEYS));
  return `${JSON.stringify(inKeyOrder({ ...plan, steps }, PLAN_KEYS), null, 2)}\n`;
}

function inKeyOrder<T extends object>(value: T, keys: Array<keyof T>): Partial<T> {
  const ordered: Partial<T> = {};
  for (const key of keys) if (value[key] !== undefined) ordered[key] = value[key];
  return ordered;
}

/** The step that a model or a person means by `step_2`, `2`, `step 2`, `步骤2` or its description. */
export function findStep(plan: Plan, name: string): Step | undefined {
  const wanted = name.trim().toLowerCase();
  const number = /^(?:step|步骤|步驟)?[\s_#]*(\d{1,9})$/.exec(wanted)?.[1];
  return (
    plan.steps.find((step) => step.id.toLowerCase() === wanted) ??
    (number
      ? (plan.steps.find((step) => step.id === `step_${number}`) ?? plan.steps[Number(number) - 1])
      : undefined) ??
    openSteps(plan).find((step) => step.description.trim().toLowerCase() === wanted) ??
    plan.steps.find((step) => step.description.trim().toLowerCase() === wanted)
  );
}

type AgentsByName = Readonly<Record<string, AgentProfile>>;

/** The agent of that name, ignoring case; undefined if there is none. */
export function findAgentName(agents: AgentsByName, name: string): string | undefined {
  const wanted = name.toLowerCase();
  return Object.keys(agents).find((known) => known.toLowerCase() === wanted);
}

/** The tag at the start of a description: `[SEARCH] find x`. */
export function agentTagOf(description: string): string | undefined {
  const [tag] = readTags(description.trim());
  return tag?.start === 0 && AGENT_TAG.test(tag.raw) && tag.end < tag.line.length ? tag.inside : undefined;
}

const AGENT_TAG = /^\[[A-Za-z0-9_-]+\]$/;

/**
 * Who does a step: the agent it names, by its field or its tag. An unknown name is reported; by the setting
 * `unknown_agent` either the first agent does the step or nobody does; if a step names no agent, the session itself.
 */
export function executorOf(
  step: Step,
  { agents, unknownAgent }: Pick<Rules, 'agents' | 'unknownAgent'>,
): { agent?: string; unknown?: string } {
  const name = step.agent ?? agentTagOf(step.description);
  if (name === undefined) return {};
  const agent = findAgentName(agents, name);
  if (agent !== undefined) return { agent };
  const [first] = Object.keys(agents);
  return unknownAgent === 'first' && first !== undefined ? { agent: first, unknown: name } : { unknown: name };
}

/**
 * The current step of this conversation. A step that a `spawn` call gave to a child session is worked on elsewhere, and
 * a group only through its steps.
 */
export function runningStep(plan: Plan | null): Step | undefined {
  return plan?.steps.find(
    (step) => step.status === 'running' && step.call === undefined && !isGroup(plan.steps, step.id),
  );
}

/** Whether the step itself is worked on: not a group, and not a step with items. */
export const isBeingWorkedOn = (plan: Plan, step: Step): boolean =>
  step.status === 'running' && !isFanOutStep(step) && !isGroup(plan.steps, step.id);

/** The largest n of any `step_<n>`. */
export function highestStepNumber(plan: Pick<Plan, 'steps'>): number {
  return Math.max(0, ...plan.steps.map((step) => Number(/^step_(\d{1,9})$/.exec(step.id)?.[1] ?? 0)));
}
