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
  estimated: z.literal(true).optional().describe('The endpoint of a call reports no tokens, so they are estimated.'),
  cost: z.number().nullable().describe('Null if neither the endpoint nor the configured `prices` provide it.'),
  ms: z.number().min(0).optional().describe('Duration of model and tool calls, including those of child sessions.'),
});
export type Usage = z.infer<typeof Usage>;

/** Of one model call. */
export const CallUsage = Usage.omit({ iterations: true, ms: true }).extend({
  cached: z.number().optional().describe('Of the tokens, those that the endpoint had in its cache.'),
  output: z.number().optional().describe('Of the tokens, those that were not of the prompt, if the endpoint tells.'),
});

/** What stands before a number of tokens: a tilde where it is estimated. */
export const tokenMark = ({ estimated }: { estimated?: true | undefined }): string => (estimated ? '~' : '');

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
  proof: z
    .array(z.string())
    .optional()
    .describe("In a child session: what a person can check of its calls, for the step in its parent's plan."),
  approval: z
    .int()
    .optional()
    .describe('A call is waiting for approval: the number of its file in approvals/, for `/approve` and `/deny`.'),
  attachments: z.array(z.string()).describe('Paths under `work/`.'),
});
export type Reply = z.infer<typeof Reply>;

/**
 * Why a run ended, as `reason` of `run.ended`, `plan.ended` and of replies stores it. A failed run may also have the
 * kind of the model error, or name the steps that were not reached. Another version may have written others, so what
 * is read from disk stays a string.
 */
export const RUN_END = {
  /** The model answered; there was no plan. */
  answered: 'answered',
  /** The steps of the plan are done. */
  completed: 'completed',
  /** A person paused or cancelled it. */
  asked: 'asked',
  /** A person stopped it, with the call in flight. */
  stopped: 'stopped',
  newConversation: 'new conversation',
  /** A person must answer a question of the model. */
  question: 'question',
  /** A person must say whether a step is done. */
  check: 'check',
  /** A person must approve a tool call. */
  approval: 'approval',
  /** A child session has paused. */
  child: 'child',
  /** Steps are blocked: a person must supply what is missing. */
  blocked: 'blocked',
  /** Open steps need each other, or need a step that does not exist. */
  needs: 'needs',
  /** No open step of a graph can start. */
  stuck: 'stuck',
  /** A person must say what a message means. */
  unclear: 'unclear',
  /** A settings file is invalid. */
  settings: 'settings',
  /** Too many calls were denied. */
  denied: 'denied',
  /** A limit was reached; "continue" grants it again. */
  limit: 'limit',
  /** The endpoint stopped an answer before its end, for another reason than its length. */
  unfinished: 'unfinished',
  /** The extended limit was reached. */
  ceiling: 'ceiling',
  /** The same call gave the same result again and again. */
  repeats: 'repeats',
  /** Work went on without completing anything. */
  stagnation: 'stagnation',
  /** The model has not answered for too long. */
  outage: 'outage',
  /** Nothing was left to do for it: a bug. */
  stalled: 'stalled',
  /** The daemon crashed over it too often. */
  crashes: 'crashes',
  /** A child session has lost its state. */
  stateLost: 'lost',
} as const;
export type RunEndCode = (typeof RUN_END)[keyof typeof RUN_END];

/**
 * The states of a session as every frontend shows them (`standing`). `none`: nothing has run yet, or there was no plan;
 * `unreadable`: the event log cannot be trusted.
 */
export const SESSION_STANDINGS = [
  ...(['none', 'running', 'waiting', 'paused', 'completed', 'failed', 'cancelled', 'unreadable'] as const),
] as const;
export type SessionStanding = (typeof SESSION_STANDINGS)[number];
