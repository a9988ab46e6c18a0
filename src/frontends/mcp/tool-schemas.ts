import { z } from 'zod';
import { Plan, StepCheck } from '../../protocol/session/plan.ts';
import { StepText } from '../../protocol/session/plan-edit.ts';
import { Reply, ReplyStatus, SESSION_STANDINGS, UserQuestion } from '../../protocol/session/reply.ts';
import { WaitShown } from '../../protocol/workspace/owed-file.ts';

/** Clients give up after 60 s, so no call takes longer than this. */
export const MAX_WAIT_S = 50;
const DEFAULT_WAIT_S = 30;

export const SessionArgument = z.string().min(1).max(500).describe('Name of the session.');
export const WaitArgument = z
  .number()
  .min(0)
  .max(MAX_WAIT_S)
  .default(DEFAULT_WAIT_S)
  .describe(`Seconds to wait for the reply, at most ${MAX_WAIT_S}. The run continues however long this is.`);
export const MessageIdArgument = z
  .string()
  .regex(/^[A-Za-z0-9][A-Za-z0-9._-]*$/, 'expected letters, digits, ".", "_" and "-", a letter or digit first')
  .max(200)
  .optional()
  .describe('An id of your own. A call repeated with the same id and content runs nothing a second time.');

/** A call that waits for a person. */
export const CallForPerson = z.object({
  session: z.string().describe('The session that waits: the one named, or one that works for it.'),
  number: z.int().min(1),
  hash: z.string().describe('Of the call. An answer carries it, and is for this call and no other.'),
  tool: z.string(),
  display: z.string().describe('The call as a person reads it.'),
  why: z.string(),
  expires_at: z.string(),
});
export type CallForPerson = z.infer<typeof CallForPerson>;

/** As in `list --json` and over HTTP. */
const SessionName = {
  name: z.string().describe('The name of its folder.'),
  label: z.string().describe('The name for people.'),
};
const PlanProblem = z
  .string()
  .nullable()
  .describe('Why plan.json cannot be read, or what of the last edit was not accepted.');
const Unserved = z.string().nullable().describe('Why its messages are not taken.');

const PlanCount = z.object({ id: z.string(), status: z.string(), completed: z.int(), total: z.int() });

export const SessionList = z.object({
  sessions: z.array(
    z.object({
      ...SessionName,
      title: z.string().nullable(),
      standing: z.enum(SESSION_STANDINGS),
      plan: PlanCount.nullable(),
      question: UserQuestion.nullable().describe('What it asks.'),
      waits_for: z.string().nullable().describe('Why it waits, such as "approval" or "budget".'),
      waits_until: z.string().nullable().describe('When a running session that waits goes on by itself.'),
      changed: z.string().nullable(),
      problem: z.string().nullable().describe('Why its event log cannot be read.'),
      settings: z.string().nullable().describe('Why its settings are invalid.'),
      plan_problem: PlanProblem,
      unserved: Unserved,
      waits: WaitShown.nullable().describe('What it waits for, and what answers it.'),
    }),
  ),
  left_out: z.int().min(0).describe('Sessions beyond `limit`: those that changed longest ago.'),
});

export const SessionStanding = z.object({
  ...SessionName,
  title: z.string().nullable(),
  standing: z.enum(SESSION_STANDINGS),
  summary: z.string(),
  settings_problem: z.string().nullable().describe('Why its settings are invalid.'),
  plan_problem: PlanProblem,
  unserved: Unserved,
  folder_problems: z.array(z.string()).describe('Why its other folders cannot be read, and what to do.'),
  plan: z.object({ id: z.string(), revision: z.int() }).nullable(),
  question: UserQuestion.nullable().describe('What it asks: the next message is the answer.'),
  approvals: z.array(CallForPerson),
  reply: Reply.nullable().describe('The reply that was asked for, where it is there.'),
});

/** What became of a message within the time that was waited. */
export const MessageOutcome = z.object({
  session: z.string(),
  id: z.string().describe('The id of the message.'),
  reply_name: z.string().describe('For `reply` of get_session.'),
  status: z.union([ReplyStatus, z.literal('running')]).describe('"running": there is no reply yet.'),
  reply: Reply.nullable(),
  approvals: z.array(CallForPerson),
});

export const PlanView = z.object({ plan: Plan.nullable() });

const StepId = z.string().min(1).describe('Id of a step, such as step_2.');
const After = StepId.nullable().describe('The step it comes after; null: it comes first.');

/** One change of a plan. */
export const PlanOperation = z.discriminatedUnion('do', [
  z.strictObject({
    do: z.literal('add'),
    description: StepText,
    after: After.optional().describe('The step it comes after; null: it comes first; left out: it comes last.'),
    needs: z.array(StepId).optional(),
    done_when: z.array(StepCheck).optional(),
  }),
  z.strictObject({ do: z.literal('reword'), step: StepId, description: StepText }),
  z.strictObject({ do: z.literal('note'), step: StepId, notes: z.string() }),
  z.strictObject({ do: z.literal('move'), step: StepId, after: After }),
  z.strictObject({ do: z.literal('remove'), step: StepId }),
  z.strictObject({
    do: z.literal('set'),
    step: StepId,
    status: z.enum(['pending', 'completed', 'skipped', 'blocked', 'failed']),
  }),
]);
export type PlanOperation = z.infer<typeof PlanOperation>;

export const PlanEditOutcome = z.object({
  plan: Plan.describe('The plan with the changes.'),
  waits: z.string().optional().describe('Why the changes were not made yet; `plan` is without them then.'),
  taken: z.array(z.string()).describe('What is taken over, a sentence each.'),
  ignored: z.array(z.string()).describe('What is not, and why.'),
});
