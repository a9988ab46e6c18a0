import type { Step } from '../../protocol/plan.ts';
import type { Language } from '../language.ts';

const STEPS: Record<Language, readonly string[]> = {
  en: ['Understand what is asked and look at what is there', 'Do the task', 'Check the result against what was asked'],
  zh: ['弄清要求并查看现有资料', '完成任务', '对照要求检查结果'],
};

/** The plan of a run whose planner never made one: three plain steps (as OpenManus does), in the language of the task. */
export function fallbackSteps(language: Language, stepNo = 0): Step[] {
  return STEPS[language].map((description, n) => ({ id: `step_${stepNo + n + 1}`, description, status: 'pending' }));
}
