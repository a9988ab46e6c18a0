import { mapGet } from '../../base/collections.ts';
import { firstFew, oneLine, truncate } from '../../base/strings.ts';
import type { Plan, Step } from '../../protocol/session/plan.ts';
import { isByHand } from '../../protocol/session/plan.ts';
import { RUN_END, tokenMark } from '../../protocol/session/reply.ts';
import type { Language, Rules } from '../../protocol/settings/effective-settings.ts';
import { stepsToShow } from '../plan/fan-out.ts';
import { executorOf, isLeftOutByModel, isUnproven, rolledBackSteps, runningStep } from '../plan/plan-steps.ts';
import { countCompletedSteps } from '../plan/step-graph.ts';
import { describeBrokenNeeds } from '../plan/step-readiness.ts';
import type { StepCheckpoints } from '../session/run-state.ts';
import { sessionStanding } from '../session/session-queries.ts';
import type { RunEndReason, Session } from '../session/session-state.ts';
import { ownWait, remediesOf } from '../session/waiting-for.ts';
import { formatQuestion } from './questions.ts';
import { REPLY_WORDING } from './reply-wording.ts';
import type { ReplyWording } from './reply-wording-english.ts';

/** One mark for each status of a step. */
export const STATUS_MARKS: Readonly<Record<Step['status'], string>> = {
  pending: '○',
  running: '▶',
  completed: '✓',
  failed: '✗',
  blocked: '⚑',
  skipped: '–',
};
/** The mark of a step that continues once its plan is resumed. */
const PAUSED_MARK = '‖';
/** The mark of a step that was worked on when its plan was cancelled. */
const CANCELLED_MARK = '⊘';

const SUMMARY_WORDING = {
  en: {
    goal: 'Goal',
    progress: 'Progress',
    steps: 'steps done',
    planning: 'planning, no steps yet',
    noSteps: 'no steps',
    undeclared:
      'no steps: the model declared none ("[Step] …"). /mode plan-act has those of the next task planned first',
    current: 'Current step',
    spent: 'Iterations',
    assumed: 'assumed done',
    unproven: 'unproven',
    by: 'marked done by a person',
    leftOut: 'skipped by a person',
    planned: 'Planned by',
    undone: 'Undone',
    more: (count: number) => `… ${count} more steps; plan.json has them all`,
  },
  zh: {
    goal: '目标',
    progress: '进度',
    steps: '步已完成',
    planning: '计划中，还没有步骤',
    noSteps: '没有步骤',
    undeclared: '没有步骤：模型没有声明任何步骤（“[Step] …”）。/mode plan-act 会先为下一个任务制定计划',
    current: '当前步骤',
    spent: '已用迭代',
    assumed: '推定完成',
    unproven: '未经证实',
    by: '手动完成',
    leftOut: '手动跳过',
    planned: '计划来自',
    undone: '已撤销',
    more: (count: number) => `…… 另有 ${count} 个步骤；全部见 plan.json`,
  },
};

/**
 * Steps listed in a text, and characters of each description: a reply is meant to be read; `plan.json` has everything.
 */
const MAX_STEPS_SHOWN = 100;
const MAX_STEP_CHARS = 500;
/** How many of the listed steps come before the current one. */
const STEPS_BEFORE_CURRENT = 20;

/**
 * The status of a plan, for a person: goal, count, current step with its progress, iterations spent, steps with
 * results; if there are more than `most`, those around the current one.
 */
export function formatPlanSummary(plan: Plan, language: Language, most = MAX_STEPS_SHOWN): string {
  const words = SUMMARY_WORDING[language];
  const current = runningStep(plan);
  const back = rolledBackSteps(plan.steps);
  const ended = plan.status === 'paused' && plan.iteration_count > 0 ? words.undeclared : words.noSteps;
  const none = plan.status === 'running' ? words.planning : ended;
  const count = plan.steps.length === 0 ? none : `${countCompletedSteps(plan)}/${plan.steps.length} ${words.steps}`;
  return [
    `${words.goal}: ${shortFirstLine(plan.goal)}`,
    `${words.progress}: ${count}`,
    ...(current
      ? [`${words.current}: ${truncate(current.description, MAX_STEP_CHARS)}${progressSuffix(current)}`]
      : []),
    `${words.spent}: ${plan.iteration_count}`,
    ...(plan.steps.length > 0 ? [''] : []),
    ...stepLines(plan, language, most),
    ...describeBrokenNeeds(plan, language),
    ...((plan.planned_by ?? 'planner') !== 'planner' ? ['', `${words.planned}: ${plan.planned_by}`] : []),
    ...(back.length > 0 ? [`${words.undone}: ${back.map((step) => step.id).join(', ')}`] : []),
  ].join('\n');
}

