import { firstFew, truncate } from '../../base/strings.ts';
import type { EventBody, PlannerQuery } from '../../protocol/session/event.ts';
import type { Plan, Step } from '../../protocol/session/plan.ts';
import { RUN_END } from '../../protocol/session/reply.ts';
import type { Language, Rules } from '../../protocol/settings/effective-settings.ts';
import { answerForPeople } from '../detect/answer-reading.ts';
import { withoutDoneMarkers } from '../detect/shown-text.ts';
import { requestOfRun } from '../messages/commands.ts';
import { shelvingQuestion } from '../messages/message-meaning.ts';
import { REPLY_WORDING } from '../messages/reply-wording.ts';
import { formatPlanSummary } from '../messages/status-report.ts';
import { fanOutStepOf } from '../plan/fan-out.ts';
import { shelvePlanEvent } from '../plan/plan-changes.ts';
import { openSteps, unreachedStepIds } from '../plan/plan-steps.ts';
import type { TurnCall } from '../session/run-state.ts';
import { activePlan, newPlanId, sessionLanguage } from '../session/session-queries.ts';
import type { RunEndReason, Session } from '../session/session-state.ts';
import { titleFromGoal } from '../text/prose.ts';
import { firstIndependentSteps, MAX_PLAN_STEPS, type ProposalReading, readProposal } from './plan-proposal.ts';

/** What a mode wants before the next iteration: events to log, a tool call, a planner query, or the end of the run. */
export type ModeAction = { record: EventBody[] } | { act: TurnCall } | { ask: PlannerQuery } | { endRun: RunEndReason };

/** How the plan of a mode starts, if a planner makes it. */
export type FirstPlanRules = {
  /** How many unreadable answers of the planner are accepted before the daemon continues without it. */
  readonly maxTries: number;
  /** The most steps a plan starts with. */
  readonly maxSteps: number;
  /** The steps of a run whose planner never made any. */
  fallback(language: Language, goal: string): Step[];
};

/**
 * Three tries and up to 50 steps; else three plain steps (JManus tries as often, OpenManus falls back in a similar
 * way).
 */
export const DEFAULT_FIRST_PLAN: FirstPlanRules = {
  maxTries: 3,
  maxSteps: MAX_PLAN_STEPS,
  fallback: (language) => fallbackSteps(language),
};

/**
 * The first plan in the planner's last answer. The decision and the feedback to the planner use the same parse, so that
 * it gets every fault that counts.
 */
export function readFirstPlan(
  { run }: Session,
  rules: Rules,
  firstPlan: FirstPlanRules = DEFAULT_FIRST_PLAN,
): ProposalReading | null {
  if (run?.plannerQuery?.ask !== 'plan') return null;
  return readProposal(run.plannerQuery.text, { agents: rules.agents, most: firstPlan.maxSteps });
}

type FirstPlan = { title: string | undefined; steps: Step[]; by: string; unplanned?: true };

/**
 * The plan a run starts with: requested from the model, tried again if its answer cannot be read, and made of plain
 * steps if it never can; the reason stays in the plan. A plan that is only too long is cut at the last try, with a
 * note. Null once there is a plan.
 */
export function firstPlanAction(
  session: Session,
  rules: Rules,
  firstPlan: FirstPlanRules = DEFAULT_FIRST_PLAN,
): ModeAction | null {
  if (!session.run || activePlan(session)) return null;
  const made = firstPlanFrom(session, rules, firstPlan);
  const asks = 'steps' in made ? shelvingQuestion(session, rules) : null;
  if (asks) return { endRun: asks };
  return 'steps' in made ? { record: startPlanEvents(session, made) } : made;
}

/** The plan in the planner's answers, or what to do about them. */
function firstPlanFrom(session: Session, rules: Rules, firstPlan: FirstPlanRules): FirstPlan | ModeAction {
  const query = session.run?.plannerQuery;
  const read = readFirstPlan(session, rules, firstPlan);
  if (!read || !query) return { ask: 'plan' };
  if (read.is === 'answer')
    return { endRun: { status: 'done', reason: RUN_END.answered, text: withoutDoneMarkers(read.text) } };
  if (read.is === 'plan') return { title: read.title, steps: read.steps, by: 'planner' };
  if (query.tries < firstPlan.maxTries) return { ask: 'plan' };
  const whole = readProposal(query.text, { agents: rules.agents });
  if (whole.is === 'plan') {
    const by = `planner; the first ${firstPlan.maxSteps} of ${whole.steps.length} steps`;
    return { title: whole.title, steps: firstIndependentSteps(whole.steps, firstPlan.maxSteps), by };
  }
  const steps = firstPlan.fallback(sessionLanguage(session, rules), requestOfRun(session));
  return { title: undefined, steps, by: `fallback: ${read.why}`, unplanned: true };
}

