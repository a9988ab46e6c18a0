import type { ChatMessage } from '../../engine/ports/session-ports.ts';
import { unwrapDataBlock } from '../../protocol/session/prompt-tags.ts';
import {
  type ListItem,
  makeDescriptionsUnique,
  normalizeNoteKey,
  parseListItems,
} from '../../protocol/templates/markdown-list.ts';
import { personMessage } from './built-in-model.ts';

/** The daemon's note before the text of a template. */
const TEMPLATE_NOTE = /^template /;

/** The most open steps in a plan. For a longer list, one more is declared with each step that starts. */
export const MAX_OPEN_STEPS = 50;

/**
 * The current list, its progress, and the declared steps of older lists that were never finished. `planned`: the list
 * comes from a template, so its steps are already in the plan.
 */
export type ActiveRunbook = Runbook & { progress: RunbookProgress; replaced: RunbookStep[]; planned: boolean };

/**
 * The newest list of the conversation; undefined if there is none. A list that ended early may have left its plan open,
 * and the next one continues in it: its steps get names that differ from those already in the plan.
 */
export function findActiveRunbook(messages: ChatMessage[]): ActiveRunbook | undefined {
  let newest: ActiveRunbook | undefined;
  let inPlan: RunbookStep[] = [];
  const lists = messages.flatMap((message, at) => {
    const { note = '', text = '' } = personMessage(message) ?? {};
    const runbook = parseRunbook(text);
    return runbook ? [{ at, runbook, planned: TEMPLATE_NOTE.test(note) }] : [];
  });
  for (const [place, { at, runbook, planned }] of lists.entries()) {
    const replaced = newest && !planned ? unfinishedSteps(newest) : [];
    if (planned || (newest && isRunbookFinished(newest))) inPlan = [];
    else if (newest?.progress.begun) inPlan = [...inPlan, ...newest.steps];
    const progress = readRunbookProgress(messages.slice(at + 1, lists[place + 1]?.at));
    newest = { ...runbook, steps: makeDescriptionsUnique(runbook.steps, inPlan), progress, replaced, planned };
  }
  return newest;
}

export const isRunbookFinished = ({ steps, progress }: ActiveRunbook): boolean =>
  steps.length > 0 && steps.every((_, at) => progress.done.has(at));

/** The first step that is not done; the number of steps if all are. */
export const nextStepOf = ({ steps, progress }: Pick<ActiveRunbook, 'steps' | 'progress'>): number => {
  const open = steps.findIndex((_, at) => !progress.done.has(at));
  return open < 0 ? steps.length : open;
};

/** The open steps when a list is abandoned: its own, or if it never started, those it would have replaced. */
function unfinishedSteps({ steps, progress, replaced }: ActiveRunbook): RunbookStep[] {
  if (steps.length === 0 || !progress.begun) return replaced;
  const open = nextStepOf({ steps, progress });
  return steps.slice(open, open + MAX_OPEN_STEPS);
}

/** The progress of a runbook, read from the conversation after it. */
type RunbookProgress = {
  /** Whether this model has answered the list. */
  begun: boolean;
  /**
   * The outcome of each finished step by its index, taken from our own answers: description and last line of output.
   * Undefined for a step that was not run because a person or the daemon had ended it.
   */
  done: Map<number, string | undefined>;
  /** The index of the step whose command was requested last; -1 if none was. */
  at: number;
  /** Whether our answer has reported that this step failed. */
  isFailureReported: boolean;
  /** Whether a command was requested; `result` is the newest result. */
  asked: boolean;
  result: string | undefined;
  /** Whether a person wrote something after our last answer without a command (a failure, or the end). */
  hasMessage: boolean;
};

export const SHELL_TOOL = 'shell';

/** The first line of an answer that closes a step: with its description in the tag, or after it. */
const CLOSING_LINE = /^\[Done(?:: ([^\]]*))?\] (.*)/;

/** The line of an answer that names its step: it runs, runs again, is open again, or failed. */
const STEP_LINE = /^Step (\d+)( is open| again| failed)?: /m;

/**
 * Reads the progress. Finished steps are counted by our own closing lines, which never change, and only the newest
 * result is judged by its text: older ones may have been shortened to fit the model's window.
 */
function readRunbookProgress(messages: ChatMessage[]): RunbookProgress {
  const progress: RunbookProgress = {
    begun: false,
    done: new Map(),
    at: -1,
    isFailureReported: false,
    asked: false,
    result: undefined,
    hasMessage: false,
  };
  let reported = false;
  for (const message of messages) {
    if (message.role === 'assistant') {
      readAnswer(progress, message);
      reported = message.tool_calls === undefined;
    } else if (message.role === 'tool') progress.result = unwrapDataBlock(message.content);
    else if (reported && personMessage(message)) progress.hasMessage = true;
  }
  return progress;
}

function readAnswer(progress: RunbookProgress, message: ChatMessage & { role: 'assistant' }): void {
  const text = message.content ?? '';
  const call = message.tool_calls?.find((one) => one.function.name === SHELL_TOOL);
  const closing = CLOSING_LINE.exec(text);
  const [, number, what] = (closing ? undefined : STEP_LINE.exec(text)) ?? [];
  const named = number === undefined ? progress.at : Number(number) - 1;
  if (call) {
    for (let at = 0; at < named; at++) if (!progress.done.has(at)) progress.done.set(at, undefined);
    progress.at = named;
  }
  if (call || what === ' is open') progress.done.delete(named);
  if (closing) progress.done.set(progress.at, outcomeOf(closing));
  progress.begun = true;
  progress.hasMessage = false;
  if (what === ' failed') progress.isFailureReported = true;
  if (call || closing) {
    progress.isFailureReported = false;
    progress.asked = call !== undefined;
    progress.result = undefined;
  }
}

const outcomeOf = ([, description, line = '']: RegExpExecArray) =>
  description === undefined ? line : `${description}: ${line}`;

/** A runbook: a work list (`protocol/templates/markdown-list.ts`) whose items each have a command. */
export type RunbookStep = { description: string; command: string };
type Runbook = {
  /** Empty if `problems` is not. */
  steps: RunbookStep[];
  /** Why the list cannot be run, one item per line. */
  problems: string[];
};

/** The runbook in a message, or undefined if none of its items has a command. */
export function parseRunbook(message: string): Runbook | undefined {
  const read = parseListItems(message).map(toRunbookStep);
  if (!read.some((one) => 'command' in one)) return undefined;
  const problems = read.flatMap((one) => ('problem' in one ? [one.problem] : []));
  return problems.length > 0
    ? { steps: [], problems }
    : { steps: makeDescriptionsUnique(read.filter((one) => 'command' in one)), problems };
}

function toRunbookStep({ number, description, command, notes, fault }: ListItem): RunbookStep | { problem: string } {
  const problem = (what: string) => ({ problem: `Item ${number} ("${clipDescription(description)}") ${what}.` });
  if (fault) return problem(fault.what);
  if (command === undefined) return problem('has no command');
  const needs = notes
    .filter((note) => normalizeNoteKey(note.key) === 'needs')
    .flatMap((note) => note.value.match(/\d+/g) ?? []);
  if (needs.some((need) => Number(need) >= number))
    return problem('needs an item that comes after it; put that one first');
  return { description, command };
}

const clipDescription = (text: string) => ([...text].length > 60 ? `${[...text].slice(0, 60).join('')}…` : text);
