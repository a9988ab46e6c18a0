import { z } from 'zod';
import type { Step } from '../session/plan.ts';
import { LimitsInput, Mode } from '../settings/run-options.ts';

/** Most steps of a template; a longer list is a program, and has its place in a script that a step runs. */
export const MAX_TEMPLATE_STEPS = 500;
/** Most characters of a template that is filled in: it is kept in one line of the record. */
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
      z.string().regex(/^[a-z][a-z0-9_]{0,40}$/, 'expected a name of small letters, digits and "_"'),
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
 * A step as a template says it: that of a plan before anything ran. Other steps are named by their place, as
 * `step_<n>`.
 */
export type TemplateStep = Pick<
  Step,
  'description' | 'command' | 'needs' | 'done_when' | 'notes' | 'agent' | 'when' | 'rollback' | 'parent'
>;

/** A template as it is in its file. */
export type Template = {
  name: string;
  head: TemplateHead;
  /** The file without its front matter, and how many lines that took. */
  body: string;
  frontMatterLines: number;
};

/** A name is a file name without its ending: nothing that leads out of the folder, is hidden, or needs to be quoted. */
export function isTemplateName(name: string): boolean {
  return /^[\p{L}\p{N}][\p{L}\p{N}_-]{0,79}$/u.test(name);
}

/**
 * `{{name}}` in a template. A backslash before it makes it plain text, and a backslash before that one is one; nothing
 * else is special, so `{{.Names}}` and `${{ x.y }}` stay as they are.
 */
// The look behind keeps a long run of backslashes from being tried from each of them.
const PLACEHOLDER = /(?<!\\)(\\*)(\{\{[ \t]*([A-Za-z_][A-Za-z0-9_]*)[ \t]*\}\})/g;

/** The text with each place filled in once: what a value says is never looked at again. */
export function fillPlaceholders(text: string, value: (name: string) => string): string {
  return text.replace(PLACEHOLDER, (_, slashes: string, literal: string, name: string) => {
    const kept = slashes.slice(0, slashes.length >> 1);
    return kept + (slashes.length % 2 === 1 ? literal : value(name));
  });
}

/** The names a text has places for, each once. */
export function placeholderNames(text: string): string[] {
  const names = new Set<string>();
  fillPlaceholders(text, (name) => {
    names.add(name);
    return '';
  });
  return [...names];
}

/** Text that `filled` gives back as it is. */
export function escapePlaceholders(text: string): string {
  return text.replace(PLACEHOLDER, (_, slashes: string, literal: string) => `${slashes}${slashes}\\${literal}`);
}
