import { distinct, type Item, noteKey, readItems } from '../../protocol/template/list.ts';

/** A runbook: a list of work (`protocol/template/list.ts`) whose items carry a command each. */
export type Step = { description: string; command: string };
export type Runbook = {
  /** Empty where `problems` is not. */
  steps: Step[];
  /** What keeps the list from being run, an item a line. */
  problems: string[];
};

/** The runbook in a message, or undefined where no item of it has a command. */
export function parseRunbook(message: string): Runbook | undefined {
  const read = readItems(message).map(toStep);
  if (!read.some((one) => 'command' in one)) return undefined;
  const problems = read.flatMap((one) => ('problem' in one ? [one.problem] : []));
  return problems.length > 0
    ? { steps: [], problems }
    : { steps: distinct(read.filter((one) => 'command' in one)), problems };
}

function toStep({ number, description, command, notes, fault }: Item): Step | { problem: string } {
  const problem = (what: string) => ({ problem: `Item ${number} ("${shown(description)}") ${what}.` });
  if (fault) return problem(fault.what);
  if (command === undefined) return problem('has no command');
  const needs = notes.filter((note) => noteKey(note.key) === 'needs').flatMap((note) => note.value.match(/\d+/g) ?? []);
  if (needs.some((need) => Number(need) >= number))
    return problem('needs an item that comes after it; put that one first');
  return { description, command };
}

const shown = (text: string) => ([...text].length > 60 ? `${[...text].slice(0, 60).join('')}…` : text);
