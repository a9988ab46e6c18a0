import { basename } from 'node:path';
import { z } from 'zod';
import type { Event } from '../../../protocol/session/event.ts';
import { Plan } from '../../../protocol/session/plan.ts';
import { EditedPlan } from '../../../protocol/session/plan-edit.ts';
import { HttpProblem } from '../common/http-problem.ts';
import { defineOperation, type HttpOperation, jsonAnswer } from '../common/operation.ts';
import { InSession } from '../common/path-schemas.ts';

const SessionLine = z.looseObject({
  name: z.string(),
  title: z.string().nullable(),
  standing: z.string().describe('State, such as "running", "waiting" or "completed".'),
  changed: z.string().nullable().describe('ISO 8601, UTC.'),
  inbox: z.int().describe('Messages in the inbox.'),
});

const SessionView = SessionLine.extend({ plan: Plan.nullable(), run: z.looseObject({}).nullable() });

const WaitingCall = z.object({
  session: z.string().describe('The session that asks: this one or one of its child sessions.'),
  id: z.int().min(1).describe('Number of the call, for POST …/approvals/{number}.'),
  tool: z.string(),
  shows: z.string().describe('The call in readable form.'),
  why: z.string(),
  always: z.string().nullable().describe('The rule that the decision "always" adds.'),
  expires_at: z.string(),
  hash: z.string().describe('Hash of the call. An answer must carry it and applies to this call only.'),
  problem: z.string().nullable(),
});

const SavedPlan = z.object({
  plan: Plan.describe('The merged plan; the daemon applies it at its next check.'),
  taken: z.array(z.string()).describe('Changes that were accepted, one sentence each.'),
  ignored: z.array(z.string()).describe('Changes that were not, and why.'),
});

const ExplainedStep = z.looseObject({
  id: z.string(),
  number: z.int(),
  status: z.string(),
  text: z.string().describe('The explanation in one sentence.'),
});

/** The answer of a save has the revision that it was merged with, and the name of the save after it. */
const PLAN_TAG = /^"(.+)\.(\d{1,15})(?:\.([0-9a-f]{16}))?"$/;
const planTag = ({ id, revision }: Pick<Plan, 'id' | 'revision'>, save?: string): string =>
  `"${[id, revision, ...(save === undefined ? [] : [save])].join('.')}"`;

