import type { Step } from '../../protocol/plan.ts';
import { clip } from '../../protocol/recorded.ts';
import type { Language } from '../language.ts';
import { activePlan, type Session } from '../session.ts';
import { lineOf, structureOf, undoOf } from '../structure.ts';

const WORDS = {
  en: {
    task: 'Do this one step of a larger plan, and only this step.',
    step: 'The step',
    goal: 'The goal of the whole plan, for your orientation',
    results: 'What the steps before it found',
    files: 'Files they wrote',
    part: 'It is a part of',
    checks: 'It counts as done when these hold (paths as your tools see them)',
    notes: 'Notes',
    answer:
      'End with what came out of it: facts and file names, so that the steps after it can use them. If it cannot be done, end with [Failed: why]; if something is missing that only a person can give, with [Blocked: what].',
  },
  zh: {
    task: '请完成一个较大计划中的这一个步骤，只做这一步。',
    step: '步骤',
    goal: '整个计划的目标，供参考',
    results: '之前的步骤得到的结果',
    files: '它们写出的文件',
    part: '它属于',
    checks: '以下各项成立才算完成（路径以你的工具所见为准）',
    notes: '备注',
    answer:
      '最后说明结果：事实和文件名，供后面的步骤使用。如果做不到，以 [失败：原因] 结尾；如果缺少只有人才能提供的东西，以 [受阻：缺什么] 结尾。',
  },
};

/** What a child session is told: its step, the goal, the results of the steps it needs, and their files. */
export function taskText(session: Session, step: Step, language: Language): string {
  const words = WORDS[language];
  const plan = activePlan(session);
  const steps = plan?.steps ?? [];
  const structure = structureOf(steps);
  const line = lineOf(step, structure);
  const undo = undoOf(step, structure);
  const named = new Set([
    ...line.flatMap(({ needs = [], when = [] }) => [...needs, ...when.map((one) => one.step)]),
    ...(structure.undoes.get(undo?.id ?? '') ?? []).map((one) => one.id),
  ]);
  const before = steps.filter((one) => (named.size > 0 ? named.has(one.id) : one.status === 'completed'));
  const results = before.flatMap((one) =>
    one.result || one.error ? [`- ${one.description}: ${clip(one.result ?? one.error ?? '', 2000)}`] : [],
  );
  const files = before
    .flatMap((one) => [one, ...(structure.parts.get(one.id) ?? [])])
    .flatMap((one) => one.attachments ?? []);
  return [
    words.task,
    `${words.step}: ${step.description}`,
    ...line.slice(1).map((group) => `${words.part}: ${group.description}`),
    ...(step.done_when?.length ? [`${words.checks}: ${JSON.stringify(step.done_when)}`] : []),
    ...(step.notes ? [`${words.notes}: ${step.notes}`] : []),
    `${words.goal}: ${clip(plan?.goal ?? '', 2000)}`,
    ...(results.length > 0 ? [`${words.results}:\n${results.join('\n')}`] : []),
    ...(files.length > 0 ? [`${words.files}: ${files.join(', ')}`] : []),
    words.answer,
  ].join('\n\n');
}
