import { parseJson } from '../../base/json.ts';
import { EachSource, hasPattern, NO_PATTERN, ReduceInput, StepCheck, StepCondition } from '../session/plan.ts';
import { PLAN_BOUNDS } from '../session/plan-edit.ts';
import { type ItemNote, type ListItem, normalizeNoteKey, parseListItems } from './markdown-list.ts';
import { MAX_TEMPLATE_STEPS, type TemplateStep } from './template.ts';

/** A fault in a template, and its line in the text. */
export type TemplateFault = { line: number; what: string };

/** The steps of a list, or all of its faults. */
export function parseSteps(text: string): { steps: TemplateStep[] } | { faults: TemplateFault[] } {
  const items = parseListItems(text);
  if (items.length === 0)
    return { faults: [{ line: 1, what: 'there is no step; expected a list, such as "1. Find the figures"' }] };
  if (items.length > MAX_TEMPLATE_STEPS)
    return {
      faults: [
        {
          line: items[MAX_TEMPLATE_STEPS]?.line ?? 1,
          what: `${items.length} steps; ${MAX_TEMPLATE_STEPS} are the most`,
        },
      ],
    };
  const faults: TemplateFault[] = [];
  const steps = items.map((item) => toStep(item, items.length, (line, what) => faults.push({ line, what })));
  return faults.length > 0 ? { faults } : { steps };
}

type ReportFault = (line: number, what: string) => void;

/** The single step of a text and its faults; undefined if the text is not exactly one item. */
function parseStep(text: string, number: number, count: number): TemplateStep | undefined {
  // An item that absorbs the next one is not complete by itself.
  const [item, next] = parseListItems(`${text}\n1. x`);
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
  { number, line, description, command, notes, fault }: ListItem,
  count: number,
  complain: ReportFault,
): TemplateStep {
  if (fault) complain(fault.line, `item ${number} ${fault.what}`);
  else if (description === '') complain(line, `item ${number} says nothing`);
  else if (description.length > PLAN_BOUNDS.description)
    complain(line, `item ${number} has ${description.length} characters; ${PLAN_BOUNDS.description} are the most`);
  const step: TemplateStep = { description, ...(command !== undefined && { command }) };
  for (const note of notes) {
    const read = parseNote(note, number, count);
    if (typeof read === 'string') complain(note.line, read);
    else mergeStepFields(step, read);
  }
  return step;
}

/** Checks and conditions of several notes accumulate; of the others the last one counts. */
function mergeStepFields(step: TemplateStep, read: Partial<TemplateStep>): void {
  const { done_when = [], when = [], needs = [], ...rest } = read;
  Object.assign(step, rest);
  if (done_when.length > 0) step.done_when = [...(step.done_when ?? []), ...done_when];
  if (when.length > 0) step.when = [...(step.when ?? []), ...when];
  if (needs.length > 0) step.needs = [...new Set([...(step.needs ?? []), ...needs])];
}

/** One note as fields of its step, or what is wrong with it. */
function parseNote({ key, value }: ItemNote, own: number, count: number): Partial<TemplateStep> | string {
  const kind = normalizeNoteKey(key);
  switch (kind) {
    case 'needs':
      return parseStepReferences(value, own, count, 'needs', (needs) => ({ needs }));
    case 'rollback':
      return parseStepReferences(value, own, count, 'rollback', ([rollback, more]) =>
        exactlyOne(rollback, more, { rollback: rollback ?? '' }),
      );
    case 'part of':
      return parseStepReferences(value, own, count, 'part of', ([parent, more]) =>
        exactlyOne(parent, more, { parent: parent ?? '' }),
      );
    case 'agent':
      return value === '' ? 'agent: expected the name of an agent' : { agent: value };
    case 'notes':
      return value === '' ? 'notes: expected a text' : { notes: unquoteJsonString(value) };
    case 'command':
      return value === 'none'
        ? {}
        : 'command: expected "none"; a command is written as code at the end of its item, or in a fenced block';
    case 'done when':
      return parseCheck(value);
    case 'when':
      return parseCondition(value, own, count);
    case 'each':
      return parseEach(value);
    case 'gather':
      return parseGather(value, own, count);
    case 'failed part':
      return value === 'fail' || value === 'continue'
        ? { on_failed_part: value }
        : `failed part: expected "fail" or "continue"; got ${JSON.stringify(value)}`;
    case undefined:
      return `${key}: not known`;
    default:
      return kind satisfies never;
  }
}

const exactlyOne = <T>(first: string | undefined, more: string | undefined, found: T): T | string =>
  first !== undefined && more === undefined ? found : 'expected one item';

