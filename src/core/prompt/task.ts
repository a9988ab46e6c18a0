import type { Plan, Step } from '../../protocol/plan.ts';
import { clip } from '../../protocol/recorded.ts';
import type { Language } from '../language.ts';
import { isLost, isWhole, namedParts, outcomeOf, partsOf, quotedName, wholeOf } from '../parts/family.ts';
import { activePlan, type Session } from '../session.ts';
import { lineOf, type Structure, structureOf, undoOf } from '../structure.ts';

const en = {
  task: 'Do this one step of a larger plan, and only this step.',
  step: 'The step',
  part: 'It is done for many parts, each by a worker of its own. Your part, and nothing else',
  together: 'What is to be put together: the outcomes of these parts, each in full',
  missing: 'Parts that failed and are missing; say so in your result',
  folder: (folder: string) =>
    `Your work folder is work/${folder}/ of the plan and yours alone; write there. You can read the rest of the plan's files beside it: ../x is what the plan calls work/x.`,
  goal: 'The goal of the whole plan, for your orientation',
  results: 'What the steps before it found',
  files: 'Files they wrote',
  notes: 'Notes',
  again: (said: string) =>
    `It was done once, as you may see above, and a person opened it again${said === '' ? '' : `, saying: ${said}`}`,
  group: 'It belongs to',
  checks: 'It counts as done when these hold (paths as your tools see them)',
  answer:
    'End with what came out of it: facts and file names, so that the steps after it can use them. If it cannot be done, end with [Failed: why]; if something is missing that only a person can give, with [Blocked: what].',
};

const zh: typeof en = {
  task: '请完成一个较大计划中的这一个步骤，只做这一步。',
  step: '步骤',
  part: '这个步骤对许多部分各做一次，各有各的执行者。你只负责这一部分',
  together: '要汇总的内容：以下各部分的完整结果',
  missing: '失败而缺少的部分，请在结果中说明',
  folder: (folder) =>
    `你的工作文件夹是计划的 work/${folder}/，只归你用，请写在这里。计划的其他文件可以在旁边读取：../x 就是计划所说的 work/x。`,
  goal: '整个计划的目标，供参考',
  results: '之前的步骤得到的结果',
  files: '它们写出的文件',
  notes: '备注',
  again: (said) => `它曾经完成过（见上文），现在被重新打开${said === '' ? '' : `，对方说：${said}`}`,
  group: '它属于',
  checks: '以下各项成立才算完成（路径以你的工具所见为准）',
  answer:
    '最后说明结果：事实和文件名，供后面的步骤使用。如果做不到，以 [失败：原因] 结尾；如果缺少只有人才能提供的东西，以 [受阻：缺什么] 结尾。',
};

const WORDS: Record<Language, typeof en> = { en, zh };

/** Characters of one outcome that are told: more than a batch ever holds, less than most windows. */
const LONGEST = 100_000;

/**
 * What a child session is told: its step, the goal, the results of the steps it needs, and their files. One that does a part is told
 * of that part alone; one that puts together, all that came out of its batch, and what is missing.
 */
export function taskText(session: Session, step: Step, language: Language, folder?: string): string {
  const words = WORDS[language];
  const plan = activePlan(session);
  const whole = wholeOf(plan, step);
  const notes = [whole?.notes, step.notes].filter(Boolean).join('\n');
  return [
    words.task,
    `${words.step}: ${whole ? [whole.description, batchOf(whole, step)].filter(Boolean).join('\n') : step.description}`,
    ...groupsOf(plan, step).map((group) => `${words.group}: ${group.description}`),
    ...(step.done_when?.length ? [`${words.checks}: ${JSON.stringify(step.done_when)}`] : []),
    ...(whole?.each ? [`${words.part}:\n${partLines(whole, step, folder).join('\n')}`] : []),
    ...(notes ? [`${words.notes}: ${notes}`] : []),
    ...session.notices.flatMap((it) => (it.about === 'reopened' && it.step === step.id ? [words.again(it.said)] : [])),
    ...(folder === undefined ? [] : [words.folder(folder)]),
    `${words.goal}: ${clip(plan?.goal ?? '', 2000)}`,
    ...(plan ? before(session, plan, step, { whole, folder, language }) : []),
    words.answer,
  ].join('\n\n');
}

const batchOf = (whole: Step, { description }: Step): string =>
  whole.gather ? (/\(\d+\/\d+\)$/.exec(description)?.[0] ?? '') : '';

function partLines({ each }: Step, { part = [], description }: Step, folder: string | undefined): string[] {
  if (part.length === 0) return [`- ${description}`];
  const isPath = each !== undefined && 'folder' in each;
  return part.map((one) => `- ${quotedName(isPath ? seenFrom(folder, one) : one)}`);
}

/** A path under the plan's `work/` as a child finds it from its own folder. */
const seenFrom = (folder: string | undefined, path: string): string =>
  folder === undefined || path.startsWith('/') ? path : `../${path.replace(/^work\//, '')}`;

type Around = { whole: Step | undefined; folder: string | undefined; language: Language };

/** Results and files of what came before: of a part, what came before the whole; of a batch, its parts. */
function before(session: Session, plan: Plan, step: Step, { whole, folder, language }: Around): string[] {
  const words = WORDS[language];
  const structure = structureOf(plan.steps);
  const named = whole?.gather ? new Set(step.needs) : namedBy(whole ?? step, structure);
  const steps = plan.steps.filter((one) => (named.size > 0 ? named.has(one.id) : !whole && one.status === 'completed'));
  const files = steps
    .flatMap((one) => [one, ...(structure.parts.get(one.id) ?? [])])
    .flatMap((one) => one.attachments ?? [])
    .map((path) => seenFrom(folder, path));
  return [
    ...(whole?.gather ? outcomes(session, plan, whole, steps, words) : results(steps, words.results)),
    ...(files.length > 0 ? [`${words.files}: ${files.map(quotedName).join(', ')}`] : []),
  ];
}

/** The groups around a step, the innermost first. */
function groupsOf(plan: Plan | null, step: Step): Step[] {
  return plan
    ? lineOf(step, structureOf(plan.steps))
        .slice(1)
        .filter((one) => !isWhole(one))
    : [];
}

/** The steps that this one, or a group it is in, waits for; of one that undoes, what it undoes. */
function namedBy(step: Step, structure: Structure): Set<string> {
  const undo = undoOf(step, structure);
  return new Set([
    ...lineOf(step, structure).flatMap(({ needs = [], when = [] }) => [...needs, ...when.map((one) => one.step)]),
    ...(structure.undoes.get(undo?.id ?? '') ?? []).map((one) => one.id),
  ]);
}

function results(steps: readonly Step[], title: string): string[] {
  const lines = steps.flatMap((one) =>
    one.result || one.error ? [`- ${one.description}: ${clip(one.result ?? one.error ?? '', 2000)}`] : [],
  );
  return lines.length > 0 ? [`${title}:\n${lines.join('\n')}`] : [];
}

function outcomes(session: Session, plan: Plan, whole: Step, steps: readonly Step[], words: typeof en): string[] {
  const lost = partsOf(plan, whole.gather?.from ?? '').filter(isLost);
  const each = steps.map((one) => `## ${one.id}: ${one.description}\n${clip(outcomeOf(session, one), LONGEST)}`);
  return [
    `${words.together}:\n\n${each.join('\n\n')}`,
    ...(lost.length > 0 ? [`${words.missing}: ${namedParts(lost)}`] : []),
  ];
}
