import type { ChatMessage } from '../../engine/ports/session-ports.ts';
import { type BuiltInAnswer, type BuiltInRequest, isDaemonMessage } from './built-in-model.ts';
import {
  type ActiveRunbook,
  findActiveRunbook,
  isRunbookFinished,
  MAX_OPEN_STEPS,
  nextStepOf,
  type RunbookStep,
  SHELL_TOOL,
} from './runbook-list.ts';

const MAX_LINE = 100;
const FAILURE_LINES = 10;
const PLAN_TOOL = 'plan';

const INTRODUCTION =
  'This is the built-in runbook model: no AI. It runs the commands of your list one by one and stops at the first that fails.';

const HELP = `This is the built-in runbook model: no AI, so it cannot answer questions. It works through a list of steps with commands, for example:

    1. Make a folder for the report: \`mkdir -p report\`
    2. Count the lines of the data: \`wc -l data.csv > report/lines.txt\`
    3. Show the result: \`cat report/lines.txt\`

The command of a step is the code at the end of its line, or a fenced block under it. Each step runs when the one before it has succeeded.`;

/** The answer to another request after the last step: the plan has a step that is not ours. */
const NO_COMMAND = 'The list is done. [Blocked: the list has no command for this step]';

/**
 * The built-in runbook model, as a pure function of the conversation. It works through a person's newest message that
 * is a list of steps with commands: declares the steps, requests one command at a time, marks each success `[Done:
 * step]`, stops at a failure and runs the failed step again once the run is resumed. The daemon decides which step is
 * next, since a person may have ended, reopened or moved steps. It keeps nothing in memory.
 */
export function answerRunbook({ messages, tools }: BuiltInRequest): BuiltInAnswer {
  const list = findActiveRunbook(messages);
  if (!list) return textAnswer(HELP);
  const { steps, problems, planned } = list;
  const { begun, done, asked, hasMessage, isFailureReported } = list.progress;
  const daemonText = messages.findLast(isDaemonMessage)?.content ?? '';
  // No plan is being worked on: the list was paused, cancelled or ended, and this is about something else.
  if (begun && !isRunbookFinished(list) && !isPlanAtWork(messages)) return textAnswer(HELP);
  const current = steps.findIndex((step) => isCurrentStep(daemonText, step));
  // A failed command is only reported while its own step is the current one.
  const isResultDue = asked && (current === list.progress.at || isSuccess(list.progress.result));
  const reopened = !isResultDue && done.has(current) ? steps[current] : undefined;
  const isWanted = hasMessage || current !== list.progress.at || REOPENED_BY_PERSON.test(daemonText);
  if (reopened) return reopenedAnswer(current + 1, reopened, isWanted, daemonText);
  if (isRunbookFinished(list)) return textAnswer(hasMessage ? HELP : NO_COMMAND);
  if (problems.length > 0) return textAnswer(problemsText(problems));
  if (!tools.includes(SHELL_TOOL))
    return textAnswer(`The runbook model needs the ${SHELL_TOOL} tool, which is not on offer here.`);
  const replaced = list.replaced.filter((old) => daemonText.includes(stepTitle(old)));
  if (!begun && replaced.length > 0 && tools.includes(PLAN_TOOL)) return skipReplacedSteps(replaced, daemonText);
  // A failure was reported and the daemon asks again: the run was resumed, with the step it names.
  const isResumed = hasMessage || (isFailureReported && current >= 0);
  if (asked && !isResumed) return resultAnswer(list);
  if (current >= 0 && (begun || planned)) return requestStep(list, current);
  return requestStep(list, asked ? list.progress.at : nextStepOf(list));
}

/** Requests the command of a step. The first request declares the steps; later ones declare those that did not fit. */
function requestStep({ steps, planned, progress }: ActiveRunbook, at: number): BuiltInAnswer {
  const step = steps[at];
  if (!step) return textAnswer(HELP);
  const turn = `Step ${at + 1}: ${stepTitle(step)}`;
  if (progress.asked && at === progress.at) return runStep(step, `Step ${at + 1} again: ${stepTitle(step)}`);
  if (progress.at >= 0)
    return runStep(
      step,
      [turn, ...(planned ? [] : declareSteps(steps.slice(at).slice(MAX_OPEN_STEPS - 1, MAX_OPEN_STEPS)))].join('\n'),
    );
  if (planned) return runStep(step, `${INTRODUCTION}\n\n${turn}`);
  return runStep(step, [INTRODUCTION, '', ...declareSteps(steps.slice(0, MAX_OPEN_STEPS)), '', turn].join('\n'));
}