function parseStepReferences<T>(
  value: string,
  own: number,
  count: number,
  key: string,
  make: (ids: string[]) => T | string,
): T | string {
  const words = value.split(/[\s,，、]+/).filter((word) => word !== '' && word !== 'and' && word !== '和');
  const ids = words.map((word) => stepIdOf(word, own, count));
  const wrong = words.find((_, at) => ids[at] === undefined);
  if (wrong !== undefined || words.length === 0)
    return `${key}: expected numbers of other items, from 1 to ${count}; got ${JSON.stringify(wrong ?? value)}`;
  const made = make(ids.flatMap((id) => id ?? []));
  return typeof made === 'string' ? `${key}: ${made}; got ${JSON.stringify(value)}` : made;
}

function stepIdOf(word: string, own: number, count: number): string | undefined {
  const number = Number(/^(?:step_?|#)?(\d{1,4})$/i.exec(word)?.[1] ?? Number.NaN);
  return number >= 1 && number <= count && number !== own ? `step_${number}` : undefined;
}

const CHECK_FORMS = 'file <path>, command <command>, url <address>, person <question>, or a check as JSON';

/** `file work/x.md`, `command npm test`, `url http://…`, `person Is it right?`, or the JSON of plan.json. */
function parseCheck(value: string): Partial<TemplateStep> | string {
  const json = value.startsWith('{') ? parseJson(value) : undefined;
  const [, kind = '', rest = ''] = /^(file|command|url|person)\s*[:：]?\s+(.+)$/i.exec(value) ?? [];
  const given = value.startsWith('{') ? json : { [kind.toLowerCase()]: stripCodeSpan(rest) };
  const read = StepCheck.safeParse(given);
  if (read.success && !hasPattern(read.data)) return `done when: matches: ${NO_PATTERN}; got ${value}`;
  return read.success ? { done_when: [read.data] } : `done when: expected ${CHECK_FORMS}; got ${JSON.stringify(value)}`;
}

/** `{ "step": 1, "status": "failed" }`: a condition of plan.json, with the step named by its position. */
function parseCondition(value: string, own: number, count: number): Partial<TemplateStep> | string {
  const json = parseJson(value);
  const given = typeof json === 'object' && json !== null && 'step' in json ? json : undefined;
  const step = given && stepIdOf(String(given.step), own, count);
  const read = StepCondition.safeParse(given && { ...given, step });
  return read.success
    ? { when: [read.data] }
    : `when: expected JSON such as {"step": 1, "status": "failed"}, the step by its number; got ${JSON.stringify(value)}`;
}

/** `folder in`, `file list.txt`, or the JSON of plan.json. */
function parseEach(value: string): Partial<TemplateStep> | string {
  const [, key, path] = /^(folder|file)\s+([^{].*)$/.exec(value) ?? [];
  const read = EachSource.safeParse(key === undefined ? parseJson(value) : { [key]: stripCodeSpan(path ?? '') });
  return read.success
    ? { each: read.data }
    : `each: expected folder <path>, file <path>, or JSON such as {"folder": "in", "match": "*.md"}; got ${JSON.stringify(value)}`;
}

/** `1`, or the JSON of plan.json with the step by its number. */
function parseGather(value: string, own: number, count: number): Partial<TemplateStep> | string {
  const json = parseJson(value);
  const given = typeof json === 'object' && json !== null && 'from' in json ? json : { from: value };
  const read = ReduceInput.safeParse({ ...given, from: stepIdOf(String(given.from), own, count) });
  return read.success
    ? { gather: read.data }
    : `gather: expected the number of the item with "each", from 1 to ${count}; got ${JSON.stringify(value)}`;
}

/** A text that is entirely a JSON string stands for its value, including line breaks. */
function unquoteJsonString(text: string): string {
  const json = /^".*"$/.test(text) ? parseJson(text) : undefined;
  return typeof json === 'string' ? json : text;
}

/** A text that is entirely a code span stands for its code. */
const stripCodeSpan = (text: string): string => /^`([^`]+)`$/.exec(text)?.[1] ?? text;

/** A description in the form a list needs: one line. */
export function toOneLine(text: string): string {
  return text.replace(/\s+/g, ' ').trim();
}

/**
 * The list that `parseSteps` reads as these steps: every step is written in the first form that reads back unchanged,
 * so no description is taken for a command, or for another step. `unwritten`: the number of the first step that has no
 * such form, such as one without a description.
 */
export function formatSteps(steps: readonly TemplateStep[]): { text: string } | { unwritten: number } {
  const texts: string[] = [];
  for (const [at, step] of steps.entries()) {
    const text = formatStep(step, at + 1, steps.length);
    if (text === undefined) return { unwritten: at + 1 };
    texts.push(text);
  }
  return { text: texts.join('\n') };
}

function formatStep(step: TemplateStep, number: number, count: number): string | undefined {
  const marker = `${number}. `;
  const indent = ' '.repeat(marker.length);
  const notes = formatNotes(step).map((note) => `${indent}- ${note}`);
  const ways = formatCandidates(step, indent).map((lines) =>
    [`${marker}${lines[0]}`, ...lines.slice(1), ...notes].join('\n'),
  );
  return ways.find((text) => parsesBackTo(text, step, number, count));
}

function formatCandidates({ description, command }: TemplateStep, indent: string): string[][] {
  const text = toOneLine(description).replace(/^(?=\\*\[[ xX]\]\s)/, '\\');
  if (command === undefined) return [[text], [text, `${indent}- command: none`]];
  const fence = '`'.repeat(Math.max(3, ...[...command.matchAll(/`+/g)].map(([run]) => run.length + 1)));
  const block = [
    `${indent}${fence}sh`,
    ...command.split('\n').map((line) => (line === '' ? '' : indent + line)),
    indent + fence,
  ];
  const spans = command.includes('\n') ? [] : [[`${text}: \`${command}\``], [`${text}: \`\` ${command} \`\``]];
  // A colon before a command is not part of the description, so a description that ends in one gets a second.
  return [...spans, [text, ...block], [`${text}:`, ...block]];
}

