import { z } from 'zod';

/** A question to a person. */
export const UserQuestion = z.object({
  text: z.string(),
  choices: z.array(z.string()).describe('Short answers to choose from, numbered from 1; may be empty.'),
});
export type UserQuestion = z.infer<typeof UserQuestion>;

export const REPLY_STATUSES = ['done', 'paused', 'waiting', 'failed', 'cancelled', 'joined', 'rejected'] as const;
export const ReplyStatus = z.enum(REPLY_STATUSES);
export type ReplyStatus = z.infer<typeof ReplyStatus>;

export const Usage = z.object({
  iterations: z.int().min(0).describe('Model calls since the run started or was resumed.'),
  tokens: z.int().min(0),
  cost: z.number().nullable().describe('Null if neither the endpoint nor the configured `prices` provide it.'),
  ms: z.number().min(0).optional().describe('Duration of model and tool calls, including those of child sessions.'),
});
export type Usage = z.infer<typeof Usage>;

/** One file in `outbox/`: exactly one for each message. */
export const Reply = z.object({
  id: z.string().describe('The name of the reply file.'),
  in_reply_to: z.string().describe('The id of the message.'),
  session: z.string(),
  status: ReplyStatus,
  text: z.string(),
  reason: z.string().optional().describe('Why the run stopped, if it did.'),
  question: UserQuestion.optional().describe(
    'The question the run is waiting for an answer to; the next message is the answer.',
  ),
  plan: z
    .object({
      id: z.string(),
      completed: z.int().min(0),
      total: z.int().min(0),
      current: z.string().nullable().describe('Description of the current step.'),
    })
    .nullable(),
  usage: Usage.nullable(),
  exit: z
    .int()
    .optional()
    .describe(
      'In a child session: exit status of the last command that ran, for conditions in the plan of its parent.',
    ),
  approval: z
    .int()
    .optional()
    .describe('A call is waiting for approval: the number of its file in approvals/, for `/approve` and `/deny`.'),
  attachments: z.array(z.string()).describe('Paths under `work/`.'),
});
export type Reply = z.infer<typeof Reply>;
