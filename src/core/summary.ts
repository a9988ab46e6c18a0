import type { Plan, Step } from '../protocol/plan.ts';
import { clip } from '../protocol/recorded.ts';
import { completedSteps } from './completed.ts';
import type { Language } from './language.ts';
import { brokenNeeds } from './needs.ts';
import { shownSteps } from './parts/family.ts';
import { runningStep } from './session.ts';
import { undone } from './steps.ts';

/** One mark for each status of a step. */
export const MARKS: Readonly<Record<Step['status'], string>> = {
  pending: '○',
  running: '▶',
  completed: '✓',
  failed: '✗',
  blocked: '⚑',
  skipped: '–',
};

const WORDS = {
  en: {
    goal: 'Goal',
    progress: 'Progress',
    steps: 'steps done',
    planning: 'planning, no steps declared yet',
    current: 'Current step',
    spent: 'Iterations',
    assumed: 'assumed done',
    by: 'done by hand',
    planned: 'Planned by',
    undone: 'Undone',
  },
  zh: {
    goal: '目标',
    progress: '进度',
    steps: '步已完成',
    planning: '计划中，还没有步骤',
    current: '当前步骤',
    spent: '已用迭代',
    assumed: '推定完成',
    by: '手动完成',
    planned: '计划来自',
    undone: '已撤销',
  },
};

/** Where a plan stands, for a person: goal, count, current step with its progress, iterations spent, all steps with results. */
export function planSummary(plan: Plan, language: Language): string {
  const words = WORDS[language];
  const current = runningStep(plan);
  const back = undone(plan.steps);
  const count =
    plan.steps.length === 0 ? words.planning : `${completedSteps(plan)}/${plan.steps.length} ${words.steps}`;
  return [
    `${words.goal}: ${firstLine(plan.goal)}`,
    `${words.progress}: ${count}`,
    ...(current ? [`${words.current}: ${current.description}${progressOf(current)}`] : []),
    `${words.spent}: ${plan.iteration_count}`,
    ...(plan.steps.length > 0 ? [''] : []),
    ...shownSteps(plan).map((step, place) => stepLine(step, place + 1, language)),
    ...brokenNeeds(plan, language),
    ...((plan.planned_by ?? 'planner') !== 'planner' ? ['', `${words.planned}: ${plan.planned_by}`] : []),
    ...(back.length > 0 ? [`${words.undone}: ${back.map((step) => step.id).join(', ')}`] : []),
  ].join('\n');
}

/** One step in a line: number, mark, description, progress, and what came out of it. */
export function stepLine(step: Step, number: number, language: Language): string {
  const words = WORDS[language];
  const how =
    step.completed_by === 'timeout' ? ` (${words.assumed})` : step.completed_by === 'person' ? ` (${words.by})` : '';
  const outcome = step.error ?? step.result;
  return `${number}. ${MARKS[step.status]} ${step.description}${step.status === 'completed' ? '' : progressOf(step)}${how}${outcome ? ` — ${clip(oneLine(outcome), 160)}` : ''}`;
}

function progressOf(step: Step): string {
  return step.progress ? ` (${step.progress.current}/${step.progress.total})` : '';
}

function firstLine(text: string): string {
  const [line = '', ...rest] = text.trim().split('\n');
  return clip(line, 300) + (rest.length > 0 ? ' …' : '');
}

function oneLine(text: string): string {
  return text.replace(/\s+/g, ' ').trim();
}