/** The answer to the result of the command that was requested last. */
function resultAnswer(list: ActiveRunbook): BuiltInAnswer {
  const { at, result } = list.progress;
  const step = list.steps[at];
  if (!step) return textAnswer(HELP);
  if (result !== undefined && isSuccess(result)) return successAnswer(list, step, result);
  return textAnswer(failureText(at + 1, step, result ?? 'interrupted: no result was recorded'));
}

const isSuccess = (result: string | undefined): boolean => /^exit 0\b/.test(result ?? '');

const textAnswer = (text: string): BuiltInAnswer => ({ text, calls: [] });

const declareSteps = (steps: RunbookStep[]) => steps.map((step) => `[Step] ${stepTitle(step)}`);

const runStep = ({ command }: RunbookStep, text: string): BuiltInAnswer => ({
  text,
  calls: [{ name: SHELL_TOOL, args: JSON.stringify({ command }) }],
});

/**
 * The plan of an older list is still open: its remaining steps are not run, and must not be confused with those of the
 * new list.
 */
function skipReplacedSteps(steps: RunbookStep[], daemonText: string): BuiltInAnswer {
  const reason = 'replaced by a newer list';
  return {
    text: 'The newer list replaces the older one, whose open steps are skipped.',
    calls: steps.map((step) => ({
      name: PLAN_TOOL,
      args: JSON.stringify({ command: 'mark_step', step: stepReference(daemonText, step), status: 'skipped', reason }),
    })),
  };
}

/** The daemon states the ids of the waiting steps; without a name, the current one is meant. */
function stepReference(daemonText: string, step: RunbookStep): string | undefined {
  const line = daemonText.split('\n').find((one) => /^- step_\d+: /.test(one) && one.endsWith(`: ${stepTitle(step)}`));
  return line?.slice(2, line.indexOf(':')) ?? (isUsableAsName(step) ? stepTitle(step) : undefined);
}

/** Whether a plan is being worked on: the daemon's block of this request then begins with a goal, in any language. */
function isPlanAtWork(messages: ChatMessage[]): boolean {
  const answered = messages.findLastIndex(({ role }) => role === 'assistant');
  return messages.slice(answered + 1).some((one) => isDaemonMessage(one) && /^<[^>]+>\n\S+: /.test(one.content ?? ''));
}

/** Whether the daemon names this step as the current one, in any language. */
function isCurrentStep(daemonText: string, step: RunbookStep): boolean {
  const [, current = ''] = /^\S.*? \(\d+\/\d+\): (.*)$/m.exec(daemonText) ?? [];
  const name = current.replace(/ \(\d+\/\d+\)$/, '');
  return name === step.description || name === stepTitle(step);
}

