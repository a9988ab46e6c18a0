import { isDaemons } from '../daemon-block.ts';
import type { LocalAnswer, LocalChat } from '../local-send.ts';
import { isFinished, newestList, OPEN_STEPS } from './lists.ts';
import type { Step } from './parse.ts';
import { TOOL } from './progress.ts';
import { asCode, closing, isName, titled } from './words.ts';

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

/** Asked again after the last step: the plan has a step that is not ours. */
const NO_COMMAND = 'The list is done. [Blocked: the list has no command for this step]';

/**
 * The built-in runbook model, as a pure function of the conversation. It works through the newest message of a person that
 * is a list of steps with commands: declares the steps, asks for one command at a time, marks each success `[Done: step]`,
 * stops at a failure and runs the failed step again once a person has written something. It keeps nothing in memory.
 */
export function runbookAnswer({ messages, tools }: LocalChat): LocalAnswer {
  const list = newestList(messages);
  if (!list) return say(HELP);
  const { steps, problems, planned } = list;
  const { begun, done, asked, result, spokenTo } = list.progress;
  const told = messages.findLast(isDaemons)?.content ?? '';
  const last = steps[done.length - 1];
  if (last && !asked && isAtWork(told, last)) return takenBack(done.length, last, spokenTo);
  if (isFinished(list)) return say(spokenTo ? HELP : NO_COMMAND);
  if (problems.length > 0) return say(refusal(problems));
  if (!tools.includes(TOOL)) return say(`The runbook model needs the ${TOOL} tool, which is not on offer here.`);
  const replaced = list.replaced.filter((old) => told.includes(titled(old)));
  if (!begun && replaced.length > 0 && tools.includes(PLAN_TOOL)) return replace(replaced, told);
  const step = steps[done.length];
  if (!step) return say(HELP);
  const turn = `Step ${done.length + 1}: ${titled(step)}`;
  if (!asked && planned) return run(step, done.length === 0 ? `${INTRODUCTION}\n\n${turn}` : turn);
  if (!asked && done.length === 0)
    return run(step, [INTRODUCTION, '', ...declared(steps.slice(0, OPEN_STEPS)), '', turn].join('\n'));
  if (!asked)
    return run(step, [turn, ...declared(steps.slice(done.length).slice(OPEN_STEPS - 1, OPEN_STEPS))].join('\n'));
  if (result !== undefined && /^exit 0\b/.test(result)) return succeeded(steps, done, step, result);
  if (spokenTo) return run(step, `Step ${done.length + 1} again: ${titled(step)}`);
  return say(failure(done.length + 1, step, result ?? 'interrupted: no result was recorded'));
}

const say = (text: string): LocalAnswer => ({ text, calls: [] });

const declared = (steps: Step[]) => steps.map((step) => `[Step] ${titled(step)}`);

const run = ({ command }: Step, text: string): LocalAnswer => ({
  text,
  calls: [{ name: TOOL, args: JSON.stringify({ command }) }],
});

/** The plan of an older list is open still: what is left of it is not run, and must not be what the new list's words are about. */
function replace(steps: Step[], told: string): LocalAnswer {
  const reason = 'a newer list took its place';
  return {
    text: 'The newer list takes the place of the older one, whose open steps are skipped.',
    calls: steps.map((step) => ({
      name: PLAN_TOOL,
      args: JSON.stringify({ command: 'mark_step', step: calledIn(told, step), status: 'skipped', reason }),
    })),
  };
}

/** The daemon tells the ids of the steps that wait; the one at work is also meant where no name is given. */
function calledIn(told: string, step: Step): string | undefined {
  const line = told.split('\n').find((one) => /^- step_\d+: /.test(one) && one.endsWith(`: ${titled(step)}`));
  return line?.slice(2, line.indexOf(':')) ?? (isName(step) ? titled(step) : undefined);
}

