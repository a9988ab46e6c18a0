import { truncate } from '../../base/strings.ts';
import type { Plan, Step } from '../../protocol/session/plan.ts';
import { indentContinuation } from '../../protocol/session/prompt-tags.ts';
import { parseStepDeclarations } from '../detect/step-tags.ts';
import { currentPolicy } from '../modes/mode-choice.ts';
import { stepsToShow } from '../plan/fan-out.ts';
import { isOpenStep, openSteps, runningStep } from '../plan/plan-steps.ts';
import { countCompletedSteps } from '../plan/step-graph.ts';
import { describeBrokenNeeds } from '../plan/step-readiness.ts';
import { isAboutPlan } from '../session/run-state.ts';
import { activePlan } from '../session/session-queries.ts';
import type { Session } from '../session/session-state.ts';
import type { ModelWording } from './model-wording.ts';

/**
 * The tools in a request: the names of those the model may call, and the problems with others, as lines for the block.
 */
export type ToolFacts = { names: readonly string[]; notices: readonly string[] };

/**
 * The daemon's block at the end of each request: the current plan, questions, changes. It stands alone in the last
 * message, in the daemon's tag, and is never part of the stored conversation, so earlier messages stay unchanged and a
 * provider's prefix cache stays valid. Null if there is nothing to say.
 */
export function buildStatusBlock(session: Session, words: ModelWording, { names, notices }: ToolFacts): string | null {
  const updates = [
    ...openItemLines(session, words),
    ...noticeLines(session, words),
    ...(session.run?.failure?.last.hint === 'call' ? [words.callAsText] : []),
    ...notices,
    ...nudgeLines(session, words),
    ...limitLines(session, words),
    ...toolAlternatives(session, names).map(({ tool, failures, others }) =>
      words.detour(tool, failures, others.join(', ')),
    ),
  ];
  const lines = [
    ...pausedPlanLines(session, words).map(indentContinuation),
    ...planLines(session, words),
    ...updates.map(indentContinuation),
  ];
  return lines.length === 0 ? null : lines.join('\n');
}

function pausedPlanLines(session: Session, words: ModelWording): string[] {
  const { plan, run } = session;
  return plan && run?.besidePlan
    ? [words.beside(truncate(plan.goal, 300), countCompletedSteps(plan), plan.steps.length)]
    : [];
}

function planLines(session: Session, words: ModelWording): string[] {
  const plan = activePlan(session);
  if (!plan) return [];
  const isResumed = session.turn === null && session.run?.isResumed && plan.iteration_count > 0;
  const { workPrompt } = currentPolicy(session);
  return [
    `${words.goal}: ${indentContinuation(truncate(plan.goal, 2000))}`,
    ...stepLines(plan, words),
    ...(plan.steps.length > 0 ? [closingLine(plan, words)] : []),
    ...describeBrokenNeeds(plan, words.language).map(indentContinuation),
    ...(workPrompt ? [workPrompt[words.language]] : []),
    ...(isResumed ? [words.resumed] : []),
  ];
}

/** How many items are open, in a mode that limits them, and what was left out because of the limit. */
function openItemLines(session: Session, words: ModelWording): string[] {
  const plan = activePlan(session);
  if (!plan) return [];
  const { maxOpenSteps, mergeHintAt } = currentPolicy(session);
  const open = openSteps(plan).map((step) => step.description);
  const left = parseStepDeclarations(
    session.turn?.text ?? '',
    [...open, ...(session.turn?.declaredSteps ?? [])],
    Infinity,
  );
  if (open.length >= maxOpenSteps && left.length > 0)
    return [words.full(maxOpenSteps, left.map((one) => `"${one}"`).join(', '))];
  return mergeHintAt !== undefined && open.length >= mergeHintAt ? [words.crowded(open.length, maxOpenSteps)] : [];
}

/** The steps as the model sees them: finished steps with their results, the current step, open steps. */
export function stepLines(plan: Plan, words: ModelWording): string[] {
  if (plan.steps.length === 0) return [words.planning];
  const shown = stepsToShow(plan);
  const closed = shown.filter((step) => step.status !== 'pending' && step.status !== 'running');
  const current = runningStep(plan);
  const later = shown.filter(({ id, status }) => (status === 'pending' || status === 'running') && id !== current?.id);
  const line = (step: Step) =>
    `- ${closedStepLine(step, words, current?.needs?.includes(step.id) ? NEEDED_RESULT_LENGTH : 500)}`;
  return [
    ...(closed.length > 0 ? [`${words.finished}:`, ...closed.map(line)] : []),
    ...(current ? [currentStepLine(plan, current, words)] : []),
    ...(later.length > 0 ? [`${words.later}:`, ...openStepLines(later, words)] : []),
  ];
}

/** What is to be done at the end of the step, or of all. */
function closingLine(plan: Plan, words: ModelWording): string {
  if (openSteps(plan).length > 0) return words.whenDone;
  return plan.steps.every(({ status }) => status === 'completed' || status === 'skipped')
    ? words.allDone
    : words.noneOpen;
}

/** Open steps listed at once: a plan of several hundred would fill every request. */
const MAX_OPEN_STEPS_SHOWN = 50;

function openStepLines(later: readonly Step[], words: ModelWording): string[] {
  const lines = later.slice(0, MAX_OPEN_STEPS_SHOWN).map((step) => `- ${openStepLine(step, words)}`);
  return later.length > MAX_OPEN_STEPS_SHOWN ? [...lines, words.more(later.length - MAX_OPEN_STEPS_SHOWN)] : lines;
}

function openStepLine({ id, description, needs = [] }: Step, words: ModelWording): string {
  return `${id}: ${indentContinuation(description)}${needs.length > 0 ? words.needs(needs.join(', ')) : ''}`;
}

