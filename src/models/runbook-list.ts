import type { ChatMessage } from '../engine/ports/model-port.ts';
import { unwrapDataBlock } from '../protocol/session/prompt-tags.ts';
import {
  type ListItem,
  makeDescriptionsUnique,
  normalizeNoteKey,
  parseListItems,
} from '../protocol/templates/markdown-list.ts';
import { personMessage } from './built-in-model.ts';

/** The daemon's note before the text of a template. */
const TEMPLATE_NOTE = /^template /;

/** A plan accepts this many open steps; of a longer list one more is declared with each step that starts. */
export const MAX_OPEN_STEPS = 50;

/**
 * The current list, its progress, and the declared steps of older lists that were never finished. `planned`: it comes
 * from a template, so its plan has its steps already.
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
  steps.length > 0 && progress.done.length >= steps.length;

/** The open steps when a list is abandoned: its own, or if it never started, those it would have replaced. */
function unfinishedSteps({ steps, progress, replaced }: ActiveRunbook): RunbookStep[] {
  if (steps.length === 0 || !progress.begun) return replaced;
  return steps.slice(progress.done.length, progress.done.length + MAX_OPEN_STEPS);
}

/** The progress of a runbook, read from the conversation after it. */
type RunbookProgress = {
  /** The list has been answered. */
  begun: boolean;
  /** The result of each finished step, from our own answers: its description and the last line of its output. */
  done: string[];
  /** Whether a command was requested; `result` is the newest result. */
  asked: boolean;
  result: string | undefined;
  /** A person wrote something after our last answer without a command (a failure, or the end). */
  hasMessage: boolean;
};

export const SHELL_TOOL = 'shell';

/** The first line of an answer that closes a step: with its description in the tag, or after it. */
const CLOSING_LINE = /^\[Done(?:: ([^\]]*))?\] (.*)/;

/** The first line of an answer that reopens a finished step: it is open, or runs again. */
const REOPENED_LINE = /^Step (\d+) (?:is open|again): /;

/**
 * Reads the progress. Finished steps are counted by our own closing lines, which never change, and only the newest
 * result is judged by its text: older ones may have been shortened to fit the model's window.
 */
function readRunbookProgress(messages: ChatMessage[]): RunbookProgress {
  const progress: RunbookProgress = { begun: false, done: [], asked: false, result: undefined, hasMessage: false };
  let reported = false;
  for (const message of messages) {
    if (message.role === 'assistant') {
      const call = message.tool_calls?.find((one) => one.function.name === SHELL_TOOL);
      const closing = CLOSING_LINE.exec(message.content ?? '');
      if (closing) progress.done.push(outcomeOf(closing));
      const open = Number(REOPENED_LINE.exec(message.content ?? '')?.[1] ?? Number.POSITIVE_INFINITY);
      if (progress.done.length >= open) progress.done.length = open - 1;
      progress.begun = true;
      progress.hasMessage = false;
      reported = message.tool_calls === undefined;
      if (call || closing) {
        progress.asked = call !== undefined;
        progress.result = undefined;
      }
    } else if (message.role === 'tool') progress.result = unwrapDataBlock(message.content);
    else if (reported && personMessage(message)) progress.hasMessage = true;
  }
  return progress;
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
