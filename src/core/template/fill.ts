import type { MessageTemplate } from '../../protocol/event.ts';
import { nearestName } from '../../protocol/nearest.ts';
import { type DoneWhen, PLAN_BOUNDS } from '../../protocol/plan.ts';
import { distinct, wordsBefore } from '../../protocol/template/list.ts';
import { filled, placesIn } from '../../protocol/template/placeholders.ts';
import { readSteps } from '../../protocol/template/steps.ts';
import {
  MOST_TEMPLATE_CHARS,
  type Template,
  type TemplateHead,
  type TemplateStep,
} from '../../protocol/template/template.ts';
import { inOneLine, writeSteps } from '../../protocol/template/write.ts';
import { ringIn } from '../planner/graph.ts';
import { argsIn } from './order.ts';

/** Longest value in UTF-16 units; what is longer is a file. */
const MOST_VALUE = 4000;

/** What is wrong with a template whatever it is given, each in a line with its place; none where it can be run. */
export function templateFaults({ name, head, body, skipped }: Template): string[] {
  const at = (line: number, what: string) => `templates/${name}.md, line ${line + skipped}: ${what}`;
  const read = readSteps(body);
  if ('faults' in read) return read.faults.map(({ line, what }) => at(line, what));
  const known = Object.keys(head.parameters ?? {});
  const strangers = placesOf(head, body, read.steps).filter((place) => !known.includes(place));
  const inCommands = [...new Set(read.steps.flatMap(commandsOf).flatMap(placesIn))];
  const ring = ringIn(
    read.steps.map((step, n) => ({
      id: `step_${n + 1}`,
      needs: [...(step.needs ?? []), ...(step.when ?? []).map((one) => one.step)],
    })),
  );
  return [
    ...strangers.map((place) => at(lineOf(body, place), `{{${place}}} is no parameter; ${knownOnes(place, known)}`)),
    ...inCommands.map((place) =>
      at(
        lineOf(body, place),
        `{{${place}}} stands in a command; write "$${place}" there: a command gets its parameters as variables`,
      ),
    ),
    ...(ring
      ? [
          `templates/${name}.md: the items ${ring.map((id) => id.replace('step_', '')).join(' → ')} need each other in a ring`,
        ]
      : []),
  ];
}

/** Every place that takes a value: those of commands take none. */
function placesOf({ goal, description }: TemplateHead, body: string, steps: readonly TemplateStep[]): string[] {
  const names = new Set([goal, description, wordsBefore(body)].flatMap((text) => placesIn(text ?? '')));
  const noted = (name: string) => {
    names.add(name);
    return 'x';
  };
  for (const step of steps) filledStep(step, noted, new Map());
  return [...names];
}

/** How a template is run, with everything that must be given. */
export function usageOf({ name, head }: Template): string {
  const words = Object.entries(head.parameters ?? {}).map(([key, given]) =>
    given.default !== undefined ? `[${key}=${quoted(given.default)}]` : `${key}=…`,
  );
  return ['/run', name, ...words].join(' ');
}

