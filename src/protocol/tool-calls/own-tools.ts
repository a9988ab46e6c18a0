import { z } from 'zod';
import { UserError } from '../../base/user-error.ts';
import { StepCheck } from '../session/plan.ts';
import { PLAN_BOUNDS, StepText } from '../session/plan-edit.ts';
import { parseToolArgs } from './tool-args.ts';

/**
 * The arguments of a call of the daemon's own tools, parsed by their schema, or what is wrong with them in words for
 * the model.
 */
export function parseOwnArgs<Args extends z.ZodObject>(
  tool: { name: string },
  schema: Args,
  args: string,
): z.output<Args> | string {
  try {
    return parseToolArgs(tool.name, schema, args);
  } catch (error) {
    if (error instanceof UserError) return error.message;
    throw error;
  }
}

/**
 * Defines a tool of the daemon's own, as the model sees it. Its JSON Schema is built on first use: building all three
 * took 10 ms of every program that loads the reducers, and only a daemon that calls a model needs them.
 */
function defineOwnTool(name: string, description: string, args: z.ZodType, line?: string) {
  let made: Record<string, unknown> | undefined;
  return {
    name,
    description,
    ...(line !== undefined && { line }),
    get parameters(): Record<string, unknown> {
      made ??= shownSchema(args);
      return made;
    },
  };
}

/** In a union, an object without a word about its keys is named by them alone: they say enough, and cost a quarter. */
function shownSchema(args: z.ZodType): Record<string, unknown> {
  return z.toJSONSchema(args, {
    io: 'input',
    override: ({ jsonSchema }) => {
      const options = (jsonSchema.anyOf ?? []).map((option) => outlineOf(option) ?? option);
      const outlines = options.flatMap(({ type, description }) => (type === 'object' ? (description ?? []) : []));
      if (options.length > 1 && outlines.length === options.length) {
        delete jsonSchema.anyOf;
        Object.assign(jsonSchema, { type: 'object', description: `One of ${outlines.join(', ')}` });
      } else if (options.length > 0) jsonSchema.anyOf = options;
    },
  });
}

function outlineOf({ properties, required = [] }: z.core.JSONSchema.BaseSchema) {
  const keys = Object.entries(properties ?? {});
  if (keys.length === 0 || keys.some(([, one]) => typeof one === 'object' && one.description !== undefined))
    return undefined;
  const names = keys.map(([key]) => (required.includes(key) ? key : `${key}?`));
  return { type: 'object' as const, description: `{${names.join(', ')}}` };
}

/** The most choices in a question; a person cannot survey more. */
const MAX_CHOICES = 10;

/** Arguments of the `ask_user` tool. */
export const AskUserArgs = z.strictObject({
  question: z.string().trim().min(1).max(4000).describe('The whole question: nothing else of your answer is shown.'),
  choices: z
    .array(z.string().trim().min(1).max(200))
    .max(MAX_CHOICES)
    .nullish()
    .describe('Short answers, at most ten; others stay possible.'),
});
export type AskUserArgs = z.infer<typeof AskUserArgs>;

/** A question to the person as a call: the run waits, and their next message is its result. */
export const ASK_USER_TOOL = defineOwnTool(
  'ask_user',
  'Ask the person what only they can say or decide, where a wrong guess is costly, and wait. One question at a time; other calls run first.',
  AskUserArgs,
);

// An empty description is reported separately from the rest of its list, so the schema accepts it.
const NewStep = z.union([
  z.string().max(PLAN_BOUNDS.description),
  z.strictObject({
    description: z.string().max(PLAN_BOUNDS.description),
    needs: z.array(z.string()).nullish(),
    done_when: z.array(StepCheck).nullish(),
  }),
]);

/** More steps than this are not a plan; a mode takes far fewer. */
const MAX_STEPS_AT_ONCE = 500;

const STEP_ID_HELP = 'Its id, such as step_2; by default the current one.';

/** Arguments of the `plan` tool. One flat object: some endpoints refuse a union at the top level. */
export const PlanToolArgs = z.strictObject({
  command: z.enum(['create', 'update', 'complete_step', 'mark_step', 'add_step', 'replan', 'get']),
  steps: z.array(NewStep).max(MAX_STEPS_AT_ONCE).nullish().describe('create, add_step: in order.'),
  step: z.string().nullish().describe(STEP_ID_HELP),
  description: StepText.nullish().describe('add_step, update.'),
  needs: z.array(z.string()).nullish().describe('add_step, update: ids of steps that come first.'),
  done_when: z.array(StepCheck).nullish().describe('add_step, update: checks before it counts as done.'),
  notes: z.string().max(PLAN_BOUNDS.notes).nullish().describe('update.'),
  status: z.enum(['failed', 'skipped', 'blocked']).nullish().describe('mark_step.'),
  reason: z.string().nullish().describe('mark_step, replan: why.'),
  result: z.string().nullish().describe('complete_step: what came out, in a sentence.'),
  progress: z
    .strictObject({ current: z.int().min(0), total: z.int().min(0) })
    .nullish()
    .describe('update: {current, total}.'),
});
export type PlanToolArgs = z.infer<typeof PlanToolArgs>;