/** A plan with its steps, in one event: a power cut must not leave half a plan. */
function startPlanEvents(session: Session, { title, steps, by, unplanned }: FirstPlan): EventBody[] {
  const { run } = session;
  if (!run) return [];
  const goal = requestOfRun(session);
  const limits = { iterations: run.limits.iterations, step_iterations: run.limits.step_iterations };
  return [
    ...(run.besidePlan ? [shelvePlanEvent(run.besidePlan)] : []),
    {
      type: 'plan.started',
      id: newPlanId(session),
      goal,
      mode: run.mode,
      limits,
      title: title ?? titleFromGoal(goal),
      planned_by: by,
      ...(unplanned && { unplanned }),
      steps,
    },
  ];
}

/**
 * The end of a planned run: once no step is open, the model writes a summary; if it cannot, the plan itself is the
 * answer.
 */
export function summaryAction(session: Session, rules: Rules): ModeAction | null {
  const { run } = session;
  const plan = activePlan(session);
  if (!run || !plan || plan.steps.length === 0 || session.turn?.isBlocked || openSteps(plan).length > 0) return null;
  const lost = unreachedStepIds(plan, session.replacedSteps);
  const isByPerson = ({ id }: Step) => session.editedByPerson.includes(`${id}:status`);
  const blocked = plan.steps.filter((step) => lost.includes(step.id) && isByPerson(step));
  // Nothing was tried and failed: a person holds these steps back, and has to decide about them.
  if (blocked.length > 0 && blocked.length === lost.length) return { endRun: blockedRunEnd(blocked) };
  const asking = plan.steps.filter((step) => lost.includes(step.id) && !isByPerson(step) && lacksSomething(plan, step));
  if (asking.length > 0) return { endRun: blockedRunEnd(asking) };
  const answer = run.plannerQuery?.ask === 'summary' ? run.plannerQuery : undefined;
  // A call that the end of a daemon cut short is made again.
  const failed = run.failure?.last;
  const gaveUp = failed !== undefined && failed.kind !== 'aborted' && failed.retry_at === null;
  if (!answer && !gaveUp) return { ask: 'summary' };
  const language = sessionLanguage(session, rules);
  // The end of a failed run shows the plan anyway.
  const computed = lost.length > 0 ? [] : [formatPlanSummary(plan, language)];
  const summary = answer?.text.trim() && answerForPeople(answer, language).trim();
  const text = summary || [REPLY_WORDING[language].noSummary, ...computed].join('\n\n');
  return lost.length > 0
    ? { endRun: { status: 'failed', reason: `not reached: ${lost.join(', ')}`, text } }
    : { endRun: { status: 'done', reason: RUN_END.completed, text } };
}

/** Whether a step waits for a person. A blocked part counts as failed, and a blocked item of `todo` is given up. */
const lacksSomething = (plan: Plan, step: Step): boolean =>
  step.status === 'blocked' && plan.mode !== 'todo' && fanOutStepOf(plan, step) === undefined;

/** The run waits for a person to provide what these steps lack. */
export function blockedRunEnd(blocked: readonly Step[]): RunEndReason {
  const lines = blocked.map(({ description, error }) => `${truncate(description, 500)}${error ? `: ${error}` : ''}`);
  const text = firstFew(lines).join('\n');
  return { status: 'waiting', reason: RUN_END.blocked, text };
}

const FALLBACK_STEPS: Record<Language, readonly string[]> = {
  en: ['Understand what is asked and look at what is there', 'Do the task', 'Check the result against what was asked'],
  zh: ['弄清要求并查看现有资料', '完成任务', '对照要求检查结果'],
};

/**
 * The plan of a run whose planner never made one: three plain steps (as OpenManus does), in the language of the task.
 */
export function fallbackSteps(language: Language, lastStepNumber = 0): Step[] {
  return FALLBACK_STEPS[language].map((description, n) => ({
    id: `step_${lastStepNumber + n + 1}`,
    description,
    status: 'pending',
  }));
}

const WHOLE_TASK: Record<Language, (goal: string) => string> = {
  en: (goal) => `Do the whole task: ${goal}`,
  zh: (goal) => `完成整个任务：${goal}`,
};

/** The same for modes in which steps appear during the work: one step with the whole task (as Manus Demo does). */
export function wholeTaskStep(language: Language, goal: string): Step[] {
  const description = WHOLE_TASK[language](truncate(goal.replace(/\s+/g, ' '), 300));
  return [{ id: 'step_1', description, status: 'pending' }];
}
