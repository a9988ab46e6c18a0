import { z } from 'zod';
import { DoneWhen, When } from './plan.ts';

/** A step as a planner proposes it: its description alone, or with the fields of plan.json. */
export const ProposedStep = z.union([
  z.string().trim().min(1),
  z.strictObject({
    id: z
      .string()
      .regex(/^[A-Za-z0-9_-]{1,60}$/, 'wanted letters, digits, "_" and "-"')
      .optional(),
    description: z.string().trim().min(1),
    needs: z.array(z.string()).nullish(),
    agent: z.string().nullish(),
    when: z.union([When, z.array(When)]).nullish(),
    rollback: z.string().nullish(),
    parent: z.string().nullish(),
    done_when: z.array(DoneWhen).nullish(),
  }),
]);
export type ProposedStep = z.infer<typeof ProposedStep>;

/** What a planner answers: the steps of a plan, or the answer itself where no plan is needed. */
export const Proposal = z.object({
  title: z.string().trim().nullish(),
  language: z.string().nullish(),
  steps: z.array(ProposedStep).nullish(),
  answer: z.string().nullish().describe('The whole answer, where no plan is needed.'),
});
export type Proposal = z.infer<typeof Proposal>;