const quoted = (text: string) => (/^[^\s"'“]+$/.test(text) ? text : JSON.stringify(text));

/**
 * The template with these arguments, as it goes on record, or why it cannot be run. Values are put in once, as text: none is looked
 * into for places, none makes a step or a command. A command gets those it names as variables of the shell, quoted.
 */
export function fillTemplate(template: Template, args: string): MessageTemplate {
  const faults = templateFaults(template);
  if (faults.length > 0) return { fault: faults.join('\n') };
  const given = valuesFor(template, args);
  if ('fault' in given) return given;
  const { name, head, body } = template;
  const read = readSteps(body);
  if ('faults' in read) return { fault: read.faults.map(({ what }) => what).join('\n') };
  const value = (key: string) => given.values.get(key) ?? '';
  const steps = distinct(read.steps.map((step) => filledStep(step, value, given.values)));
  const before = filled(wordsBefore(body), value);
  const long = steps.findIndex((step) => step.description.length > PLAN_BOUNDS.description);
  if (long >= 0)
    return {
      fault: `With these values item ${long + 1} of ${name} has ${steps[long]?.description.length} characters; ${PLAN_BOUNDS.description} are the most.`,
    };
  const list = writeSteps(steps);
  if ('unwritten' in list)
    return { fault: `With these values item ${list.unwritten} of ${name} says nothing, or has an empty check.` };
  const text = [...(before === '' ? [] : [before, '']), list.text].join('\n');
  if (text.length > MOST_TEMPLATE_CHARS)
    return { fault: `${name} with these values has ${text.length} characters; ${MOST_TEMPLATE_CHARS} are the most.` };
  // What stands before the list is told as it is: no value in it may become a step.
  const back = readSteps(text);
  if (!('steps' in back) || back.steps.length !== steps.length)
    return {
      fault: `With these values the words before the list of ${name} read as steps of their own. Give other values.`,
    };
  const goal = filled(head.goal ?? head.description ?? '', value).trim() || `/run ${name} ${args}`.trim();
  return { name, goal, text, ...(head.mode && { mode: head.mode }), ...(head.limits && { limits: head.limits }) };
}

/** A value for every parameter, or which one is missing, not known or not fit. */
function valuesFor(template: Template, args: string): { values: Map<string, string> } | { fault: string } {
  const usage = `Usage: ${usageOf(template)}`;
  const read = argsIn(args);
  if ('fault' in read) return { fault: `${read.fault}. ${usage}` };
  const parameters = Object.entries(template.head.parameters ?? {});
  const known = parameters.map(([key]) => key);
  for (const [key, text] of read.values) {
    if (!known.includes(key))
      return { fault: `${template.name} has no parameter "${key}"; ${knownOnes(key, known)}. ${usage}` };
    if (/[\p{Cc}\u2028\u2029]/u.test(text) || text.length > MOST_VALUE)
      return {
        fault: `The value of ${key} is not one line of at most ${MOST_VALUE} characters. Send a longer text as an attachment. ${usage}`,
      };
  }
  const values = new Map<string, string>();
  const missing: string[] = [];
  for (const [key, parameter] of parameters) {
    const text = read.values.get(key) ?? parameter.default;
    if (text === undefined) missing.push(parameter.description ? `${key} (${parameter.description})` : key);
    else values.set(key, text);
  }
  return missing.length > 0 ? { fault: `${template.name} wants ${missing.join(', ')}. ${usage}` } : { values };
}

const knownOnes = (name: string, known: readonly string[]): string => {
  const near = nearestName(name, known);
  if (near !== undefined) return `the nearest one is "${near}"`;
  return known.length > 0 ? `its parameters are ${known.join(', ')}` : 'it has none';
};

const lineOf = (body: string, place: string): number =>
  Math.max(
    0,
    body.split(/\r\n?|\n/).findIndex((line) => placesIn(line).includes(place)),
  ) + 1;

const commandsOf = ({ command, done_when = [] }: TemplateStep): string[] => [
  ...(command === undefined ? [] : [command]),
  ...done_when.flatMap((check) => ('command' in check ? [check.command] : [])),
];

function filledStep(
  step: TemplateStep,
  value: (key: string) => string,
  values: ReadonlyMap<string, string>,
): TemplateStep {
  const { description, command, notes, done_when, when } = step;
  return {
    ...step,
    description: inOneLine(filled(description, value)),
    ...(command !== undefined && { command: withVariables(command, values).trim() }),
    ...(notes !== undefined && { notes: filled(notes, value) }),
    ...(done_when && { done_when: done_when.map((check) => filledCheck(check, value, values)) }),
    ...(when && {
      when: when.map((one) => (one.result === undefined ? one : { ...one, result: filled(one.result, value) })),
    }),
  };
}

function filledCheck(check: DoneWhen, value: (key: string) => string, values: ReadonlyMap<string, string>): DoneWhen {
  if ('command' in check) return { ...check, command: withVariables(check.command, values) };
  if ('url' in check) return { ...check, url: filled(check.url, (key) => encodeURIComponent(value(key))) };
  if ('person' in check) return { person: filled(check.person, value) };
  // A value is text there too, and no pattern.
  const pattern = (key: string) => value(key).replace(/[\\^$.*+?()[\]{}|/]/g, '\\$&');
  const { file, matches } = check;
  return { ...check, file: filled(file, value), ...(matches !== undefined && { matches: filled(matches, pattern) }) };
}

/**
 * A command with the parameters it names set before it. POSIX, 2.2.2: between single quotes every character stands for itself, so that
 * no value ends its quotes or begins a command, wherever the variable is used later.
 */
function withVariables(command: string, values: ReadonlyMap<string, string>): string {
  const named = [...values].filter(([key]) => new RegExp(`(?<![A-Za-z0-9_])${key}(?![A-Za-z0-9_])`).test(command));
  return [
    ...named.map(([key, text]) => `export ${key}='${text.replaceAll("'", "'\\''")}'`),
    filled(command, (key) => `{{${key}}}`),
  ].join('\n');
}