const parsesBackTo = (text: string, step: TemplateStep, number: number, count: number): boolean =>
  isSameJson(parseStep(text, number, count), { ...step, description: toOneLine(step.description) });

function formatNotes(step: TemplateStep): string[] {
  const { needs, when, rollback, parent, agent, done_when, notes, each, gather, on_failed_part } = step;
  return [
    ...(each ? [`each: ${formatEach(each)}`] : []),
    ...(gather ? [`gather: ${formatGather(gather)}`] : []),
    ...(on_failed_part ? [`failed part: ${on_failed_part}`] : []),
    ...(needs && needs.length > 0 ? [`needs: ${needs.map(stepNumberOf).join(', ')}`] : []),
    ...(when ?? []).map((one) => `when: ${JSON.stringify({ ...one, step: stepNumberOf(one.step) })}`),
    ...(rollback === undefined ? [] : [`rollback: ${stepNumberOf(rollback)}`]),
    ...(parent === undefined ? [] : [`part of: ${stepNumberOf(parent)}`]),
    ...(agent === undefined ? [] : [`agent: ${agent}`]),
    ...(done_when ?? []).map((check) => `done when: ${formatCheck(check)}`),
    ...(notes === undefined ? [] : [`notes: ${isPlainNote(notes) ? notes : JSON.stringify(notes)}`]),
  ];
}

function formatEach(each: EachSource): string {
  const [main, other] = Object.entries(each);
  const isPlain = !other && typeof main?.[1] === 'string' && isPlainNote(main[1]) && !/^[`{]/.test(main[1]);
  return main && isPlain ? `${main[0]} ${main[1]}` : JSON.stringify(each);
}

const formatGather = ({ from, ...rest }: ReduceInput): string =>
  Object.keys(rest).length > 0 ? JSON.stringify({ from: stepNumberOf(from), ...rest }) : `${stepNumberOf(from)}`;

const stepNumberOf = (id: string): number => Number(/^step_(\d+)$/.exec(id)?.[1]);
const isPlainNote = (text: string): boolean => toOneLine(text) === text && !/^"|[\u0000-\u001f\u2028\u2029]/.test(text);

/** In words if only its main part is set, else as JSON. */
function formatCheck(check: StepCheck): string {
  const [main, other] = Object.entries(check).filter(
    ([key, value]) => !(key === 'exit' && value === 0) && !(key === 'status' && value === 200),
  );
  const value = String(main?.[1]);
  return main && !other && isPlainNote(value) && !/^[`:：]/.test(value) ? `${main[0]} ${value}` : JSON.stringify(check);
}

/** Whether two steps are equal, ignoring the order of their keys. */
function isSameJson(a: unknown, b: unknown): boolean {
  return JSON.stringify(sortKeys(a)) === JSON.stringify(sortKeys(b));
}

function sortKeys(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(sortKeys);
  if (typeof value !== 'object' || value === null) return value;
  const entries = Object.entries(value).filter(([, one]) => one !== undefined);
  return Object.fromEntries(entries.sort(([a], [b]) => (a < b ? -1 : 1)).map(([key, one]) => [key, sortKeys(one)]));
}
