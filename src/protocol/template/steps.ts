import { DoneWhen, PLAN_BOUNDS, When } from '../plan.ts';
import { type Item, type Note, noteKey, readItems } from './list.ts';
import { MOST_TEMPLATE_STEPS, type TemplateStep } from './template.ts';

/** What is wrong with a template, and in which line of its text. */
export type TemplateFault = { line: number; what: string };

/** The steps of a list, or everything that is wrong with it. */
export function readSteps(text: string): { steps: TemplateStep[] } | { faults: TemplateFault[] } {
  const items = readItems(text);
  if (items.length === 0)
    return { faults: [{ line: 1, what: 'there is no step; wanted a list, such as "1. Find the figures"' }] };
  if (items.length > MOST_TEMPLATE_STEPS)
    return {
      faults: [
        {
          line: items[MOST_TEMPLATE_STEPS]?.line ?? 1,
          what: `${items.length} steps; ${MOST_TEMPLATE_STEPS} are the most`,
        },
      ],
    };
  const faults: TemplateFault[] = [];
  const steps = items.map((item) => toStep(item, items.length, (line, what) => faults.push({ line, what })));
  return faults.length > 0 ? { faults } : { steps };
}

type Complain = (line: number, what: string) => void;

/** The one step of a text and what is wrong with it; undefined where the text is not one item of its own. */
export function readStep(text: string, number: number, count: number): TemplateStep | undefined {
  // An item that swallows the next one is none of its own.
  const [item, next] = readItems(`${text}\n1. x`);
  let isWrong = false;
  const step =
    item &&
    next &&
    toStep({ ...item, number }, count, () => {
      isWrong = true;
    });
  return isWrong || next?.description !== 'x' ? undefined : step;
}

function toStep(
  { number, line, description, command, notes, fault }: Item,
  count: number,
  complain: Complain,
): TemplateStep {
  if (fault) complain(fault.line, `item ${number} ${fault.what}`);
  else if (description === '') complain(line, `item ${number} says nothing`);
  else if (description.length > PLAN_BOUNDS.description)
    complain(line, `item ${number} has ${description.length} characters; ${PLAN_BOUNDS.description} are the most`);
  const step: TemplateStep = { description, ...(command !== undefined && { command }) };
  for (const note of notes) {
    const read = readNote(note, number, count);
    if (typeof read === 'string') complain(note.line, read);
    else add(step, read);
  }
  return step;
}

/** Checks and conditions of several notes add up; of the others the last one counts. */
function add(step: TemplateStep, read: Partial<TemplateStep>): void {
  const { done_when = [], when = [], needs = [], ...rest } = read;
  Object.assign(step, rest);
  if (done_when.length > 0) step.done_when = [...(step.done_when ?? []), ...done_when];
  if (when.length > 0) step.when = [...(step.when ?? []), ...when];
  if (needs.length > 0) step.needs = [...new Set([...(step.needs ?? []), ...needs])];
}

/** One note as fields of its step, or what is wrong with it. */
function readNote({ key, value }: Note, own: number, count: number): Partial<TemplateStep> | string {
  const kind = noteKey(key);
  switch (kind) {
    case 'needs':
      return withPlaces(value, own, count, 'needs', (needs) => ({ needs }));
    case 'rollback':
      return withPlaces(value, own, count, 'rollback', ([rollback, more]) =>
        one(rollback, more, { rollback: rollback ?? '' }),
      );
    case 'part of':
      return withPlaces(value, own, count, 'part of', ([parent, more]) => one(parent, more, { parent: parent ?? '' }));
    case 'agent':
      return value === '' ? 'agent: wanted the name of an agent' : { agent: value };
    case 'notes':
      return value === '' ? 'notes: wanted a text' : { notes: unquoted(value) };
    case 'command':
      return value === 'none'
        ? {}
        : 'command: wanted "none"; a command stands at the end of its item, as code, or in a fenced block';
    case 'done when':
      return readCheck(value);
    case 'when':
      return readWhen(value, own, count);
    case undefined:
      return `${key}: not known`;
    default:
      return kind satisfies never;
  }
}

const one = <T>(first: string | undefined, more: string | undefined, found: T): T | string =>
  first !== undefined && more === undefined ? found : 'wanted one item';

function withPlaces<T>(
  value: string,
  own: number,
  count: number,
  key: string,
  make: (ids: string[]) => T | string,
): T | string {
  const words = value.split(/[\s,，、]+/).filter((word) => word !== '' && word !== 'and' && word !== '和');
  const ids = words.map((word) => placeOf(word, own, count));
  const wrong = words.find((_, at) => ids[at] === undefined);
  if (wrong !== undefined || words.length === 0)
    return `${key}: wanted numbers of other items, from 1 to ${count}; came ${JSON.stringify(wrong ?? value)}`;
  const made = make(ids.flatMap((id) => id ?? []));
  return typeof made === 'string' ? `${key}: ${made}; came ${JSON.stringify(value)}` : made;
}

function placeOf(word: string, own: number, count: number): string | undefined {
  const number = Number(/^(?:step_?|#)?(\d{1,4})$/i.exec(word)?.[1] ?? Number.NaN);
  return number >= 1 && number <= count && number !== own ? `step_${number}` : undefined;
}

const CHECKS = 'file <path>, command <command>, url <address>, person <question>, or a check as JSON';

/** `file work/x.md`, `command npm test`, `url http://…`, `person Is it right?`, or the JSON of plan.json. */
function readCheck(value: string): Partial<TemplateStep> | string {
  const json = value.startsWith('{') ? jsonOf(value) : undefined;
  const [, kind = '', rest = ''] = /^(file|command|url|person)\s*[:：]?\s+(.+)$/i.exec(value) ?? [];
  const given = value.startsWith('{') ? json : { [kind.toLowerCase()]: uncoded(rest) };
  const read = DoneWhen.safeParse(given);
  return read.success ? { done_when: [read.data] } : `done when: wanted ${CHECKS}; came ${JSON.stringify(value)}`;
}

/** `{ "step": 1, "status": "failed" }`: a condition of plan.json, the step named by its place. */
function readWhen(value: string, own: number, count: number): Partial<TemplateStep> | string {
  const json = jsonOf(value);
  const given = typeof json === 'object' && json !== null && 'step' in json ? json : undefined;
  const step = given && placeOf(String(given.step), own, count);
  const read = When.safeParse(given && { ...given, step });
  return read.success
    ? { when: [read.data] }
    : `when: wanted JSON such as {"step": 1, "status": "failed"}, the step by its number; came ${JSON.stringify(value)}`;
}

function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** A text that is a JSON string as a whole stands for what it says: line breaks and all. */
function unquoted(text: string): string {
  const json = /^".*"$/.test(text) ? jsonOf(text) : undefined;
  return typeof json === 'string' ? json : text;
}

/** A whole code span is its code. */
const uncoded = (text: string): string => /^`([^`]+)`$/.exec(text)?.[1] ?? text;