/**
 * The structured alternative to the text markers, for models that prefer tools. It leads to the same events as the
 * text.
 */
export const PLAN_TOOL = defineOwnTool(
  'plan',
  'Keep the plan, as [Step] and [Done] lines do: create it, add or change steps, report how one ended, look at it.',
  PlanToolArgs,
);

/** Arguments of the `spawn` tool. */
export const SpawnArgs = z.strictObject({
  task: StepText.describe(
    'What the child session is to do, whole: it knows the goal and the results so far, not this conversation.',
  ),
  agent: z
    .string()
    .trim()
    .min(1)
    .nullish()
    .describe('Name of the agent profile that does it; without it, one like you.'),
});
export type SpawnArgs = z.infer<typeof SpawnArgs>;

/** A child session requested by the model: delegation of a step, as a call. */
export const SPAWN_TOOL = defineOwnTool(
  'spawn',
  'Give a piece of work to a child session with a conversation of its own, and get its answer. Several calls in one answer work side by side. Use it for work that would fill this conversation, or that can be done in parallel.',
  SpawnArgs,
  'give work to child sessions, several side by side: {task, agent?}',
);

/** Arguments of `more_tools`: with `arguments` a call of that tool, else a question how to call it. */
export const MoreToolsArgs = z.strictObject({
  tool: z.string(),
  arguments: z.record(z.string(), z.unknown()).nullish(),
});

const MORE_TOOLS_NAME = 'more_tools';

/**
 * The tool by which the rarely used ones are offered, each by its line. Asked with the name alone, it answers with the
 * tool's description and arguments; with arguments, the call is that tool's.
 */
export const MORE_TOOLS = {
  name: MORE_TOOLS_NAME,
  offering: (tools: ReadonlyArray<{ name: string; line?: string }>) => ({
    name: MORE_TOOLS_NAME,
    description: [
      'More tools. Call one with its name and arguments, or with its name alone to learn them.',
      ...tools.flatMap(({ name, line }) => (line === undefined ? [] : [`- ${name}: ${line}`])),
    ].join('\n'),
    parameters: z.toJSONSchema(MoreToolsArgs, { io: 'input' }) as Record<string, unknown>,
  }),
};

/** The tool that lists the items of a step with `each`; the model is not offered it. */
export const PARTS_TOOL = 'parts';

/** The most items of a step. Nobody reads a larger plan, and each of its events costs a pass over every step. */
export const MAX_PARTS = 1000;
/** Files or lines grouped into one item if there are too many for an item each. */
export const MAX_ITEMS_PER_PART = 20;

/** Its arguments: which page of the list comes next. */
export const PartsArgs = z.strictObject({
  folder: z.string().optional(),
  match: z.string().optional(),
  file: z.string().optional(),
  from: z.int().min(0).describe('Lines of the file that were listed before.'),
  after: z.string().optional().describe('The last path of the folder that was listed before.'),
  group: z.int().min(1).optional().describe('How many go into one part, as the first page said.'),
});
export type PartsArgs = z.infer<typeof PartsArgs>;

/** A page of items. */
export const PartsPage = z.strictObject({
  /** Files or lines in total, when the first page was made. */
  total: z.int().min(0),
  /** Links, hidden files, and anything that is neither file nor folder: not listed. */
  left_out: z.int().min(0),
  group: z.int().min(1),
  parts: z.array(z.array(z.string()).min(1)),
  more: z.boolean(),
});
export type PartsPage = z.infer<typeof PartsPage>;

/**
 * How many files or lines go into one item, so that the number of items stays within bounds; undefined if there are
 * still too many.
 */
export function partSize(total: number): number | undefined {
  const size = Math.max(1, Math.ceil(total / MAX_PARTS));
  return size <= MAX_ITEMS_PER_PART ? size : undefined;
}

export function chunk<T>(all: readonly T[], size: number): T[][] {
  const groups: T[][] = [];
  for (let at = 0; at < all.length; at += size) groups.push(all.slice(at, at + size));
  return groups;
}
