import { z } from 'zod';
import { WrittenLimits } from '../limits.ts';
import { Mode } from '../message.ts';
import type { Step } from '../plan.ts';

/** Most steps of a template; a longer list is a program, and has its place in a script that a step runs. */
export const MOST_TEMPLATE_STEPS = 500;
/** Most characters of a template that is filled in: it is kept in one line of the record. */
export const MOST_TEMPLATE_CHARS = 64_000;

const value = z.union([z.string(), z.number(), z.boolean()]).transform(String);

const Parameter = z.strictObject({
  description: z.string().optional(),
  default: value.optional().describe('Its value where none is given. Without a default one must be given.'),
});

/** The front matter of a template. */
export const TemplateHead = z.strictObject({
  description: z.string().optional().describe('What it is for, in a line.'),
  goal: z.string().optional().describe('The goal of its plans; the description without it.'),
  parameters: z
    .record(
      z.string().regex(/^[a-z][a-z0-9_]{0,40}$/, 'wanted a name of small letters, digits and "_"'),
      z.preprocess(
        (given) => (given === null ? {} : typeof given === 'object' ? given : { default: given }),
        Parameter,
      ),
    )
    .optional()
    .describe('What its text has places for: a description and a default, or the default alone, or nothing.'),
  mode: Mode.optional().describe('The mode its plans are worked through in; linear without it.'),
  limits: WrittenLimits.optional().describe('Limits of a run of it.'),
});
export type TemplateHead = z.output<typeof TemplateHead>;

/** A step as a template says it: that of a plan before anything ran. Other steps are named by their place, as `step_<n>`. */
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
  skipped: number;
};

/** A name is a file name without its ending: nothing that leads out of the folder, is hidden, or needs to be quoted. */
export function isTemplateName(name: string): boolean {
  return /^[\p{L}\p{N}][\p{L}\p{N}_-]{0,79}$/u.test(name);
}