/** Whether the daemon calls this step the current one, whatever language it does so in. */
function isAtWork(told: string, step: Step): boolean {
  const [, current = ''] = /^\S.*? \(\d+\/\d+\): (.*)$/m.exec(told) ?? [];
  const name = current.replace(/ \(\d+\/\d+\)$/, '');
  return name === step.description || name === titled(step);
}

/** A step we called done is still at work: its checks said no, or a person did. */
function takenBack(number: number, step: Step, spokenTo: boolean): LocalAnswer {
  if (spokenTo) return run(step, `Step ${number} again: ${titled(step)}`);
  const advice =
    'Its command ended well, but a check of it did not pass, or a person opened it again. Mend the cause, then say "continue": the step runs again.';
  return say(`Step ${number} is open: ${titled(step)}. [Blocked: it is not done yet]\n\n${advice}`);
}

function succeeded(steps: Step[], done: string[], step: Step, result: string): LocalAnswer {
  const line = asCode(lastLine(result));
  const closed = closing(step, line);
  // The next command is not asked for in the same breath: the plan says which step is at work before its command runs.
  const last = done.length + 1 === steps.length;
  return say(last ? `${closed}\n\n${summary([...done, `${titled(step)}: ${line}`])}` : closed);
}

function summary(outcomes: string[]): string {
  const count = outcomes.length === 1 ? 'The step is done' : `All ${outcomes.length} steps are done`;
  return [`${count}:`, '', ...outcomes.map((outcome, at) => `${at + 1}. ${outcome}`)].join('\n');
}

function refusal(problems: string[]): string {
  const list = problems.map((problem) => `- ${problem}`);
  return ['Nothing was run, since not every item of the list is a step with one command:', '', ...list, '', HELP].join(
    '\n',
  );
}

function failure(number: number, step: Step, result: string): string {
  const [headline = ''] = result.split('\n', 1);
  const exit = /^exit (-?\d+)/.exec(headline)?.[0];
  const unknown = /^\[?interrupted/i.test(headline);
  const reason = exit ?? (unknown ? 'outcome unknown' : clip(headline.replace(/^\[|\]$/g, '')));
  const lines = outputLines(result, exit ? 1 : 0).slice(-FAILURE_LINES);
  const advice = unknown
    ? 'The command was interrupted: it may have run wholly, partly or not at all, and this model cannot look. Look for yourself, then say "continue": the step runs again.'
    : 'Mend the cause, then say "continue": the step runs again. To change the commands, send the whole list again: it begins anew, and what is open of this one is skipped.';
  return [`Step ${number} failed: ${titled(step)}. [Blocked: ${reason}]`, ...fenced(lines), '', advice].join('\n');
}

/** A fence that no line of the output can close. */
function fenced(lines: string[]): string[] {
  if (lines.length === 0) return [];
  const longest = Math.max(2, ...lines.map((line) => /^\s*(`*)/.exec(line)?.[1]?.length ?? 0));
  const fence = '`'.repeat(longest + 1);
  return ['', fence, ...lines, fence];
}

/** What the tool says itself, beside the command's output. */
const REMARK = /^(?:\(no output\)|\[left behind: .*\])$/;

/** Lines of output that hold something, without the terminal's colours. The first `skip` lines are the tool's headline. */
function outputLines(result: string, skip: number): string[] {
  const lines = result.split(/\r\n?|\n/).slice(skip);
  return lines
    .map((line) => line.replace(/\u001b\[[0-9;]*[A-Za-z]/g, '').trimEnd())
    .filter((line) => line.trim() !== '');
}

const lastLine = (result: string) =>
  clip(
    outputLines(result, 1)
      .findLast((line) => !REMARK.test(line))
      ?.trim() ?? 'no output',
  );

function clip(text: string): string {
  const points = [...text];
  return points.length > MAX_LINE ? `${points.slice(0, MAX_LINE - 1).join('')}…` : text;
}