/** Characters of a result that the current step builds on; its files are named too. */
const NEEDED_RESULT_LENGTH = 2000;

function closedStepLine(step: Step, words: ModelWording, most: number): string {
  const doubts = new Map(Object.entries({ timeout: words.assumed, text: words.unproven }));
  const how = step.status === 'completed' ? (doubts.get(step.completed_by ?? '') ?? '✓') : step.status;
  const outcome = step.result ?? step.error;
  const files = most === NEEDED_RESULT_LENGTH && step.attachments ? ` [${step.attachments.join(', ')}]` : '';
  const count = step.progress && step.each ? ` (${step.progress.current}/${step.progress.total})` : '';
  return `${step.id} ${how}: ${indentContinuation(step.description)}${count}${outcome ? ` → ${indentContinuation(truncate(outcome, most))}` : ''}${files}`;
}

function currentStepLine(plan: Plan, step: Step, words: ModelWording): string {
  const progress = step.progress ? ` (${step.progress.current}/${step.progress.total})` : '';
  const notes = step.notes ? `\n    ${indentContinuation(step.notes)}` : '';
  const command = step.command ? `\n  $ ${indentContinuation(step.command)}` : '';
  return `${words.current(plan.steps.indexOf(step) + 1, plan.steps.length)}: ${indentContinuation(step.description)}${progress}${command}${notes}`;
}

function noticeLines(session: Session, words: ModelWording): string[] {
  const named = (id: string) => session.plan?.steps.find((step) => step.id === id)?.description ?? id;
  const due = session.notices.filter((notice) =>
    session.run?.besidePlan
      ? !isAboutPlan(notice)
      : notice.about !== 'reopened' || isOpenStep(session.plan, notice.step),
  );
  return due.map((notice) => {
    switch (notice.about) {
      case 'edit':
        return `${words.edited}: ${notice.text}`;
      case 'again':
        return words.again(named(notice.step), notice.attempt, notice.error);
      case 'reopened':
        return words.reopened(named(notice.step), notice.said);
      case 'browser':
        return words.browserUsed;
      case 'restored':
        return words.restored(notice.files);
      case 'truncated':
        return words.truncated;
      case 'unfinished':
        return words.unfinished(notice.finish);
      case 'refused':
        if (notice.veto === 'no_work') return words.unworked(named(notice.step));
        return notice.veto === 'check_failed'
          ? words.unchecked(named(notice.step), notice.evidence)
          : words.vetoed(named(notice.step));
      default:
        return notice satisfies never;
    }
  });
}

function nudgeLines(session: Session, words: ModelWording): string[] {
  const plan = activePlan(session);
  const { run } = session;
  if (!run || !plan) return [];
  const step = runningStep(plan) ?? openSteps(plan)[0];
  const iterations = step?.iterations ?? 0;
  const asked = !step
    ? []
    : session.askedIfDone === step.id
      ? [words.asked(step.description, iterations)]
      : session.askedInDoubt === iterations
        ? [words.askedInDoubt(step.description)]
        : [];
  const reminder = step && run.idleAnswers > 0 ? [words.reminder(step.description)] : [];
  const { repeats } = run.limits;
  const over = repeats > 0 ? run.repeatedCall.count - repeats : -1;
  const repeat =
    over === 0
      ? [words.nudge(run.repeatedCall.call, run.repeatedCall.count)]
      : over > 0
        ? [words.another(run.repeatedCall.call)]
        : [];
  return [...asked, ...reminder, ...repeat];
}

/** From these shares of a limit on, the model is told: it may still come to a good end by itself. */
const LIMIT_SHARES = { low: 0.66, critical: 0.9 };

/** The limit of the run that is nearest to its end, once that is near. */
function limitLines({ run }: Session, words: ModelWording): string[] {
  if (!run) return [];
  const { limits, spent, elapsedMs } = run;
  const used: Array<[name: string, spent: number, limit: number | null]> = [
    ['iterations', spent.iterations, limits.iterations],
    ['tokens', spent.tokens, limits.tokens],
    ['cost', spent.cost ?? 0, limits.cost],
    ['minutes', elapsedMs / 60_000, limits.minutes],
  ];
  const [nearest] = used
    .flatMap(([name, amount, limit]) => (limit === null ? [] : [{ name, amount, limit, share: amount / limit }]))
    .sort((one, other) => other.share - one.share);
  if (!nearest || nearest.share < LIMIT_SHARES.low) return [];
  const { name, amount, limit, share } = nearest;
  const shown = Number.isInteger(amount) ? String(amount) : amount.toFixed(1);
  return [words.nearLimit(name, shown, String(limit), share >= LIMIT_SHARES.critical)];
}

/**
 * Consecutive failures of one tool in one step after which the others are named (manus_demo has the same threshold).
 */
const FAILURES_BEFORE_HINT = 2;
/** A longer list of names does not help. */
const MAX_TOOLS_NAMED = 8;

/** Tools that keep failing in the current step, each with those that have not: what to use instead. */
function toolAlternatives(
  session: Session,
  tools: readonly string[],
): Array<{ tool: string; failures: number; others: string[] }> {
  // They are counted in a plan, and stay until a step of another one starts.
  const often = Object.entries(activePlan(session) ? session.toolFailures : {}).filter(
    ([, failures]) => failures >= FAILURES_BEFORE_HINT,
  );
  const others = tools.filter((name) => !often.some(([tool]) => tool === name)).slice(0, MAX_TOOLS_NAMED);
  return others.length === 0 ? [] : often.map(([tool, failures]) => ({ tool, failures, others }));
}
