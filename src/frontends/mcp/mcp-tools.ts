import { basename } from 'node:path';
import type { McpServer, RequestStateCodec, ToolAnnotations } from '@modelcontextprotocol/server';
import { z } from 'zod';
import { UserError } from '../../base/user-error.ts';
import { approvalMessage } from '../../client/actions/messaging.ts';
import type { SessionOverview } from '../../client/index.ts';
import type { Plan } from '../../protocol/session/plan.ts';
import type { EditedPlan } from '../../protocol/session/plan-edit.ts';
import { readableName } from '../../protocol/workspace/session-names.ts';
import { addCheckpointTools, addDiffTool } from './checkpoint-tools.ts';
import {
  callsForPerson,
  type MakeCall,
  type McpContext,
  modelStamp,
  type RoundState,
  replyWithin,
  sendAndAwait,
  sendForModel,
  structured,
} from './model-messages.ts';
import {
  MAX_WAIT_S,
  MessageIdArgument,
  MessageOutcome,
  PlanEditOutcome,
  PlanOperation,
  PlanView,
  SessionArgument,
  SessionList,
  SessionStanding,
  WaitArgument,
} from './tool-schemas.ts';

const READS = { readOnlyHint: true, idempotentHint: true, openWorldHint: false } as const;
const MAX_LISTED = 200;

/** The tools that only read. */
export function addReadTools(server: McpServer, context: McpContext): void {
  const { client } = context;
  addDiffTool(server, context);
  server.registerTool(
    'list_sessions',
    {
      title: 'List sessions',
      description:
        'Lists the sessions of agentd, those that changed last first: how each stands, its plan, what it asks, why it is not served.',
      inputSchema: z.object({ limit: z.int().min(1).max(MAX_LISTED).default(50) }),
      outputSchema: SessionList,
      annotations: READS,
    },
    async ({ limit }) => {
      const found: SessionOverview[] = [];
      for await (const one of client.list()) if (one.parent === null) found.push(one);
      found.sort((a, b) => (b.changed ?? '').localeCompare(a.changed ?? ''));
      const sessions = found
        .slice(0, limit)
        .map(({ parent: _, inbox: __, asks: question, ...one }) => ({ ...one, question }));
      return structured({ sessions, left_out: found.length - sessions.length } satisfies z.infer<typeof SessionList>);
    },
  );
  server.registerTool(
    'get_session',
    {
      title: 'Show a session',
      description:
        'Says how a session stands and what it waits for. With `reply` it also gives that reply, and waits for it up to `wait_seconds`.',
      inputSchema: z.object({
        session: SessionArgument,
        reply: z
          .string()
          .regex(/^[^./\\\0][^/\\\0]*$/, 'expected a reply_name that send_message gave')
          .optional()
          .describe('A `reply_name` that send_message gave.'),
        wait_seconds: z.number().min(0).max(MAX_WAIT_S).default(0),
      }),
      outputSchema: SessionStanding,
      annotations: READS,
    },
    async ({ session: key, reply: wanted, wait_seconds }, ctx) => {
      const session = basename(client.folder(key));
      const reply =
        wanted === undefined ? null : await replyWithin(client, { session, name: wanted }, wait_seconds * 1000, ctx);
      const shown = await client.show(session);
      const { name, title, standing, summary, settingsProblem, planProblem, unserved, folderProblems } = shown;
      const { plan, question } = shown.session;
      return structured({
        ...{ name, label: readableName(name), title, standing, summary },
        ...{ settings_problem: settingsProblem, plan_problem: planProblem, unserved, folder_problems: folderProblems },
        plan: plan && { id: plan.id, revision: plan.revision },
        question: question && { text: question.text, choices: [...question.choices] },
        approvals: await callsForPerson(client, session),
        reply,
      } satisfies z.infer<typeof SessionStanding>);
    },
  );
  server.registerTool(
    'get_plan',
    {
      title: 'Show a plan',
      description: "Gives a session's plan with its steps and its id, which edit_plan needs.",
      inputSchema: z.object({ session: SessionArgument }),
      outputSchema: PlanView,
      annotations: READS,
    },
    async ({ session }) => structured({ plan: (await client.show(session)).session.plan }),
  );
}

const WORKS: ToolAnnotations = { readOnlyHint: false, destructiveHint: false, openWorldHint: true };
const STEERS: ToolAnnotations = { ...WORKS, idempotentHint: true, openWorldHint: false };

/** The tools that send messages and edit plans; `answer_approval` only if it is switched on. */
export function addWriteTools(server: McpServer, context: McpContext, states: RequestStateCodec<RoundState>): void {
  const { client } = context;
  const call: MakeCall = (ctx, seconds) => ({ context, server: server.server, ctx, states, seconds });

  server.registerTool(
    'send_message',
    {
      title: 'Send a message',
      description:
        'Sends a message to a session of agentd, which works on it by itself; makes the session where it is not there. Gives the reply if it comes within `wait_seconds`, else how to get it later. During a run a message joins it; where the session asked something, it is the answer.',
      inputSchema: z.object({
        session: SessionArgument,
        text: z.string().regex(/\S/, 'expected some words').describe('What to say, in plain words.'),
        wait_seconds: WaitArgument,
        id: MessageIdArgument,
      }),
      outputSchema: MessageOutcome,
      annotations: WORKS,
    },
    ({ session, text, wait_seconds, id }, ctx) =>
      sendAndAwait(call(ctx, wait_seconds), () => sendForModel(context, session, { text, id })),
  );
  server.registerTool(
    'edit_plan',
    {
      title: 'Edit a plan',
      description:
        'Changes the steps of a plan by their ids, as get_plan gave them. The answer says what is taken over and what is not.',
      inputSchema: z.object({
        session: SessionArgument,
        plan: z.string().describe('The id of the plan.'),
        changes: z.array(PlanOperation).min(1).max(200),
      }),
      outputSchema: PlanEditOutcome,
      annotations: { ...WORKS, openWorldHint: false },
    },
    async ({ session, plan, changes }) => {
      const current = (await client.show(session)).session.plan;
      if (current?.id !== plan)
        throw new UserError(`The plan of ${session} is ${current?.id ?? 'none'}, not ${plan}. Call get_plan.`);
      const edit = applyOperations(current, changes);
      const { is, ...outcome } = await client.editPlan(session, { edit, ...modelStamp(context) });
      if ('plan' in outcome) return structured(outcome);
      return structured({ plan: current, taken: [], ignored: [], waits: outcome.why });
    },
  );
  addCheckpointTools(server, context, call);
  for (const one of STEERING) addSteeringTool(server, context, call, one);
  if (context.answersApprovals) addAnswerTool(server, context, call);
}

