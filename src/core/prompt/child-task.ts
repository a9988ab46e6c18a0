import { truncate } from '../../base/strings.ts';
import type { Plan, Step } from '../../protocol/session/plan.ts';
import type { Language } from '../../protocol/settings/effective-settings.ts';
import {
  describeParts,
  fanOutStepOf,
  isFailedOrBlocked,
  isFanOutStep,
  partsOf,
  quoteIfNeeded,
} from '../plan/fan-out.ts';
import { rollbackStepAround, type StepGraph, stepGraph, stepWithGroups } from '../plan/step-graph.ts';
import { activePlan, stepOutcome } from '../session/session-queries.ts';
import type { Session } from '../session/session-state.ts';

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
  again: (comment: string) =>
    `It was done once, as you may see above, and a person opened it again${comment === '' ? '' : `, saying: ${comment}`}`,
  changed: (text: string) => `The step was changed since you had it. The person also wrote: ${text}`,
  said: (text: string) => `You had this step before. Since then the person wrote: ${text}`,
  added: (text: string) => `While the plan was being carried out, the person added: ${text}`,
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
  again: (comment) => `它曾经完成过（见上文），现在被重新打开${comment === '' ? '' : `，对方说：${comment}`}`,
  changed: (text) => `这个步骤在交给你之后有改动。对方还说：${text}`,
  said: (text) => `这个步骤以前交给过你。此后对方说：${text}`,
  added: (text) => `计划执行期间，对方补充说：${text}`,
  group: '它属于',
  checks: '以下各项成立才算完成（路径以你的工具所见为准）',
  answer:
    '最后说明结果：事实和文件名，供后面的步骤使用。如果做不到，以 [失败：原因] 结尾；如果缺少只有人才能提供的东西，以 [受阻：缺什么] 结尾。',
};

const TASK_WORDING: Record<Language, typeof en> = { en, zh };

/** Characters of one outcome that are included: more than a batch ever holds, less than most windows. */
const MAX_OUTCOME_LENGTH = 100_000;

/**
 * The task of a child session: its step, the goal, the results of the steps it needs, and their files. A child for an
 * item gets that item alone; one that combines outcomes gets those of its batch, and what is missing.
 */
export function buildChildTask(
  session: Session,
  step: Step,
  language: Language,
  {
    folder,
    said = '',
    added = '',
    isChanged = false,
  }: { folder?: string | undefined; said?: string; added?: string; isChanged?: boolean } = {},
): string {
  const words = TASK_WORDING[language];
  const plan = activePlan(session);
  const fanOutStep = fanOutStepOf(plan, step);
  const notes = [fanOutStep?.notes, step.notes].filter(Boolean).join('\n');
  return [
    words.task,
    `${words.step}: ${fanOutStep ? [fanOutStep.description, batchLabel(fanOutStep, step)].filter(Boolean).join('\n') : step.description}`,
    ...enclosingGroups(plan, step).map((group) => `${words.group}: ${group.description}`),
    ...(step.done_when?.length ? [`${words.checks}: ${JSON.stringify(step.done_when)}`] : []),
    ...(fanOutStep?.each ? [`${words.part}:\n${partLines(fanOutStep, step, folder).join('\n')}`] : []),
    ...(notes ? [`${words.notes}: ${notes}`] : []),
    ...session.notices.flatMap((it) => (it.about === 'reopened' && it.step === step.id ? [words.again(it.said)] : [])),
    ...(said === '' ? [] : [isChanged ? words.changed(said) : words.said(said)]),
    ...(added === '' ? [] : [words.added(added)]),
    ...(folder === undefined ? [] : [words.folder(folder)]),
    `${words.goal}: ${truncate(plan?.goal ?? '', 2000)}`,
    ...(plan ? precedingLines(session, plan, step, { fanOutStep, folder, language }) : []),
    words.answer,
  ].join('\n\n');
}

const batchLabel = (fanOutStep: Step, { description }: Step): string =>
  fanOutStep.gather ? (/\(\d+\/\d+\)$/.exec(description)?.[0] ?? '') : '';

function partLines({ each }: Step, { part = [], description }: Step, folder: string | undefined): string[] {
  if (part.length === 0) return [`- ${description}`];
  const isPath = each !== undefined && 'folder' in each;
  return part.map((one) => `- ${quoteIfNeeded(isPath ? pathSeenFrom(folder, one) : one)}`);
}

/** A path under the plan's `work/` as a child sees it from its own folder. */
export const pathSeenFrom = (folder: string | undefined, path: string): string =>
  folder === undefined || path.startsWith('/') ? path : `../${path.replace(/^work\//, '')}`;

type TaskContext = { fanOutStep: Step | undefined; folder: string | undefined; language: Language };

/** Results and files of earlier steps: for an item, those before its fan-out step; for a batch, those of its items. */
function precedingLines(
  session: Session,
  plan: Plan,
  step: Step,
  { fanOutStep, folder, language }: TaskContext,
): string[] {
  const words = TASK_WORDING[language];
  const graph = stepGraph(plan.steps);
  const named = fanOutStep?.gather ? new Set(step.needs) : awaitedStepIds(fanOutStep ?? step, graph);
  const steps = plan.steps.filter((one) =>
    named.size > 0 ? named.has(one.id) : !fanOutStep && one.status === 'completed',
  );
  const files = steps
    .flatMap((one) => [one, ...(graph.members.get(one.id) ?? [])])
    .flatMap((one) => one.attachments ?? [])
    .map((path) => pathSeenFrom(folder, path));
  return [
    ...(fanOutStep?.gather ? outcomeLines(session, plan, fanOutStep, steps, words) : resultLines(steps, words.results)),
    ...(files.length > 0 ? [`${words.files}: ${files.map(quoteIfNeeded).join(', ')}`] : []),
  ];
}

/** The groups around a step, innermost first. */
function enclosingGroups(plan: Plan | null, step: Step): Step[] {
  return plan
    ? stepWithGroups(step, stepGraph(plan.steps))
        .slice(1)
        .filter((one) => !isFanOutStep(one))
    : [];
}

/** The steps that this one, or one of its groups, waits for; for a rollback step, the step it rolls back. */
function awaitedStepIds(step: Step, graph: StepGraph): Set<string> {
  const undo = rollbackStepAround(step, graph);
  return new Set([
    ...stepWithGroups(step, graph).flatMap(({ needs = [], when = [] }) => [...needs, ...when.map((one) => one.step)]),
    ...(graph.rollbackTargets.get(undo?.id ?? '') ?? []).map((one) => one.id),
  ]);
}

function resultLines(steps: readonly Step[], title: string): string[] {
  const lines = steps.flatMap((one) =>
    one.result || one.error ? [`- ${one.description}: ${truncate(one.result ?? one.error ?? '', 2000)}`] : [],
  );
  return lines.length > 0 ? [`${title}:\n${lines.join('\n')}`] : [];
}

function outcomeLines(
  session: Session,
  plan: Plan,
  fanOutStep: Step,
  steps: readonly Step[],
  words: typeof en,
): string[] {
  const lost = partsOf(plan, fanOutStep.gather?.from ?? '').filter(isFailedOrBlocked);
  const each = steps.map(
    (one) => `## ${one.id}: ${one.description}\n${truncate(stepOutcome(session, one), MAX_OUTCOME_LENGTH)}`,
  );
  return [
    `${words.together}:\n\n${each.join('\n\n')}`,
    ...(lost.length > 0 ? [`${words.missing}: ${describeParts(lost)}`] : []),
  ];
}
