import type { ChatMessage } from '../../engine/ports.ts';
import { distinct } from '../../protocol/template/list.ts';
import { asked } from '../daemon-block.ts';
import { parseRunbook, type Runbook, type Step } from './parse.ts';
import { type Progress, readProgress } from './progress.ts';

/** The daemon says so before the text of a template. */
const TEMPLATE = /^template /;

/** A plan takes so many open steps; of a longer list one more is declared with each step that begins. */
export const OPEN_STEPS = 50;

/**
 * The list that is worked on, how far it came, and the declared steps of older lists that nobody has finished. `planned`: it comes
 * from a template, so a plan of its own has its steps already.
 */
export type Newest = Runbook & { progress: Progress; replaced: Step[]; planned: boolean };

/**
 * The newest list of the conversation; undefined where there is none. A list that ended early may have left its plan open, and
 * the next one goes on in it: so its steps are named apart from those that are in the plan already.
 */
export function newestList(messages: ChatMessage[]): Newest | undefined {
  let newest: Newest | undefined;
  let inPlan: Step[] = [];
  const lists = messages.flatMap((message, at) => {
    const { note = '', text = '' } = asked(message) ?? {};
    const runbook = parseRunbook(text);
    return runbook ? [{ at, runbook, planned: TEMPLATE.test(note) }] : [];
  });
  for (const [place, { at, runbook, planned }] of lists.entries()) {
    const replaced = newest && !planned ? leftBy(newest) : [];
    if (planned || (newest && isFinished(newest))) inPlan = [];
    else if (newest?.progress.begun) inPlan = [...inPlan, ...newest.steps];
    const progress = readProgress(messages.slice(at + 1, lists[place + 1]?.at));
    newest = { ...runbook, steps: distinct(runbook.steps, inPlan), progress, replaced, planned };
  }
  return newest;
}

export const isFinished = ({ steps, progress }: Newest): boolean =>
  steps.length > 0 && progress.done.length >= steps.length;

/** What is open when a list is given up: its own steps, or where it never began, those it would have replaced. */
function leftBy({ steps, progress, replaced }: Newest): Step[] {
  if (steps.length === 0 || !progress.begun) return replaced;
  return steps.slice(progress.done.length, progress.done.length + OPEN_STEPS);
}