/** Tools that steer a run are messages of the same kind. */
const STEERING = [
  { command: 'continue', title: 'Continue a run', does: 'Resumes a run that is paused, waiting, failed or cancelled.' },
  { command: 'pause', title: 'Pause a run', does: 'Lets the call in flight end, then pauses the run.' },
  { command: 'stop', title: 'Stop a run', does: 'Aborts the call in flight and pauses the run.' },
  {
    command: 'cancel',
    title: 'Cancel a run',
    does: 'Aborts the call in flight and ends the plan and its background jobs.',
  },
] as const;

function addSteeringTool(
  server: McpServer,
  context: McpContext,
  call: MakeCall,
  { command, title, does }: (typeof STEERING)[number],
): void {
  server.registerTool(
    `${command}_session`,
    {
      title,
      description: does,
      inputSchema: z.object({
        session: SessionArgument,
        wait_seconds: WaitArgument,
        id: MessageIdArgument,
        ...(command === 'continue' && { note: z.string().optional().describe('A note for the model.') }),
      }),
      outputSchema: MessageOutcome,
      annotations: command === 'continue' ? WORKS : { ...STEERS, destructiveHint: command === 'cancel' },
    },
    ({ session, wait_seconds, id, ...more }, ctx) => {
      const { note: text } = z.object({ note: z.string().optional() }).parse(more);
      return sendAndAwait(call(ctx, wait_seconds), () =>
        sendForModel(context, session, { command, id, text }, { mustExist: true }),
      );
    },
  );
}

function addAnswerTool(server: McpServer, context: McpContext, call: MakeCall): void {
  const { client } = context;
  server.registerTool(
    'answer_approval',
    {
      title: 'Answer an approval',
      description:
        'Allows or denies, once, a call that waits. Session, number and hash are those of `approvals` in get_session.',
      inputSchema: z.object({
        session: SessionArgument,
        number: z.int().min(1),
        hash: z.string().regex(/^[0-9a-f]{64}$/, 'expected the hash of the call: 64 hex digits'),
        decision: z.enum(['allow', 'deny']),
        wait_seconds: WaitArgument,
      }),
      outputSchema: MessageOutcome,
      annotations: { readOnlyHint: false, destructiveHint: true, idempotentHint: false, openWorldHint: true },
    },
    ({ session, number, hash, decision, wait_seconds }, ctx) =>
      sendAndAwait(call(ctx, wait_seconds), async () => {
        const asked = await client.approvalRequest(session, number);
        const message = { ...approvalMessage(asked, hash, decision), ...modelStamp(context) };
        return client.send(asked.session, message, { mustExist: true });
      }),
  );
}

type EditedSteps = EditedPlan['steps'];

/** The plan with these changes, as a person might have saved it. Throws UserError for a step that it does not have. */
function applyOperations({ steps, ...plan }: Plan, operations: readonly PlanOperation[]): EditedPlan {
  return { ...plan, steps: operations.reduce<EditedSteps>(applyOperation, steps) };
}

function applyOperation(steps: EditedSteps, operation: PlanOperation): EditedSteps {
  switch (operation.do) {
    case 'add': {
      const { do: _, after, ...step } = operation;
      return insertAfter(steps, step, after === undefined ? steps.at(-1)?.id : after);
    }
    case 'reword':
      return changeStep(steps, operation.step, { description: operation.description });
    case 'note':
      return changeStep(steps, operation.step, { notes: operation.notes });
    case 'set':
      return changeStep(steps, operation.step, { status: operation.status });
    case 'remove':
      return steps.toSpliced(placeOf(steps, operation.step), 1);
    case 'move': {
      const place = placeOf(steps, operation.step);
      const moved = steps.slice(place, place + 1);
      return moved.reduce((rest, step) => insertAfter(rest, step, operation.after), steps.toSpliced(place, 1));
    }
    default:
      return operation satisfies never;
  }
}

/** Null: at the beginning. Undefined: at the end. */
function insertAfter(steps: EditedSteps, step: EditedSteps[number], after: string | null | undefined): EditedSteps {
  const place = after === null ? 0 : after === undefined ? steps.length : placeOf(steps, after) + 1;
  return steps.toSpliced(place, 0, step);
}

function changeStep(steps: EditedSteps, id: string, fields: Partial<EditedSteps[number]>): EditedSteps {
  const place = placeOf(steps, id);
  return steps.map((step, at) => (at === place ? { ...step, ...fields } : step));
}

function placeOf(steps: EditedSteps, id: string): number {
  const place = steps.findIndex((step) => step.id === id);
  if (place >= 0) return place;
  const ids = steps.flatMap((step) => step.id ?? []);
  throw new UserError(`Expected a step of the plan (${ids.join(', ') || 'it has none'}), got ${JSON.stringify(id)}.`);
}
