import { nearestName } from '../../base/strings.ts';
import type { RenderedTemplate } from '../../protocol/session/message.ts';
import type { StepCheck } from '../../protocol/session/plan.ts';
import { PLAN_BOUNDS } from '../../protocol/session/plan-edit.ts';
import { makeDescriptionsUnique, textBeforeList } from '../../protocol/templates/markdown-list.ts';
import {
  fillPlaceholders,
  MAX_TEMPLATE_CHARS,
  mapCheck,
  mapSource,
  placeholderNames,
  type Template,
  type TemplateHead,
  type TemplateStep,
} from '../../protocol/templates/template.ts';
import { formatSteps, parseSteps, toOneLine } from '../../protocol/templates/template-steps.ts';
import { isFanOutStep } from '../plan/fan-out.ts';
import { findCycle } from '../plan/step-graph.ts';

/** Longest value in UTF-16 units; anything longer belongs in a file. */
const MAX_VALUE_LENGTH = 4000;

/** The faults of a template independent of its arguments, one line each with its position; empty if it can be run. */
export function findTemplateFaults({ name, head, body, frontMatterLines }: Template): string[] {
  const at = (line: number, what: string) => `templates/${name}.md, line ${line + frontMatterLines}: ${what}`;
  const read = parseSteps(body);
  if ('faults' in read) return read.faults.map(({ line, what }) => at(line, what));
  const known = Object.keys(head.parameters ?? {});
  const strangers = placeholdersOf(head, body, read.steps).filter((place) => !known.includes(place));
  const inCommands = [...new Set(read.steps.flatMap(stepCommands).flatMap(placeholderNames))];
  const cycle = findCycle(
    read.steps.map((step, n) => ({
      id: `step_${n + 1}`,
      needs: [
        ...(step.needs ?? []),
        ...(step.gather ? [step.gather.from] : []),
        ...(step.when ?? []).map((one) => one.step),
      ],
    })),
  );
  return [
    ...(read.steps.some(isFanOutStep) && head.mode !== 'map-reduce'
      ? [at(1, '"each" and "gather" need "mode: map-reduce"')]
      : []),
    ...strangers.map((place) =>
      at(placeholderLine(body, place), `{{${place}}} is not a parameter; ${suggestParameter(place, known)}`),
    ),
    ...inCommands.map((place) =>
      at(
        placeholderLine(body, place),
        `{{${place}}} is in a command; write "$${place}" there: a command gets its parameters as variables`,
      ),
    ),
    ...(cycle
      ? [
          `templates/${name}.md: the items ${cycle.map((id) => id.replace('step_', '')).join(' → ')} need each other in a cycle`,
        ]
      : []),
  ];
}

/** All texts that may contain placeholders: those of commands may not. */
function placeholdersOf({ goal, description }: TemplateHead, body: string, steps: readonly TemplateStep[]): string[] {
  const names = new Set([goal, description, textBeforeList(body)].flatMap((text) => placeholderNames(text ?? '')));
  const noted = (name: string) => {
    names.add(name);
    return 'x';
  };
  for (const step of steps) fillStep(step, noted, new Map());
  return [...names];
}

/** How to run a template, with all required arguments. */
export function templateUsage({ name, head }: Template): string {
  const words = Object.entries(head.parameters ?? {}).map(([key, given]) =>
    given.default !== undefined ? `[${key}=${quoteValue(given.default)}]` : `${key}=…`,
  );
  return ['/run', name, ...words].join(' ');
}

