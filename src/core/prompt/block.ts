import type { Plan, Step } from '../../protocol/plan.ts';
import { setIn } from '../../protocol/provenance.ts';
import { clip } from '../../protocol/recorded.ts';
import { completedSteps } from '../completed.ts';
import { parseStepDeclarations } from '../declarations.ts';
import { policyOf } from '../modes/index.ts';
import { brokenNeeds } from '../needs.ts';
import { shownSteps } from '../parts/family.ts';
import { detours } from '../router.ts';
import { activePlan, runningStep, type Session } from '../session.ts';
import { openSteps } from '../steps.ts';
import type { Wording } from './wording.ts';

/** What a request says of tools: the names of those the model may call, and what is amiss with others, in lines for the block. */
export type OfTools = { names: readonly string[]; notices: readonly string[] };

/**
 * What the daemon tells the model at the end of each request: the plan as it stands, questions, differences. It stands alone
 * in the last message, in the daemon's tag, and is never part of the stored conversation, so earlier messages stay as they were and a provider's
 * prefix cache keeps its worth. Null where there is nothing to say.
 */
export function daemonBlock(session: Session, words: Wording, { names, notices }: OfTools): string | null {
  const news = [
    ...listLines(session, words),
    ...noticeLines(session, words),
    ...notices,
    ...nudges(session, words),
    ...detours(session, names).map(({ tool, failures, others }) => words.detour(tool, failures, others.join(', '))),
  ];
  const lines = [...beside(session, words).map(setIn), ...planLines(session, words), ...news.map(setIn)];
  return lines.length === 0 ? null : lines.join('\n');
}

function beside(session: Session, words: Wording): string[] {
  const { plan, run } = session;
  return plan && run?.beside ? [words.beside(clip(plan.goal, 300), completedSteps(plan), plan.steps.length)] : [];
}

function planLines(session: Session, words: Wording): string[] {
  const plan = activePlan(session);
  if (!plan) return [];
  const resumed = session.turn === null && plan.iteration_count > 0 ? [words.resumed] : [];
  const { tells } = policyOf(session);
  return [
    `${words.goal}: ${setIn(clip(plan.goal, 2000))}`,
    ...planContext(plan, words),
    ...brokenNeeds(plan, words.language).map(setIn),
    ...(tells ? [tells[words.language]] : []),
    ...resumed,
  ];
}

/** How many items are open, in a mode that keeps them few, and what was left out because they were too many. */
function listLines(session: Session, words: Wording): string[] {
  const plan = activePlan(session);
  if (!plan) return [];
  const { most, crowded } = policyOf(session);
  const open = openSteps(plan).map((step) => step.description);
  const left = parseStepDeclarations(session.turn?.text ?? '', [...open, ...(session.turn?.declared ?? [])], Infinity);
  if (open.length >= most && left.length > 0) return [words.full(most, left.map((one) => `"${one}"`).join(', '))];
  return crowded !== undefined && open.length >= crowded ? [words.crowded(open.length, most)] : [];
}

/** The steps as the model is told them: what is finished with its results, what is current, what is open. */
export function planContext(plan: Plan, words: Wording): string[] {
  if (plan.steps.length === 0) return [words.planning];
  const shown = shownSteps(plan);
  const closed = shown.filter((step) => step.status !== 'pending' && step.status !== 'running');
  const current = runningStep(plan);
  const later = shown.filter(({ id, status }) => (status === 'pending' || status === 'running') && id !== current?.id);
  const line = (step: Step) => `- ${closedLine(step, words, current?.needs?.includes(step.id) ? NEEDED : 500)}`;
  return [
    ...(closed.length > 0 ? [`${words.finished}:`, ...closed.map(line)] : []),
    ...(current ? [currentLine(plan, current, words)] : []),
    ...(later.length > 0 ? [`${words.later}:`, ...shownLater(later, words)] : []),
    openSteps(plan).length === 0 ? words.allDone : words.whenDone,
  ];
}

/** Open steps that are told at once: a plan of some hundred would fill every request. */
const TOLD = 50;

function shownLater(later: readonly Step[], words: Wording): string[] {
  const lines = later.slice(0, TOLD).map((step) => `- ${laterLine(step, words)}`);
  return later.length > TOLD ? [...lines, words.more(later.length - TOLD)] : lines;
}

function laterLine({ id, description, needs = [] }: Step, words: Wording): string {
  return `${id}: ${setIn(description)}${needs.length > 0 ? words.needs(needs.join(', ')) : ''}`;
}

/** Characters of a result that the current step builds on; its files are named too. */
const NEEDED = 2000;

function closedLine(step: Step, words: Wording, most: number): string {
  const how = step.status === 'completed' ? (step.completed_by === 'timeout' ? `${words.assumed}` : '✓') : step.status;
  const outcome = step.result ?? step.error;
  const files = most === NEEDED && step.attachments ? ` [${step.attachments.join(', ')}]` : '';
  const count = step.progress && step.each ? ` (${step.progress.current}/${step.progress.total})` : '';
  return `${step.id} ${how}: ${setIn(step.description)}${count}${outcome ? ` → ${setIn(clip(outcome, most))}` : ''}${files}`;
}

function currentLine(plan: Plan, step: Step, words: Wording): string {
  const progress = step.progress ? ` (${step.progress.current}/${step.progress.total})` : '';
  const notes = step.notes ? `\n    ${setIn(step.notes)}` : '';
  const command = step.command ? `\n  $ ${setIn(step.command)}` : '';
  return `${words.current(plan.steps.indexOf(step) + 1, plan.steps.length)}: ${setIn(step.description)}${progress}${command}${notes}`;
}

function noticeLines(session: Session, words: Wording): string[] {
  const named = (id: string) => session.plan?.steps.find((step) => step.id === id)?.description ?? id;
  return session.notices.map((notice) => {
    switch (notice.about) {
      case 'edit':
        return `${words.edited}: ${notice.text}`;
      case 'again':
        return words.again(named(notice.step), notice.attempt, notice.error);
      case 'reopened':
        return words.reopened(named(notice.step), notice.said);
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

function nudges(session: Session, words: Wording): string[] {
  const plan = activePlan(session);
  const { run } = session;
  if (!run || !plan) return [];
  const step = runningStep(plan) ?? openSteps(plan)[0];
  const asked = step && session.asked === step.id ? [words.asked(step.description, step.iterations ?? 0)] : [];
  const reminder = step && run.quiet > 0 ? [words.reminder(step.description)] : [];
  const { repeats } = run.limits;
  const over = repeats > 0 ? run.repeat.count - repeats : -1;
  const repeat =
    over === 0 ? [words.nudge(run.repeat.call, run.repeat.count)] : over > 0 ? [words.another(run.repeat.call)] : [];
  return [...asked, ...reminder, ...repeat];
}
