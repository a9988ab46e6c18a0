import { z } from 'zod';
import { attempt } from '../../base/user-error.ts';
import { Mode } from '../settings/run-options.ts';

export const PLAN_STATUSES = ['running', 'paused', 'waiting', 'completed', 'failed', 'cancelled'] as const;
export const PlanStatus = z.enum(PLAN_STATUSES);
export type PlanStatus = z.infer<typeof PlanStatus>;

export const STEP_STATUSES = ['pending', 'running', 'completed', 'failed', 'blocked', 'skipped'] as const;
export const StepStatus = z.enum(STEP_STATUSES);
export type StepStatus = z.infer<typeof StepStatus>;

export const COMPLETED_BY = [
  ...(['marker', 'tool', 'transition', 'timeout', 'text', 'person', 'agent', 'child', 'parts'] as const),
] as const;
export const CompletedBy = z.enum(COMPLETED_BY);
export type CompletedBy = z.infer<typeof CompletedBy>;

/** Whether a person, or another agent in their place, set it to completed. */
export const isByHand = (by: CompletedBy | undefined): boolean => by === 'person' || by === 'agent';

export const NO_PATTERN = 'expected a JavaScript regular expression';

/** A check that must pass before a step counts as done. */
export const StepCheck = z.union([
  z.strictObject({ file: z.string().min(1), min_bytes: z.int().min(0).optional(), matches: z.string().optional() }),
  z.strictObject({ command: z.string().min(1), exit: z.int().default(0) }),
  z.strictObject({ url: z.url(), status: z.int().default(200) }),
  z.strictObject({ person: z.string().min(1) }),
]);
export type StepCheck = z.infer<typeof StepCheck>;

/** Whether its pattern is one. One that was recorded earlier need not be. */
export function hasPattern(check: StepCheck): boolean {
  return attempt(() => !('matches' in check) || new RegExp(check.matches ?? '') !== undefined) ?? false;
}

/** A fact about another step; every field given must hold. */
export const StepCondition = z.strictObject({
  step: z.string().min(1).describe('Id of the step it is about; that one ends first.'),
  status: z.enum(['completed', 'failed', 'skipped', 'blocked']).optional().describe('How it ended.'),
  result: z
    .string()
    .min(1)
    .optional()
    .describe('Its result states this. A result that denies it ("no error" for "error") does not count.'),
  exit: z.int().optional().describe('Exit status of the last command that ran in it.'),
  not: z.boolean().optional().describe('true: the step runs if the rest does not hold.'),
});
export type StepCondition = z.infer<typeof StepCondition>;

/** The source of the items of a step that runs once for each of them. */
export const EachSource = z.union([
  z.strictObject({
    folder: z.string().min(1).describe('Each file in it and below is a part; hidden files and links are left out.'),
    match: z.string().min(1).optional().describe('Only files like this, such as "*.md" or "2024/**/*.csv".'),
  }),
  z.strictObject({ file: z.string().min(1).describe('Each line of it that is not empty is a part.') }),
  z.strictObject({ list: z.array(z.string().min(1)) }),
]);
export type EachSource = z.infer<typeof EachSource>;

/** What a step combines: the outcomes of another step's items, in batches. */
export const ReduceInput = z.strictObject({
  from: z.string().min(1).describe('Id of the step with `each`.'),
  batch_chars: z.int().min(1).optional().describe('Characters of results that are combined at once.'),
});
export type ReduceInput = z.infer<typeof ReduceInput>;

export const StepProgress = z.object({ current: z.int().min(0), total: z.int().min(0) });

/** The other step because of which the daemon skips or blocks one, and how this one depends on it. */
export const SkipCause = z.object({
  relation: z.enum(['needs', 'when', 'undoes', 'part of']),
  step: z.string().min(1),
});
export type SkipCause = z.infer<typeof SkipCause>;

