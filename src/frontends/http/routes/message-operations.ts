import { z } from 'zod';
import { approvalMessage } from '../../../client/actions/messaging.ts';
import type { Client } from '../../../client/index.ts';
import { MessageFile } from '../../../protocol/session/message.ts';
import { Reply } from '../../../protocol/session/reply.ts';
import { ApprovalDecision } from '../../../protocol/settings/permissions.ts';
import {
  defineOperation,
  FileName,
  type HttpOperation,
  IdempotencyKey,
  InSession,
  jsonAnswer,
  wholeNumber,
} from '../common/operation.ts';

/** Below the 60 s after which many clients and proxies give up. */
const MAX_WAIT_S = 50;

const Sent = z.object({
  session: z.string(),
  id: z.string().describe('The id of the message.'),
  reply: z.string().describe('Name of its reply: GET /api/sessions/{session}/replies/{name}.'),
});

const Pending = z.object({ status: z.literal('pending').describe('No reply yet; ask again.') });

const Text = z.string().regex(/\S/, 'expected some text');
const MessageBody = z
  .strictObject({
    text: Text.optional().describe('Text of the message; the argument of `command` if there is one.'),
    command: z
      .string()
      .regex(/^[a-z][a-z-]{0,40}$/, 'expected a command without its slash, such as "status"')
      .optional(),
    from: z
      .string()
      .min(1)
      .max(200)
      .optional()
      .describe('The sender; shown to the model and recorded in the event log.'),
    attachments: MessageFile.shape.attachments.describe('Files of POST …/uploads: the `attachment` of each.'),
    options: MessageFile.shape.options,
  })
  // MessageFile checks this on sending; here it is for readers of the schema.
  .meta({
    anyOf: [
      { required: ['text'] },
      { required: ['command'] },
      { required: ['attachments'], properties: { attachments: { minItems: 1 } } },
    ],
  });

const ContinueBody = z
  .strictObject({
    note: Text.optional().describe('A note for the model, or the id of a shelved plan.'),
    options: MessageFile.shape.options,
  })
  .optional();

const AnswerBody = z.strictObject({
  hash: z.string().regex(/^[0-9a-f]{64}$/, 'expected the hash of the call, 64 hex digits'),
  decision: ApprovalDecision.describe('"always" also adds the rule to session.json.'),
});

export const EmptyBody = z.strictObject({}).optional();

/** Commands without arguments; each is one operation. */
const RUN_COMMANDS = [
  { command: 'pause', id: 'pauseRun', summary: 'Finish the call in flight, then pause the run' },
  { command: 'stop', id: 'stopRun', summary: 'Abort the call in flight and pause the run' },
  { command: 'cancel', id: 'cancelRun', summary: 'Abort the call in flight and end the plan' },
  { command: 'undo', id: 'undoStep', summary: 'Reopen the step that was closed last' },
] as const;

export const ACCEPTED = { 202: { describe: 'The message is durably in the inbox.', schema: Sent } };

/** Messages to a session and its replies. */
export const MESSAGE_OPERATIONS: readonly HttpOperation[] = [
  defineOperation({
    ...{ method: 'post', path: '/api/sessions/{session}/messages', id: 'sendMessage' },
    summary: 'Send a message; creates the session if needed',
    ...{ params: InSession, headers: IdempotencyKey, body: MessageBody, answers: ACCEPTED, problems: [409, 422] },
    run: ({ client, params, headers, body }) => sendMessage(client, params.session, body, headers),
  }),
  defineOperation({
    ...{ method: 'get', path: '/api/sessions/{session}/replies/{name}', id: 'getReply' },
    summary: 'The reply of this name; can wait for it',
    params: InSession.extend({ name: FileName }),
    query: z.strictObject({
      wait: wholeNumber(0, MAX_WAIT_S).optional().describe('Longest wait in seconds; by default it does not wait.'),
    }),
    answers: { 200: { describe: 'The reply.', schema: Reply }, 202: { describe: 'No reply yet.', schema: Pending } },
    problems: [404],
    async run({ client, params, query: { wait = 0 }, signal }) {
      try {
        return jsonAnswer(await client.waitForReply(params.session, params.name, { timeoutMs: wait * 1000, signal }));
      } catch (error) {
        const isPending = signal.aborted || (error instanceof Error && error.name === 'WaitedTooLong');
        if (!isPending) throw error;
        return jsonAnswer({ status: 'pending' }, 202);
      }
    },
  }),
  defineOperation({
    ...{ method: 'post', path: '/api/sessions/{session}/continue', id: 'continueRun' },
    summary: 'Resume the run, with an optional note and options',
    ...{ params: InSession, headers: IdempotencyKey, body: ContinueBody, answers: ACCEPTED, problems: [404, 409] },
    run: ({ client, params, headers, body: { note: text, options } = {} }) =>
      sendMessage(client, params.session, { command: 'continue', text, options }, headers, { mustExist: true }),
  }),
  ...RUN_COMMANDS.map(({ command, id, summary }) =>
    defineOperation({
      ...{ method: 'post', path: `/api/sessions/{session}/${command}`, id, summary },
      ...{ params: InSession, headers: IdempotencyKey, body: EmptyBody, answers: ACCEPTED, problems: [404, 409] },
      run: ({ client, params, headers }) =>
        sendMessage(client, params.session, { command }, headers, { mustExist: true }),
    }),
  ),
  defineOperation({
    ...{ method: 'post', path: '/api/sessions/{session}/approvals/{number}', id: 'answerApproval' },
    summary: 'Approve or deny the waiting call',
    params: InSession.extend({ number: wholeNumber(1, 9_999_999_999) }),
    ...{ headers: IdempotencyKey, body: AnswerBody, answers: ACCEPTED, problems: [404, 409] },
    async run({ client, params, headers, body: { hash, decision } }) {
      const asked = await client.approvalRequest(params.session, params.number);
      const message = approvalMessage(asked, hash, decision);
      return sendMessage(client, asked.session, message, headers, { mustExist: true });
    },
  }),
];

type Message = Parameters<Client['send']>[1];

/** Drops a message as an operation, once for each `Idempotency-Key`. */
export async function sendMessage(
  client: Client,
  session: string,
  message: Message,
  { 'idempotency-key': id }: z.infer<typeof IdempotencyKey>,
  options: { mustExist?: boolean } = {},
): Promise<Response> {
  const sent =
    id === undefined
      ? await client.send(session, message, options)
      : await client.sendOnce(session, { ...message, id }, options);
  return jsonAnswer({ session: sent.session, id: sent.id, reply: sent.name }, 202);
}
