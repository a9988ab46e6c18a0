import type { ChatMessage } from '../../engine/ports.ts';
import { contentOfData } from '../../protocol/provenance.ts';
import { asked } from '../daemon-block.ts';

/** How far a runbook came, read from the conversation after it. */
export type Progress = {
  /** We have answered the list. */
  begun: boolean;
  /** What came out of each finished step, from our own words: its description and the last line of its output. */
  done: string[];
  /** Whether a command was asked for; `result` is what came back from the newest one. */
  asked: boolean;
  result: string | undefined;
  /** A person wrote something after our last answer without a command (a failure, or the end). */
  spokenTo: boolean;
};

export const TOOL = 'shell';

/** The first line of an answer that closes a step: with its description in the tag, or behind it. */
const CLOSING = /^\[Done(?:: ([^\]]*))?\] (.*)/;

/** The first line of an answer that takes a finished step back: it is open, or runs again. */
const OPEN_AGAIN = /^Step (\d+) (?:is open|again): /;

/**
 * Reads the progress. Finished steps are counted by our own closing lines, which stay as they were, and only the newest
 * result is judged by its text: older ones may have been shortened to fit the model's window.
 */
export function readProgress(messages: ChatMessage[]): Progress {
  const progress: Progress = { begun: false, done: [], asked: false, result: undefined, spokenTo: false };
  let reported = false;
  for (const message of messages) {
    if (message.role === 'assistant') {
      const call = message.tool_calls?.find((one) => one.function.name === TOOL);
      const closing = CLOSING.exec(message.content ?? '');
      if (closing) progress.done.push(outcomeOf(closing));
      const open = Number(OPEN_AGAIN.exec(message.content ?? '')?.[1] ?? Number.POSITIVE_INFINITY);
      if (progress.done.length >= open) progress.done.length = open - 1;
      progress.begun = true;
      progress.spokenTo = false;
      reported = message.tool_calls === undefined;
      if (call || closing) {
        progress.asked = call !== undefined;
        progress.result = undefined;
      }
    } else if (message.role === 'tool') progress.result = contentOfData(message.content);
    else if (reported && asked(message)) progress.spokenTo = true;
  }
  return progress;
}

const outcomeOf = ([, description, line = '']: RegExpExecArray) =>
  description === undefined ? line : `${description}: ${line}`;
