import { z } from 'zod';
import { ownTool } from './call-args.ts';
import { DoneWhen, PLAN_BOUNDS, StepText } from './plan.ts';

// An empty description is told from the rest of its list, so it is no fault of form.
const NewStep = z.union([
  z.string().max(PLAN_BOUNDS.description),
  z.strictObject({
    description: z.string().max(PLAN_BOUNDS.description),
    needs: z.array(z.string()).nullish(),
    done_when: z.array(DoneWhen).nullish(),
  }),
]);

/** More are no plan; a mode takes far fewer. */
const MOST_AT_ONCE = 500;

const STEP = 'Id of the step, such as step_2; without it the current one.';

/** Arguments of the `plan` tool. One flat object: some endpoints refuse a choice of objects at the top. */
export const PlanCall = z.strictObject({
  command: z.enum(['create', 'update', 'complete_step', 'mark_step', 'add_step', 'replan', 'get']),
  steps: z
    .array(NewStep)
    .max(MOST_AT_ONCE)
    .nullish()
    .describe('create: the steps, in order. add_step: several at once.'),
  step: z.string().nullish().describe(STEP),
  description: StepText.nullish().describe('add_step, update: what is to be done.'),
  needs: z.array(z.string()).nullish().describe('add_step, update: ids of steps that must be completed first.'),
  done_when: z
    .array(DoneWhen)
    .nullish()
    .describe('add_step, update: checks that must pass before the step counts as done.'),
  notes: z.string().max(PLAN_BOUNDS.notes).nullish().describe('update: notes on the step.'),
  status: z.enum(['failed', 'skipped', 'blocked']).nullish().describe('mark_step: what became of the step.'),
  reason: z.string().nullish().describe('mark_step, replan: why.'),
  result: z.string().nullish().describe('complete_step: what came out of it, in a sentence.'),
  progress: z
    .strictObject({ current: z.int().min(0), total: z.int().min(0) })
    .nullish()
    .describe('update: how far the step is.'),
});
export type PlanCall = z.infer<typeof PlanCall>;

/** The structured road beside the text markers, for models that prefer tools. Its effects are events like those of the text. */
export const PLAN_TOOL = ownTool(
  'plan',
  'Keep the plan: create it, add or change steps, report a step completed, failed, skipped or blocked, or look at it. Does the same as the [Step] and [Done] lines; use either.',
  PlanCall,
);
