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
  standing: z.string().describe('How it stands, such as "running", "waiting" or "completed".'),
  changed: z.string().nullable().describe('ISO 8601, UTC.'),
  inbox: z.int().describe('Messages that nobody has taken yet.'),
});

const SessionView = SessionLine.extend({ plan: Plan.nullable(), run: z.looseObject({}).nullable() });

const WaitingCall = z.object({
  session: z.string().describe('The session that asks: this one, or one that works for it.'),
  id: z.int().min(1).describe('Its number, for POST …/approvals/{number}.'),
  tool: z.string(),
  shows: z.string().describe('The call as a person reads it.'),
  why: z.string(),
  always: z.string().nullable().describe('The rule that the decision "always" adds.'),
  expires_at: z.string(),
  hash: z.string().describe('Of the call. An answer carries it, and is for this call and no other.'),
  problem: z.string().nullable(),
});

const SavedPlan = z.object({
  plan: Plan.describe('As it will be; the daemon takes it in at its next look.'),
  taken: z.array(z.string()).describe('What is taken over, a sentence each.'),
  ignored: z.array(z.string()).describe('What is not, and why.'),
});

const ExplainedStep = z.looseObject({
  id: z.string(),
  number: z.int(),
  status: z.string(),
  text: z.string().describe('The answer in a sentence.'),
});

const PLAN_TAG = /^"(.+)\.(\d{1,15})"$/;
const planTag = ({ id, revision }: Pick<Plan, 'id' | 'revision'>): string => `"${id}.${revision}"`;

/** What can be seen of sessions, and the plan, which can be edited. */
export const SESSION_OPERATIONS: readonly HttpOperation[] = [
  defineOperation({
    ...{ method: 'get', path: '/api/sessions', id: 'listSessions', summary: 'Every session in a line' },
    answers: { 200: { describe: 'As agentctl list --json.', schema: z.array(SessionLine) } },
    async run({ client }) {
      const sessions: object[] = [];
      for await (const one of client.list()) sessions.push(one);
      return jsonAnswer(sessions);
    },
  }),
  defineOperation({
    ...{ method: 'get', path: '/api/sessions/{session}', id: 'getSession', params: InSession },
    summary: 'One session: its plan, its run, and what it waits for',
    answers: { 200: { describe: 'As agentctl show --json.', schema: SessionView } },
    problems: [404],
    async run({ client, params }) {
      const { detailsAsJson } = await import('../../../client/inspect/session-details.ts');
      return jsonAnswer(detailsAsJson(await client.show(params.session)));
    },
  }),
  defineOperation({
    ...{ method: 'get', path: '/api/sessions/{session}/plan', id: 'getPlan', params: InSession },
    summary: 'The plan as the record has it; its ETag is "<plan id>.<revision>"',
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
    summary: 'Save an edited plan; it is merged with what happened since its revision',
    headers: z.object({
      'if-match': z
        .string()
        .regex(PLAN_TAG, 'wanted an ETag of this plan, "<plan id>.<revision>"')
        .optional()
        .describe('The ETag the edit began from. 412 only where another plan is current; the same plan is merged.'),
    }),
    body: EditedPlan,
    answers: { 200: { describe: 'What is taken over and what is not.', schema: SavedPlan } },
    problems: [404, 409, 412, 422],
    async run({ client, params, headers, body, raw }) {
      const [, id, revision] = PLAN_TAG.exec(headers['if-match'] ?? '') ?? [];
      if (id !== undefined && body.id !== undefined && body.id !== id)
        throw new HttpProblem(412, {
          wanted: `an edit of one plan (If-Match has ${id})`,
          came: `one of ${body.id}`,
          todo: 'Read the plan again.',
        });
      const base = id === undefined ? {} : { id, revision: Number(revision) };
      const saved = await client.savePlan(params.session, JSON.stringify({ ...Object(raw), ...base }));
      return jsonAnswer(saved, 200, { etag: planTag(saved.plan) });
    },
  }),
  defineOperation({
    ...{ method: 'get', path: '/api/sessions/{session}/approvals', id: 'listApprovals', params: InSession },
    summary: 'The calls that wait for a person, in this session and in those that work for it',
    answers: { 200: { describe: 'None or more.', schema: z.array(WaitingCall) } },
    problems: [404],
    run: async ({ client, params }) => jsonAnswer(await client.approvalRequests(params.session)),
  }),
  defineOperation({
    ...{ method: 'get', path: '/api/sessions/{session}/why', id: 'explainSteps', params: InSession },
    summary: 'What closed each step and in which words, or what it waits for',
    query: z.strictObject({ step: z.string().min(1).max(500).optional().describe('Its id, number or description.') }),
    answers: { 200: { describe: 'In the order of the plan.', schema: z.array(ExplainedStep) } },
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
