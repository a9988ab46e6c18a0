import { z } from 'zod';
import type { EachSource, Step, StepCheck } from '../session/plan.ts';
import { LimitsInput, Mode } from '../settings/run-options.ts';

/** The most steps of a template; a longer list is a program, and belongs in a script that a step runs. */
export const MAX_TEMPLATE_STEPS = 500;
/** The most characters of a filled-in template: it is kept in one line of the log. */
export const MAX_TEMPLATE_CHARS = 64_000;

const scalarAsText = z.union([z.string(), z.number(), z.boolean()]).transform(String);

const TemplateParameter = z.strictObject({
  description: z.string().optional(),
  default: scalarAsText.optional().describe('Value if none is given. A parameter without a default is required.'),
});

/** The front matter of a template. */
export const TemplateHead = z.strictObject({
  description: z.string().optional().describe('What the template is for, in one line.'),
  goal: z.string().optional().describe('The goal of its plans; default: the description.'),
  parameters: z
    .record(
      z.string().regex(/^[a-z][a-z0-9_]{0,40}$/, 'expected a name of lower-case letters, digits and "_"'),
      z.preprocess(
        (given) => (given === null ? {} : typeof given === 'object' ? given : { default: given }),
        TemplateParameter,
      ),
    )
    .optional()
    .describe('Parameters of its text: a description and a default, only the default, or nothing.'),
  mode: Mode.optional().describe('The planning mode of its runs; default linear.'),
  limits: LimitsInput.optional().describe('Limits of its runs.'),
});
export type TemplateHead = z.output<typeof TemplateHead>;

/**
 * A step as a template has it: a step of a plan before anything ran. Other steps are named by position, as `step_<n>`.
 */
export type TemplateStep = Pick<
  Step,
  | ('description' | 'command' | 'needs' | 'done_when' | 'notes' | 'agent' | 'when' | 'rollback' | 'parent')
  | ('each' | 'gather' | 'on_failed_part')
>;

/** A source of items with each of its texts changed. */
export function mapSource(each: EachSource, change: (text: string) => string): EachSource {
  if ('list' in each) return { list: each.list.map(change) };
  if ('file' in each) return { file: change(each.file) };
  return { folder: change(each.folder), ...(each.match !== undefined && { match: change(each.match) }) };
}

/** A check with each of its texts changed. */
export function mapCheck(
  check: StepCheck,
  change: (text: string, of: 'command' | 'url' | 'person' | 'file' | 'matches') => string,
): StepCheck {
  if ('command' in check) return { ...check, command: change(check.command, 'command') };
  if ('url' in check) return { ...check, url: change(check.url, 'url') };
  if ('person' in check) return { person: change(check.person, 'person') };
  const { file, matches } = check;
  return {
    ...check,
    file: change(file, 'file'),
    ...(matches !== undefined && { matches: change(matches, 'matches') }),
  };
}

/** A template as it is in its file. */
export type Template = {
  name: string;
  head: TemplateHead;
  /** The file without its front matter, and how many lines that took. */
  body: string;
  frontMatterLines: number;
};

/**
 * A template's name is a file name without its ending: it must not lead out of the folder, be hidden, or need quoting.
 */
export function isTemplateName(name: string): boolean {
  return /^[\p{L}\p{N}][\p{L}\p{N}_-]{0,79}$/u.test(name);
}

/**
 * `{{name}}` in a template. A backslash before it makes it plain text, and a backslash before that one is one; nothing
 * else is special, so `{{.Names}}` and `${{ x.y }}` stay as they are.
 */
// The lookbehind keeps a long run of backslashes from being retried from each of them.
const PLACEHOLDER = /(?<!\\)(\\*)(\{\{[ \t]*([A-Za-z_][A-Za-z0-9_]*)[ \t]*\}\})/g;

/** The text with each placeholder filled in once: values are not searched for placeholders. */
export function fillPlaceholders(text: string, value: (name: string) => string): string {
  return text.replace(PLACEHOLDER, (_, slashes: string, literal: string, name: string) => {
    const kept = slashes.slice(0, slashes.length >> 1);
    return kept + (slashes.length % 2 === 1 ? literal : value(name));
  });
}

/** The names of a text's placeholders, without duplicates. */
export function placeholderNames(text: string): string[] {
  const names = new Set<string>();
  fillPlaceholders(text, (name) => {
    names.add(name);
    return '';
  });
  return [...names];
}

/** Escapes a text so that `fillPlaceholders` returns it unchanged. */
export function escapePlaceholders(text: string): string {
  return text.replace(PLACEHOLDER, (_, slashes: string, literal: string) => `${slashes}${slashes}\\${literal}`);
}