/** What can be seen of sessions, and the plan, which can be edited. */
export const SESSION_OPERATIONS: readonly HttpOperation[] = [
  defineOperation({
    ...{ method: 'get', path: '/api/sessions', id: 'listSessions', summary: 'All sessions, in short' },
    answers: { 200: { describe: 'As agentctl list --json.', schema: z.array(SessionLine) } },
    async run({ client }) {
      const sessions: object[] = [];
      for await (const one of client.list()) sessions.push(one);
      return jsonAnswer(sessions);
    },
  }),
  defineOperation({
    ...{ method: 'get', path: '/api/sessions/{session}', id: 'getSession', params: InSession },
    summary: 'One session: its plan, its run, and what it is waiting for',
    answers: { 200: { describe: 'As agentctl show --json.', schema: SessionView } },
    problems: [404],
    async run({ client, params }) {
      const { detailsAsJson } = await import('../../../client/inspect/session-details.ts');
      return jsonAnswer(detailsAsJson(await client.show(params.session)));
    },
  }),
  defineOperation({
    ...{ method: 'get', path: '/api/sessions/{session}/plan', id: 'getPlan', params: InSession },
    summary: 'The plan from the event log; its ETag is "<plan id>.<revision>"',
    answers: { 200: { describe: 'As in plan.json.', schema: Plan } },
    problems: [404],
    async run({ client, params }) {
      const { plan } = (await client.show(params.session)).session;
      if (plan) return jsonAnswer(plan, 200, { etag: planTag(plan) });
      const todo = 'Send a message: a task makes a plan.';
      throw new HttpProblem(404, { wanted: 'a plan', came: `none in ${params.session}`, todo });
    },
  }),
  defineOperation({
    ...{ method: 'put', path: '/api/sessions/{session}/plan', id: 'savePlan', params: InSession },
    summary: 'Save an edited plan; it is merged with changes since its revision',
    headers: z.object({
      'if-match': z
        .string()
        .regex(PLAN_TAG, 'expected an ETag of this plan, such as "<plan id>.<revision>"')
        .optional()
        .describe(
          'ETag of the answer that the edit started from. 412 only if another plan is current; edits of the same plan are merged.',
        ),
    }),
    body: EditedPlan,
    answers: { 200: { describe: 'Which changes were accepted and which were not.', schema: SavedPlan } },
    problems: [404, 409, 412, 422],
    async run({ client, params, headers, body, raw }) {
      const [, id, revision, save] = PLAN_TAG.exec(headers['if-match'] ?? '') ?? [];
      if (id !== undefined && body.id !== undefined && body.id !== id)
        throw new HttpProblem(412, {
          wanted: `an edit of one plan (If-Match has ${id})`,
          came: `one of ${body.id}`,
          todo: 'Read the plan again.',
        });
      const base = id === undefined ? {} : { id, revision: Number(revision) };
      const text = JSON.stringify({ ...Object(raw), ...base });
      const { save: unread, ...answer } = await client.savePlan(params.session, text, save);
      return jsonAnswer(answer, 200, { etag: planTag(answer.plan, unread) });
    },
  }),
  defineOperation({
    ...{ method: 'get', path: '/api/sessions/{session}/approvals', id: 'listApprovals', params: InSession },
    summary: 'Calls waiting for approval, in this session and its child sessions',
    answers: { 200: { describe: 'The waiting calls; may be empty.', schema: z.array(WaitingCall) } },
    problems: [404],
    run: async ({ client, params }) => jsonAnswer(await client.approvalRequests(params.session)),
  }),
  defineOperation({
    ...{ method: 'get', path: '/api/sessions/{session}/why', id: 'explainSteps', params: InSession },
    summary: 'What closed each step and by which words, or what it is waiting for',
    query: z.strictObject({
      step: z.string().min(1).max(500).optional().describe('Id, number or description of the step.'),
    }),
    answers: { 200: { describe: 'The steps in plan order.', schema: z.array(ExplainedStep) } },
    problems: [404, 422],
    async run({ client, params, query: { step } }) {
      const { explainSteps, findStepExplanation } = await import('../../../client/inspect/explain-steps.ts');
      const name = basename(client.folder(params.session));
      const events: Event[] = [];
      for await (const { event } of client.events(params.session)) events.push(event);
      const found = explainSteps(name, events, (at) => at);
      return jsonAnswer(step === undefined ? found.steps : [findStepExplanation(found, step)]);
    },
  }),
];

const Template = z.object({
  name: z.string(),
  description: z.string().nullable(),
  usage: z.string().describe('The command that runs it, as the text of a message.'),
  parameters: z.array(
    z.object({ name: z.string(), description: z.string().nullable(), default: z.string().nullable() }),
  ),
  mode: z.string().nullable(),
  faults: z.array(z.string()).describe('What is wrong with its file; empty if it can be run.'),
});

const Settings = z.object({
  settings: z.array(
    z.object({
      name: z.string().describe('Such as "limits.minutes".'),
      value: z.unknown(),
      from: z.string().describe('The file that has it, or "default".'),
    }),
  ),
  faults: z.array(z.string()).describe('Files that are invalid; their last valid copies apply.'),
});

/** What belongs to the workspace and to no session. */
export const WORKSPACE_OPERATIONS: readonly HttpOperation[] = [
  defineOperation({
    ...{ method: 'get', path: '/api/templates', id: 'listTemplates', summary: 'The templates of the workspace' },
    answers: { 200: { describe: 'As agentctl templates --json.', schema: z.array(Template) } },
    run: async ({ client }) => jsonAnswer(await client.templates()),
  }),
  defineOperation({
    ...{ method: 'get', path: '/api/settings', id: 'getSettings' },
    summary: 'The settings in force and where each comes from, without secrets',
    query: z.strictObject({ session: InSession.shape.session.optional() }),
    answers: { 200: { describe: 'As agentctl settings --json.', schema: Settings } },
    problems: [404],
    run: async ({ client, query }) => jsonAnswer(await client.settings(query.session)),
  }),
];
