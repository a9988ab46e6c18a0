import type { Step } from '../../protocol/plan.ts';
import { clip } from '../../protocol/recorded.ts';
import type { Language } from '../language.ts';

const STEPS: Record<Language, readonly string[]> = {
  en: ['Understand what is asked and look at what is there', 'Do the task', 'Check the result against what was asked'],
  zh: ['弄清要求并查看现有资料', '完成任务', '对照要求检查结果'],
};

/** The plan of a run whose planner never made one: three plain steps (as OpenManus does), in the language of the task. */
export function fallbackSteps(language: Language, stepNo = 0): Step[] {
  return STEPS[language].map((description, n) => ({ id: `step_${stepNo + n + 1}`, description, status: 'pending' }));
}

const WHOLE: Record<Language, (goal: string) => string> = {
  en: (goal) => `Do the whole task: ${goal}`,
  zh: (goal) => `完成整个任务：${goal}`,
};

/** The same where steps appear as the work goes: one step that holds the whole task (as Manus Demo does). */
export function wholeTask(language: Language, goal: string): Step[] {
  const description = WHOLE[language](clip(goal.replace(/\s+/g, ' '), 300));
  return [{ id: 'step_1', description, status: 'pending' }];
}
