import type { Step } from '../../protocol/plan.ts';
import { clip } from '../../protocol/recorded.ts';
import type { Language } from '../language.ts';
import { activePlan, type Session } from '../session.ts';

const WORDS = {
  en: {
    task: 'Do this one step of a larger plan, and only this step.',
    step: 'The step',
    goal: 'The goal of the whole plan, for your orientation',
    results: 'What the steps before it found',
    files: 'Files they wrote',
    notes: 'Notes',
    answer: 'End with what came out of it: facts and file names, so that the steps after it can use them.',
  },
  zh: {
    task: '请完成一个较大计划中的这一个步骤，只做这一步。',
    step: '步骤',
    goal: '整个计划的目标，供参考',
    results: '之前的步骤得到的结果',
    files: '它们写出的文件',
    notes: '备注',
    answer: '最后说明结果：事实和文件名，供后面的步骤使用。',
  },
};

/** What a child session is told: its step, the goal, the results of the steps it needs, and their files. */
export function taskText(session: Session, step: Step, language: Language): string {
  const words = WORDS[language];
  const plan = activePlan(session);
  const before = (plan?.steps ?? []).filter((one) =>
    step.needs ? step.needs.includes(one.id) : one.status === 'completed',
  );
  const results = before.flatMap((one) =>
    one.result || one.error ? [`- ${one.description}: ${clip(one.result ?? one.error ?? '', 2000)}`] : [],
  );
  const files = before.flatMap((one) => one.attachments ?? []);
  return [
    words.task,
    `${words.step}: ${step.description}`,
    ...(step.notes ? [`${words.notes}: ${step.notes}`] : []),
    `${words.goal}: ${clip(plan?.goal ?? '', 2000)}`,
    ...(results.length > 0 ? [`${words.results}:\n${results.join('\n')}`] : []),
    ...(files.length > 0 ? [`${words.files}: ${files.join(', ')}`] : []),
    words.answer,
  ].join('\n\n');
}
