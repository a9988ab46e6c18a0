import type { ChatMessage } from '../../engine/ports.ts';
import { isPersons } from '../daemon-block.ts';

/** How far a runbook came, read from the conversation after it. */
export type Progress = {
  /** The last line of output of each finished step, from our own words. */
  done: string[];
  /** Whether a command was asked for; `result` is what came back from the newest one. */
  asked: boolean;
  result: string | undefined;
  /** A person wrote something after our last answer without a command (a failure, or the end). */
  spokenTo: boolean;
};

export const TOOL = 'shell';
export const DONE = '[Done]';

/**
 * Reads the progress. Finished steps are counted by our own `[Done]` answers, which stay as they were, and only the newest
 * result is judged by its text: older ones may have been shortened to fit the model's window.
 */
export function readProgress(messages: ChatMessage[]): Progress {
  const progress: Progress = { done: [], asked: false, result: undefined, spokenTo: false };
  let reported = false;
  for (const message of messages) {
    if (message.role === 'assistant') {
      const call = message.tool_calls?.find((one) => one.function.name === TOOL);
      const [first = ''] = (message.content ?? '').split('\n', 1);
      if (first.startsWith(DONE)) progress.done.push(first.slice(DONE.length).trim());
      progress.spokenTo = false;
      reported = call === undefined;
      if (call || first.startsWith(DONE)) {
        progress.asked = call !== undefined;
        progress.result = undefined;
      }
    } else if (message.role === 'tool') progress.result = message.content;
    else if (reported && isPersons(message)) progress.spokenTo = true;
  }
  return progress;
}