export const Step = z.object({
  id: z.string().min(1),
  description: z.string().min(1).describe('What is to be done. A tag like [CHART] at its beginning may name an agent.'),
  command: z.string().optional().describe('The command that does it, if its template names one.'),
  status: StepStatus,
  result: z.string().optional().describe('Its result, in a few words.'),
  completed_by: CompletedBy.optional().describe(
    'What decided that it is done, or skipped; `timeout` means assumed, `text` only its text shows it, since no tool call succeeded.',
  ),
  evidence: z.string().optional().describe('The words that decided it.'),
  proof: z
    .array(z.string())
    .optional()
    .describe('What can be checked: files with their hashes, exit statuses, addresses. Empty: it is unproven.'),
  error: z.string().optional(),
  because: SkipCause.optional().describe('The other step because of which it was skipped or blocked.'),
  progress: StepProgress.optional(),
  needs: z.array(z.string()).optional().describe('Ids of steps that must be completed first.'),
  when: z.array(StepCondition).optional().describe('It runs only if all of these hold; else it is skipped.'),
  rollback: z
    .string()
    .optional()
    .describe('Id of the step that undoes this one. That other step runs only after this one has failed.'),
  parent: z.string().optional().describe('Id of the step this one is a part of.'),
  each: EachSource.optional().describe('It is done once for each of these, each time by a step of its own.'),
  gather: ReduceInput.optional().describe('It combines the results of the parts of another step.'),
  on_failed_part: z
    .enum(['fail', 'continue'])
    .optional()
    .describe(
      'What a failed part means for a step with `each`: "fail" (the default) fails it, "continue" leaves the part out.',
    ),
  part: z
    .array(z.string())
    .optional()
    .describe('The items of this part: paths as its `parent` found them, or entries.'),
  done_when: z.array(StepCheck).optional(),
  notes: z.string().optional(),
  agent: z.string().optional().describe('The profile of `agents` that does it; a tag such as [CHART] names one too.'),
  child: z.string().optional().describe('The child session that works on it.'),
  call: z.string().optional().describe('The key of the `spawn` call that asked for it.'),
  attempts: z.int().min(1).optional().describe('How often it was started, if more than once.'),
  attachments: z.array(z.string()).optional().describe('Files under `work/` it wrote.'),
  exit: z.int().optional().describe('Exit status of the last command that ran in it.'),
  iterations: z.int().min(0).optional().describe('Model calls spent in this step.'),
  started_at: z.string().optional(),
  completed_at: z.string().optional(),
});
export type Step = z.infer<typeof Step>;

/**
 * Path from a session folder to the schema the daemon writes when it starts, so that an editor validates a plan
 * offline.
 */
export const PLAN_SCHEMA_PATH = '../../.agentd/schemas/plan.schema.json';

/** `plan.json`: shown to people and edited by people. Times are ISO 8601 in UTC. */
export const Plan = z.object({
  $schema: z.string().optional(),
  version: z.literal(1),
  id: z.string().min(1),
  goal: z.string().describe('What the person asked for, as typed.'),
  mode: Mode,
  mode_reason: z.string().optional().describe('Why this mode, if the daemon chose it.'),
  title: z.string().optional(),
  planned_by: z
    .string()
    .optional()
    .describe('Where the steps come from, if not from the work itself: "planner", or "fallback: <why>".'),
  unplanned: z.literal(true).optional().describe('The planner gave no plan: its first step is the whole request.'),
  status: PlanStatus,
  reason: z.string().optional().describe('Why the plan is not being worked on.'),
  steps: z.array(Step),
  current_step_index: z.int().min(0),
  iteration_count: z.int().min(0),
  limits: z.object({ iterations: z.int().min(1), step_iterations: z.int().min(1) }),
  revision: z
    .int()
    .min(0)
    .describe('Incremented with every change; shows which version of the plan a hand edit started from.'),
  created_at: z.string(),
  updated_at: z.string(),
});
export type Plan = z.infer<typeof Plan>;