const quoteValue = (text: string) => (/^[^\s"'“]+$/.test(text) ? text : JSON.stringify(text));

/**
 * The template with these arguments filled in, as it is logged, or why it cannot be run. Values are inserted once, as
 * text: they are not searched for placeholders, and create no step or command. A command gets the parameters it names
 * as quoted shell variables.
 */
export function fillTemplate(template: Template, args: string): RenderedTemplate {
  const faults = findTemplateFaults(template);
  if (faults.length > 0) return { fault: faults.join('\n') };
  const given = resolveValues(template, args);
  if ('fault' in given) return given;
  const { name, head, body } = template;
  const read = parseSteps(body);
  if ('faults' in read) return { fault: read.faults.map(({ what }) => what).join('\n') };
  const value = (key: string) => given.values.get(key) ?? '';
  const steps = makeDescriptionsUnique(read.steps.map((step) => fillStep(step, value, given.values)));
  const before = fillPlaceholders(textBeforeList(body), value);
  const long = steps.findIndex((step) => step.description.length > PLAN_BOUNDS.description);
  if (long >= 0)
    return {
      fault: `With these values item ${long + 1} of ${name} has ${steps[long]?.description.length} characters; ${PLAN_BOUNDS.description} are the most.`,
    };
  const list = formatSteps(steps);
  if ('unwritten' in list)
    return { fault: `With these values item ${list.unwritten} of ${name} says nothing, or has an empty check.` };
  const text = [...(before === '' ? [] : [before, '']), list.text].join('\n');
  if (text.length > MAX_TEMPLATE_CHARS)
    return { fault: `${name} with these values has ${text.length} characters; ${MAX_TEMPLATE_CHARS} are the most.` };
  // The text before the list is passed on as it is: no value in it may become a step.
  const back = parseSteps(text);
  if (!('steps' in back) || back.steps.length !== steps.length)
    return {
      fault: `With these values the words before the list of ${name} read as steps of their own. Give other values.`,
    };
  const goal = fillPlaceholders(head.goal ?? head.description ?? '', value).trim() || `/run ${name} ${args}`.trim();
  return { name, goal, text, ...(head.mode && { mode: head.mode }), ...(head.limits && { limits: head.limits }) };
}

/** A value for every parameter, or which one is missing, unknown or invalid. */
function resolveValues(template: Template, args: string): { values: Map<string, string> } | { fault: string } {
  const usage = `Usage: ${templateUsage(template)}`;
  const read = parseArguments(args);
  if ('fault' in read) return { fault: `${read.fault}. ${usage}` };
  const parameters = Object.entries(template.head.parameters ?? {});
  const known = parameters.map(([key]) => key);
  for (const [key, text] of read.values) {
    if (!known.includes(key))
      return { fault: `${template.name} has no parameter "${key}"; ${suggestParameter(key, known)} ${usage}` };
    if (/[\p{Cc}\u2028\u2029]/u.test(text) || text.length > MAX_VALUE_LENGTH)
      return {
        fault: `The value of ${key} is not one line of at most ${MAX_VALUE_LENGTH} characters. Send a longer text as an attachment. ${usage}`,
      };
  }
  const values = new Map<string, string>();
  const missing: string[] = [];
  for (const [key, parameter] of parameters) {
    const text = read.values.get(key) ?? parameter.default;
    if (text === undefined) missing.push(parameter.description ? `${key} (${parameter.description})` : key);
    else values.set(key, text);
  }
  return missing.length > 0 ? { fault: `${template.name} requires ${missing.join(', ')}. ${usage}` } : { values };
}

const suggestParameter = (name: string, known: readonly string[]): string => {
  const near = nearestName(name, known);
  if (near !== undefined) return `did you mean "${near}"?`;
  return known.length > 0 ? `its parameters are ${known.join(', ')}.` : 'it has none.';
};

const placeholderLine = (body: string, place: string): number =>
  Math.max(
    0,
    body.split(/\r\n?|\n/).findIndex((line) => placeholderNames(line).includes(place)),
  ) + 1;

const stepCommands = ({ command, done_when = [] }: TemplateStep): string[] => [
  ...(command === undefined ? [] : [command]),
  ...done_when.flatMap((check) => ('command' in check ? [check.command] : [])),
];

function fillStep(
  step: TemplateStep,
  value: (key: string) => string,
  values: ReadonlyMap<string, string>,
): TemplateStep {
  const { description, command, notes, done_when, when, each } = step;
  return {
    ...step,
    description: toOneLine(fillPlaceholders(description, value)),
    ...(command !== undefined && { command: exportVariables(command, values).trim() }),
    ...(notes !== undefined && { notes: fillPlaceholders(notes, value) }),
    ...(each && { each: mapSource(each, (text) => fillPlaceholders(text, value)) }),
    ...(done_when && { done_when: done_when.map((check) => fillCheck(check, value, values)) }),
    ...(when && {
      when: when.map((one) =>
        one.result === undefined ? one : { ...one, result: fillPlaceholders(one.result, value) },
      ),
    }),
  };
}

function fillCheck(check: StepCheck, value: (key: string) => string, values: ReadonlyMap<string, string>): StepCheck {
  // A value is plain text in a pattern, too.
  const pattern = (key: string) => value(key).replace(/[\\^$.*+?()[\]{}|/]/g, '\\$&');
  const fill = { url: (key: string) => encodeURIComponent(value(key)), matches: pattern, person: value, file: value };
  return mapCheck(check, (text, of) =>
    of === 'command' ? exportVariables(text, values) : fillPlaceholders(text, fill[of]),
  );
}

/**
 * A command preceded by assignments of the parameters it names. POSIX, 2.2.2: between single quotes every character
 * stands for itself, so that no value ends its quotes or starts a command, wherever the variable is used later.
 */
function exportVariables(command: string, values: ReadonlyMap<string, string>): string {
  const named = [...values].filter(([key]) => new RegExp(`(?<![A-Za-z0-9_])${key}(?![A-Za-z0-9_])`).test(command));
  return [
    ...named.map(([key, text]) => `export ${key}='${text.replaceAll("'", "'\\''")}'`),
    fillPlaceholders(command, (key) => `{{${key}}}`),
  ].join('\n');
}

const ARGUMENT = /\s*([A-Za-z_]\w*)\s*=\s*(?:"((?:[^"\\]|\\[\s\S])*)"|“([^”]*)”|'([^']*)'|([^\s"'“]\S*)?)(?=\s|$)/y;

/**
 * Parses `city=Paris title="a b"` into values by name, or returns what could not be read. In double quotes a backslash
 * escapes the next character.
 */
export function parseArguments(text: string): { values: Map<string, string> } | { fault: string } {
  const values = new Map<string, string>();
  const given = text.trim();
  for (ARGUMENT.lastIndex = 0; ARGUMENT.lastIndex < given.length; ) {
    const from = ARGUMENT.lastIndex;
    const found = ARGUMENT.exec(given);
    if (!found) {
      const came = given.slice(from).trim().slice(0, 60);
      return { fault: `expected name=value, with quotes around a value that has spaces; got ${JSON.stringify(came)}` };
    }
    const [, name = '', double, curly, single, bare] = found;
    if (values.has(name)) return { fault: `${name} is given twice` };
    values.set(name, double?.replace(/\\([\s\S])/g, '$1') ?? curly ?? single ?? bare ?? '');
  }
  return { values };
}