function stepLines(plan: Plan, language: Language, most: number): string[] {
  const lines = stepsToShow(plan);
  const current = lines.findIndex(({ status }) => status === 'running' || status === 'pending');
  const first = Math.max(0, Math.min(current - STEPS_BEFORE_CURRENT, lines.length - most));
  const more = (count: number) => (count > 0 ? [SUMMARY_WORDING[language].more(count)] : []);
  return [
    ...more(first),
    ...lines.slice(first, first + most).map((step, n) => formatStepLine(plan, step, first + n + 1, language)),
    ...more(lines.length - first - most),
  ];
}

/** One step of a plan as a line: number, mark, description, progress and result. */
export function formatStepLine(
  { status }: Pick<Plan, 'status'>,
  step: Step,
  number: number,
  language: Language,
): string {
  const rests = status === 'cancelled' ? CANCELLED_MARK : PAUSED_MARK;
  const mark = step.status === 'running' && status !== 'running' ? rests : STATUS_MARKS[step.status];
  const words = SUMMARY_WORDING[language];
  const how =
    step.completed_by === 'timeout'
      ? ` (${words.assumed})`
      : isUnproven(step)
        ? ` (${words.unproven})`
        : isByHand(step.completed_by)
          ? ` (${step.status === 'skipped' ? words.leftOut : words.by})`
          : '';
  const outcome = step.error ?? step.result;
  return `${number}. ${mark} ${truncate(step.description, MAX_STEP_CHARS)}${step.status === 'completed' ? '' : progressSuffix(step)}${how}${outcome ? ` — ${truncate(oneLine(outcome), 160)}` : ''}`;
}

function progressSuffix(step: Step): string {
  return step.progress ? ` (${step.progress.current}/${step.progress.total})` : '';
}

function shortFirstLine(text: string): string {
  const [line = '', ...rest] = text.trim().split('\n');
  return truncate(line, 300) + (rest.length > 0 ? ' …' : '');
}

/** The text of `/status`: what is running or why the run stopped, what was spent, and the status of the plan. */
export function formatStatus(session: Session, language: Language): string {
  const words = REPLY_WORDING[language];
  const { browserHold: hold } = session;
  return [
    ...(session.run ? runningLines(session, language) : restingLines(session, language)),
    ...(hold ? [words.browser.heldBy(hold.from, hold.since)] : []),
    session.plan ? `\n${formatPlanSummary(session.plan, language)}` : words.noPlan,
    ...waysOn(session, words),
  ].join('\n');
}

/** What resumes a run that was paused or failed, and what comes before it, in its reply and after it. */
export function resumingWords(status: 'paused' | 'failed', reason: string, words: ReplyWording): string[] {
  if (reason === RUN_END.ceiling) return [];
  const commands = asCommands(remediesOf(reason));
  if (commands.length > 0) return [words.onceRepaired(words.helps(commands))];
  return [status === 'paused' ? words.goOn : words.again];
}

const asCommands = (commands: readonly string[][]): string[] => commands.map((one) => `agentctl ${one.join(' ')}`);

/** What a person can say or do now; the text of a run that waits says it itself. */
function waysOn(session: Session, words: ReplyWording): string[] {
  const wait = ownWait(session);
  const standing = sessionStanding(session);
  if (wait?.needs === 'time') return [`\n${words.helps(asCommands(wait.commands))}`];
  if (!wait || (standing !== 'paused' && standing !== 'failed')) return [];
  const why = wait.why === wait.what ? [] : [wait.why];
  return [`\n${[...why, ...resumingWords(standing, wait.what, words)].join('\n')}`];
}

function runningLines(session: Session, language: Language): string[] {
  const { run, plan } = session;
  if (!run) return [];
  const words = REPLY_WORDING[language];
  // A command has no text of its own: it resumes the plan.
  const goal = mapGet(session.messages, run.message)?.text.trim() || plan?.goal || run.message;
  const failure = run.failure?.last;
  const { iterations, tokens, cost } = run.spent;
  const mark = tokenMark(run.spent);
  return [
    words.working(goal.split('\n')[0] ?? goal),
    words.spent(`${iterations}/${run.limits.iterations}`, `${mark}${tokens}`, cost?.toFixed(4) ?? null),
    ...(failure?.retry_at ? [words.retrying(failure.error, failure.attempt, failure.retry_at)] : []),
  ];
}

