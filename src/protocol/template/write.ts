import type { DoneWhen } from '../plan.ts';
import { readStep } from './steps.ts';
import type { TemplateStep } from './template.ts';

/** A description as a list can say it: one line. */
export function inOneLine(text: string): string {
  return text.replace(/\s+/g, ' ').trim();
}

/**
 * The list that `readSteps` reads as these steps: every step is written in the first of the ways that reads back as it, so no
 * description is taken for a command, and none for another step. `unwritten`: the number of the first step that has no such way,
 * such as one that says nothing.
 */
export function writeSteps(steps: readonly TemplateStep[]): { text: string } | { unwritten: number } {
  const texts: string[] = [];
  for (const [at, step] of steps.entries()) {
    const text = written(step, at + 1, steps.length);
    if (text === undefined) return { unwritten: at + 1 };
    texts.push(text);
  }
  return { text: texts.join('\n') };
}

function written(step: TemplateStep, number: number, count: number): string | undefined {
  const marker = `${number}. `;
  const indent = ' '.repeat(marker.length);
  const notes = notesOf(step).map((note) => `${indent}- ${note}`);
  const ways = waysOf(step, indent).map((lines) => [`${marker}${lines[0]}`, ...lines.slice(1), ...notes].join('\n'));
  return ways.find((text) => readsBack(text, step, number, count));
}

function waysOf({ description, command }: TemplateStep, indent: string): string[][] {
  const said = inOneLine(description).replace(/^(?=\\*\[[ xX]\]\s)/, '\\');
  if (command === undefined) return [[said], [said, `${indent}- command: none`]];
  const fence = '`'.repeat(Math.max(3, ...[...command.matchAll(/`+/g)].map(([run]) => run.length + 1)));
  const block = [
    `${indent}${fence}sh`,
    ...command.split('\n').map((line) => (line === '' ? '' : indent + line)),
    indent + fence,
  ];
  const spans = command.includes('\n') ? [] : [[`${said}: \`${command}\``], [`${said}: \`\` ${command} \`\``]];
  // A colon before a command is no part of what is said, so one that is gets another.
  return [...spans, [said, ...block], [`${said}:`, ...block]];
}

const readsBack = (text: string, step: TemplateStep, number: number, count: number): boolean =>
  same(readStep(text, number, count), { ...step, description: inOneLine(step.description) });

function notesOf({ needs, when, rollback, parent, agent, done_when, notes }: TemplateStep): string[] {
  return [
    ...(needs && needs.length > 0 ? [`needs: ${needs.map(placeOf).join(', ')}`] : []),
    ...(when ?? []).map((one) => `when: ${JSON.stringify({ ...one, step: placeOf(one.step) })}`),
    ...(rollback === undefined ? [] : [`rollback: ${placeOf(rollback)}`]),
    ...(parent === undefined ? [] : [`part of: ${placeOf(parent)}`]),
    ...(agent === undefined ? [] : [`agent: ${agent}`]),
    ...(done_when ?? []).map((check) => `done when: ${checkText(check)}`),
    ...(notes === undefined ? [] : [`notes: ${isPlain(notes) ? notes : JSON.stringify(notes)}`]),
  ];
}

const placeOf = (id: string): number => Number(/^step_(\d+)$/.exec(id)?.[1]);
const isPlain = (text: string): boolean => inOneLine(text) === text && !/^"|[\u0000-\u001f\u2028\u2029]/.test(text);

/** In words where nothing but its main part is told, else as JSON. */
function checkText(check: DoneWhen): string {
  const [main, other] = Object.entries(check).filter(
    ([key, value]) => !(key === 'exit' && value === 0) && !(key === 'status' && value === 200),
  );
  const value = String(main?.[1]);
  return main && !other && isPlain(value) && !/^[`:：]/.test(value) ? `${main[0]} ${value}` : JSON.stringify(check);
}

/** Whether two steps say the same, whatever the order of their keys. */
function same(a: unknown, b: unknown): boolean {
  return JSON.stringify(ordered(a)) === JSON.stringify(ordered(b));
}

function ordered(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(ordered);
  if (typeof value !== 'object' || value === null) return value;
  const entries = Object.entries(value).filter(([, one]) => one !== undefined);
  return Object.fromEntries(entries.sort(([a], [b]) => (a < b ? -1 : 1)).map(([key, one]) => [key, ordered(one)]));
}