/** The daemon's note, given once, that a person has reopened a step: by "undo", in either language, or in the plan. */
const REOPENED_BY_PERSON = /^(?:A person says that "|有人说“|[^:：\n]*[:：] \S+ was set from completed to pending$)/m;

/** What the check of a step says, in either language of the daemon. */
const CHECK_SAYS = /(?:Its check says: |检查结果：)(.+?)\.?$/m;

/** A step we called done is still current: its checks failed, or a person wants it to run again. */
function reopenedAnswer(number: number, step: RunbookStep, isWanted: boolean, daemonText: string): BuiltInAnswer {
  if (isWanted) return runStep(step, `Step ${number} again: ${stepTitle(step)}`);
  const [, why = ''] = CHECK_SAYS.exec(daemonText) ?? [];
  const failed = why === '' ? 'a check failed' : `a check failed: ${clip(why)}`;
  const advice = `Its command succeeded, but ${failed}. Fix the cause, then say "continue": the step runs again.`;
  return textAnswer(`Step ${number} is open: ${stepTitle(step)}. [Blocked: it is not done yet]\n\n${advice}`);
}

function successAnswer({ steps, progress }: ActiveRunbook, step: RunbookStep, result: string): BuiltInAnswer {
  const line = inlineCode(lastOutputLine(result));
  const closed = closingLine(step, line);
  const done = new Map(progress.done).set(progress.at, `${stepTitle(step)}: ${line}`);
  // The next command is not requested in the same answer: the plan names the current step before its command runs.
  return textAnswer(done.size === steps.length ? `${closed}\n\n${outcomesText(steps, done)}` : closed);
}

/** The outcome of each step. A step that was not run is not called done. */
function outcomesText(steps: RunbookStep[], done: Map<number, string | undefined>): string {
  const isComplete = [...done.values()].every((outcome) => outcome !== undefined);
  const all = steps.length === 1 ? 'The step is done' : `All ${steps.length} steps are done`;
  const outcomes = steps.map((step, at) => `${at + 1}. ${done.get(at) ?? `${stepTitle(step)}: ended by someone else`}`);
  return [`${isComplete ? all : 'The list has ended'}:`, '', ...outcomes].join('\n');
}

function problemsText(problems: string[]): string {
  const list = problems.map((problem) => `- ${problem}`);
  return [
    'Nothing was run, because not every item of the list is a step with one command:',
    '',
    ...list,
    '',
    HELP,
  ].join('\n');
}

function failureText(number: number, step: RunbookStep, result: string): string {
  const [headline = ''] = result.split('\n', 1);
  const exit = /^exit (-?\d+)/.exec(headline)?.[0];
  const unknown = /^\[?interrupted/i.test(headline);
  const reason = exit ?? (unknown ? 'outcome unknown' : clip(headline.replace(/^\[|\]$/g, '')));
  const lines = outputLines(result, exit ? 1 : 0).slice(-FAILURE_LINES);
  const advice = unknown
    ? 'The command was interrupted: it may have run completely, partly or not at all, and this model cannot check. Check it yourself, then say "continue": the step runs again.'
    : 'Fix the cause, then say "continue": the step runs again. To change the commands, send the whole list again: it starts over, and the open steps of this one are skipped.';
  return [`Step ${number} failed: ${stepTitle(step)}. [Blocked: ${reason}]`, ...codeFence(lines), '', advice].join(
    '\n',
  );
}

/** Fences lines with more backticks than any of them begins with. */
function codeFence(lines: string[]): string[] {
  if (lines.length === 0) return [];
  const longest = Math.max(2, ...lines.map((line) => /^\s*(`*)/.exec(line)?.[1]?.length ?? 0));
  const fence = '`'.repeat(longest + 1);
  return ['', fence, ...lines, fence];
}

/** The tool's own remarks, apart from the command's output. */
const TOOL_REMARK = /^(?:\(no output\)|\[left behind: .*\]|\[the daemon was restarted while this ran[,;] .*\])$/;

/** Non-empty lines of output, without the terminal's colours. The first `skip` lines are the tool's headline. */
function outputLines(result: string, skip: number): string[] {
  const lines = result.split(/\r\n?|\n/).slice(skip);
  return lines
    .map((line) => line.replace(/\u001b\[[0-9;]*[A-Za-z]/g, '').trimEnd())
    .filter((line) => line.trim() !== '');
}

const lastOutputLine = (result: string) =>
  clip(
    outputLines(result, 1)
      .findLast((line) => !TOOL_REMARK.test(line))
      ?.trim() ?? 'no output',
  );

function clip(text: string): string {
  const points = [...text];
  return points.length > MAX_LINE ? `${points.slice(0, MAX_LINE - 1).join('')}…` : text;
}

/** Writes text as code, so that the daemon does not read brackets as markers or an `if` as a condition. */
const inlineCode = (line: string) => `\`${line.replaceAll('`', "'")}\``;

/**
 * A bracket, words that retract the `[Done]` before them, an announcement of the next step, or nothing to read at all.
 */
const AMBIGUOUS_WORDS =
  /[[\]【】［］]|^\P{L}*(?:[?？]|(?:is|was|has|have|does|do|can)(?:\s+not|n['’]t)\b|not yet|了?[吗嗎]|$)|\b(?:next|following) (?:step|task|phase|item|part)\b|\bmov(?:e|ing) on\b|下一|次のステップ/iu;
const WHOLE_SPANS = /^[^`]*(?:`[^`]+`[^`]*)*$/;

/** Whether a description in an answer could be read as a statement about the plan, or hide what follows it. */
const isAmbiguous = ({ description }: RunbookStep) =>
  AMBIGUOUS_WORDS.test(description) || !WHOLE_SPANS.test(description);
const stepTitle = (step: RunbookStep) => (isAmbiguous(step) ? inlineCode(step.description) : step.description);

/** Descriptions that the daemon would read as the number of a step. */
const STEP_NUMBER =
  /^(?:(?:step|paso|schritt|étape|ステップ|步骤|步驟)[\s_#]*\d|第?\s?(?:\d+|[一二三四五六七八九十])\s?(?:步|$)|#\d)/iu;
/** Quotations and escapes are not read literally. */
const DISGUISED = /["'“”„‘’「」『』«»\\]/;

/** Whether a step can be named by its description. */
const isUsableAsName = ({ description }: RunbookStep) => !STEP_NUMBER.test(description);

/**
 * The line that closes a step. It names the step in its tag if possible: the plan's current step may be another one,
 * since a person may change the plan. The result is written as code, since after a tag words like "if …" or "is not …"
 * retract it.
 */
function closingLine(step: RunbookStep, outcome: string): string {
  const fits =
    isUsableAsName(step) && !isAmbiguous(step) && !DISGUISED.test(step.description) && !step.description.includes('`');
  return fits ? `[Done: ${step.description}] ${outcome}` : `[Done] ${stepTitle(step)}: ${outcome}`;
}