function restingLines(session: Session, language: Language): string[] {
  const words = REPLY_WORDING[language];
  const { plan, runEnd } = session;
  const standing = sessionStanding(session);
  const isOfRun =
    !runEnd || standing === 'none' || standing === (runEnd.status === 'done' ? 'completed' : runEnd.status);
  // A person has settled in the plan what the run waited for.
  const isOver = !isOfRun && (runEnd.status === 'waiting' || runEnd.status === 'paused');
  return [
    words.idle,
    ...(runEnd && !isOver ? [words.lastRun(runEnd.status, runEnd.reason)] : []),
    ...(plan && !isOfRun ? [words.planIs(plan.status, plan.reason ?? '')] : []),
    ...(standing === 'waiting' ? waitingText(session) : []),
  ];
}

/** What a session waits for and what answers it, as its reply said. */
function waitingText({ question, runEnd, doubt }: Session): string[] {
  if (question) return [`\n${formatQuestion(question.text, question.choices)}`];
  // What is wrong with settings is said where it is checked again.
  const isSaid = runEnd?.status === 'waiting' && runEnd.reason !== RUN_END.settings && doubt === null;
  return isSaid ? [`\n${runEnd.text}`] : [];
}

/** What a step changed in `work/`, by its checkpoints: "report.md, data.csv (removed), and 3 more". */
export function formatStepFiles({ changed, files }: StepCheckpoints): string {
  const named = files.map(({ path, is }) => (is === 'changed' ? path : `${path} (${is})`));
  return [...named, ...(changed > files.length ? [`and ${changed - files.length} more`] : [])].join(', ');
}

type Words = (typeof REPLY_WORDING)[Language];

/**
 * What a reply adds about the steps: what was only assumed, what failed without failing the task, what was left out,
 * and who did not do what they name.
 */
export function planNotes(plan: Plan, { status }: RunEndReason, rules: Rules, words: Words): string[] {
  const isDone = status === 'done';
  const assumed = isDone ? plan.steps.filter((step) => step.completed_by === 'timeout').map(shortStep) : [];
  const unproven = isDone ? plan.steps.filter(isUnproven).map(shortStep) : [];
  const failed = isDone ? failedParts(plan).map(stepWithReason) : [];
  const leftOut = isDone ? leftOutSteps(plan).map(stepWithReason) : [];
  return [
    ...(assumed.length > 0 ? [words.assumed(firstFew(assumed).join('; '))] : []),
    ...(unproven.length === 0
      ? []
      : plan.steps.some((step) => step.status === 'completed' && !isUnproven(step))
        ? [words.unproven(firstFew(unproven).join('; '))]
        : [words.noTool]),
    ...(failed.length > 0 ? [words.failedSteps(firstFew(failed).join('; '))] : []),
    ...(leftOut.length > 0 ? [words.leftOut(firstFew(leftOut).join('; '))] : []),
    ...unknownAgentNotes(plan, rules, words),
  ];
}

/** Failed steps; of groups, those of their steps that failed. */
function failedParts({ steps }: Plan): Step[] {
  const groups = new Set(steps.map(({ parent }) => parent));
  return steps.filter(({ id, status }) => status === 'failed' && !groups.has(id));
}

/** Steps that the model left out, and those that were skipped because they need one of them. */
function leftOutSteps({ steps }: Plan): Step[] {
  const out = new Set(steps.filter(isLeftOutByModel).map(({ id }) => id));
  const isHeldBack = (step: Step) => {
    const cause = step.because;
    return !out.has(step.id) && cause?.relation === 'needs' && out.has(cause.step);
  };
  for (let more = steps.filter(isHeldBack); more.length > 0; more = steps.filter(isHeldBack))
    for (const { id } of more) out.add(id);
  return steps.filter(({ id }) => out.has(id));
}

const stepWithReason = (step: Step): string =>
  step.error ? `${shortStep(step)} (${truncate(step.error, MAX_NAMED_CHARS)})` : shortStep(step);

/** Characters of a step named in a reply. */
export const MAX_NAMED_CHARS = 300;
const shortStep = ({ description }: Step): string => truncate(description, MAX_NAMED_CHARS);

/** Steps that "continue" leaves alone. */
export const stepsBlockedByPerson = ({ steps }: Plan, editedByPerson: readonly string[]): string[] =>
  steps.flatMap(({ id, status, description }) =>
    status === 'blocked' && editedByPerson.includes(`${id}:status`)
      ? [`${id} (${truncate(description, MAX_NAMED_CHARS)})`]
      : [],
  );

/** Steps whose tag named an unknown agent: the reply says who did them. */
function unknownAgentNotes(plan: Plan, rules: Rules, words: Words): string[] {
  if (!plan.planned_by || Object.keys(rules.agents).length === 0) return [];
  const notes = plan.steps.flatMap((step) => {
    const { agent, unknown } = executorOf(step, rules);
    const did = agent === undefined && step.started_at !== undefined && step.status !== 'failed';
    return unknown !== undefined && did ? [words.nobody(unknown, shortStep(step))] : [];
  });
  return firstFew(notes);
}
