import { z } from 'zod';
import { DoneWhen, Each, Gather, StepStatus, StepText, When } from './plan.ts';

const SpelledStep = z.strictObject({
  id: z
    .string()
    .regex(/^[A-Za-z0-9_-]{1,60}$/, 'wanted letters, digits, "_" and "-"')
    .optional(),
  description: StepText,
  needs: z.array(z.string()).nullish(),
  agent: z.string().nullish(),
  when: z.union([When, z.array(When)]).nullish(),
  rollback: z.string().nullish(),
  parent: z.string().nullish(),
  each: Each.nullish(),
  gather: Gather.nullish(),
  on_failed_part: z.enum(['fail', 'go_on']).nullish(),
  done_when: z.array(DoneWhen).nullish(),
});

/** A step as a planner proposes it: its description alone, or with the fields of plan.json. */
export const ProposedStep = z.union([StepText, SpelledStep]);
export type ProposedStep = z.infer<typeof ProposedStep>;

/** What a planner answers: the steps of a plan, or the answer itself where no plan is needed. */
export const Proposal = z.object({
  title: z.string().trim().nullish(),
  language: z.string().nullish(),
  steps: z.array(ProposedStep).nullish(),
  answer: z.string().nullish().describe('The whole answer, where no plan is needed.'),
});
export type Proposal = z.infer<typeof Proposal>;

/** What a planner answers between super-steps: nothing to change, or what becomes of steps that have not begun. */
export const Adaptation = z.object({
  keep: z.boolean().nullish(),
  reason: z.string().nullish(),
  remove: z.array(z.string()).nullish(),
  change: z
    .array(SpelledStep.partial().extend({ id: z.string(), status: StepStatus.nullish() }))
    .nullish()
    .describe('New values by step; null takes one away.'),
  add: z.array(ProposedStep).nullish(),
});
export type Adaptation = z.infer<typeof Adaptation>;
