import { z } from 'zod';
import { EachSource, ReduceInput, SkipCause, Step, StepCheck, StepCondition, StepStatus } from './plan.ts';

/** The bounds of a `plan.json`: nobody reads a larger one, and each change of it would delay all sessions. */
export const PLAN_BOUNDS = {
  /** Of any file: all steps of the largest plan, with their results. A larger one is not even read. */
  bytes: 64 * 1024 * 1024,
  /** Characters of a save, unless the plan has more than half as many already. A longer one is not parsed. */
  save: 4 * 1024 * 1024,
  steps: 5000,
  /** Characters of all steps, as `plan.json` shows what people write in them. */
  text: 1024 * 1024,
  description: 10_000,
  notes: 20_000,
  id: 200,
  /** Groups within groups. */
  depth: 50,
};

const tooMany = (what: string, most: number) => ({
  error: ({ input }: { input?: unknown }) => {
    const is = typeof input === 'string' ? input.length : Array.isArray(input) ? input.length : 0;
    return `expected at most ${most} ${what}, got ${is}`;
  },
});

/** A step as a person saved it, without the bounds of `EditedStep`: what is in the log is read whatever its size. */
const SavedStep = z.object({
  id: z.string().optional(),
  description: z.string(),
  status: StepStatus.optional(),
  needs: z.array(z.string()).optional(),
  when: z.array(StepCondition).optional(),
  rollback: z.string().optional(),
  parent: z.string().optional(),
  done_when: z.array(StepCheck).optional(),
  notes: z.string().optional(),
  agent: z.string().optional(),
});
const SavedLimits = z.object({ iterations: z.int().min(1).optional(), step_iterations: z.int().min(1).optional() });

const { id, description, notes } = PLAN_BOUNDS;

/** The description of a step, written by a person, a planner or the model. */
export const StepText = z.string().trim().min(1).max(description, tooMany('characters', description));
const EditedStep = SavedStep.extend({
  id: z.string().min(1).max(id, tooMany('characters', id)).optional(),
  description: StepText,
  rollback: z.string().min(1).optional(),
  parent: z.string().min(1).optional(),
  notes: z.string().max(notes, tooMany('characters', notes)).optional(),
  agent: z.string().min(1).optional(),
});

/**
 * The fields of a saved `plan.json` that the daemon reads. Looser than `Plan`: a person may leave out what the daemon
 * keeps anyway, and add a step as `{ "description": "…" }`.
 */
export const EditedPlan = z.object({
  id: z.string().optional(),
  goal: z.string().optional(),
  revision: z.int().optional(),
  limits: SavedLimits.optional(),
  steps: z.array(EditedStep),
});
export type EditedPlan = z.infer<typeof EditedPlan>;

/** A plan as somebody wants it, in a file of the inbox, with the fields that the daemon does not take from them. */
export const PlanEdit = EditedPlan.extend({
  revision: EditedPlan.shape.revision.describe('The revision it was made from: it is merged with what came after.'),
  ...{
    status: z.unknown().optional(),
    current_step_index: z.unknown().optional(),
    iteration_count: z.unknown().optional(),
  },
});
export type PlanEdit = z.infer<typeof PlanEdit>;

/**
 * Why an order to edit the plan was refused: its sender may not, there is no plan, another one is current, its revision
 * is unknown, or it exceeds the bounds of a plan.
 */
export const EditRefusal = z.enum(['forbidden', 'none', 'other', 'unknown', 'invalid']);
export type EditRefusal = z.infer<typeof EditRefusal>;

/**
 * A save of `plan.json` as it was parsed. The next save of the same buffer is compared with it, not with the version
 * both started from: otherwise its repeated changes would be applied twice.
 */
export const PlanSave = z.object({
  sha256: z.string().describe('Of its text.'),
  revision: z.int().optional().describe('The version of the plan that the edit started from.'),
  goal: z.string().optional(),
  limits: SavedLimits.optional(),
  status: z.unknown().optional().describe('As in the file, like the two below; not applied.'),
  current_step_index: z.unknown().optional(),
  iteration_count: z.unknown().optional(),
  steps: z.array(
    SavedStep.extend({
      id: z.string().describe('The id it has in the plan.'),
      written: z.string().nullable().optional().describe('Its id in the file, if different; null: none.'),
    }),
  ),
});
export type PlanSave = z.infer<typeof PlanSave>;

/** One change by a person to `plan.json`. */
export const PlanChange = z.discriminatedUnion('what', [
  z.object({ what: z.literal('goal'), to: z.string(), from: z.string() }),
  z.object({ what: z.literal('limits'), to: z.object({ iterations: z.int(), step_iterations: z.int() }) }),
  z.object({ what: z.literal('order'), to: z.array(z.string()) }),
  z.object({ what: z.literal('added'), step: Step, at: z.int() }),
  z.object({ what: z.literal('removed'), step: z.string(), description: z.string() }),
  z.object({
    what: z.literal('status'),
    step: z.string(),
    from: StepStatus,
    to: StepStatus,
    note: z.string().optional().describe('Its result, or the reason.'),
    because: SkipCause.optional(),
  }),
  z.object({
    what: z.literal('step'),
    step: z.string(),
    set: Step.pick({
      description: true,
      needs: true,
      when: true,
      rollback: true,
      parent: true,
      done_when: true,
      notes: true,
      agent: true,
    })
      .partial()
      .describe('The new values.'),
    unset: z.array(z.enum(['needs', 'when', 'rollback', 'parent', 'done_when', 'notes', 'agent'])),
  }),
]);
export type PlanChange = z.infer<typeof PlanChange>;

const ProposedStepFields = z.strictObject({
  id: z
    .string()
    .regex(/^[A-Za-z0-9_-]{1,60}$/, 'expected letters, digits, "_" and "-"')
    .optional(),
  description: StepText,
  needs: z.array(z.string()).nullish(),
  agent: z.string().nullish(),
  when: z.union([StepCondition, z.array(StepCondition)]).nullish(),
  rollback: z.string().nullish(),
  parent: z.string().nullish(),
  each: EachSource.nullish(),
  gather: ReduceInput.nullish(),
  on_failed_part: z.enum(['fail', 'continue']).nullish(),
  done_when: z.array(StepCheck).nullish(),
});

/** A step as a planner proposes it: its description alone, or with the fields of plan.json. */
export const ProposedStep = z.union([StepText, ProposedStepFields]);
export type ProposedStep = z.infer<typeof ProposedStep>;

/** A planner's answer: the steps of a plan, or the answer itself if no plan is needed. */
export const PlanProposal = z.object({
  title: z.string().trim().nullish(),
  language: z.string().nullish(),
  steps: z.array(ProposedStep).nullish(),
  answer: z.string().nullish().describe('The whole answer, if no plan is needed.'),
});
export type PlanProposal = z.infer<typeof PlanProposal>;

/** A planner's answer about the open steps: no change, or changes to steps that have not started. */
export const PlanRevision = z.object({
  keep: z.boolean().nullish(),
  reason: z.string().nullish(),
  remove: z.array(z.string()).nullish(),
  change: z
    .array(ProposedStepFields.partial().extend({ id: z.string(), status: StepStatus.nullish() }))
    .nullish()
    .describe('New values by step; null removes one.'),
  add: z.array(ProposedStep).nullish(),
});
export type PlanRevision = z.infer<typeof PlanRevision>;
