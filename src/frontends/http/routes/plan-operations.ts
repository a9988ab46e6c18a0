import { basename } from 'node:path';
import { z } from 'zod';
import type { Client } from '../../../client/index.ts';
import type { Event } from '../../../protocol/session/event.ts';
import { Actor } from '../../../protocol/session/log-entry.ts';
import { Plan } from '../../../protocol/session/plan.ts';
import { PlanEdit } from '../../../protocol/session/plan-edit.ts';
import { HttpProblem } from '../common/http-problem.ts';
import { defineOperation, type HttpOperation, InSession, jsonAnswer, wholeNumber } from '../common/operation.ts';

const EditedNow = z.object({
  plan: Plan.describe('The plan with the edit.'),
  taken: z.array(z.string()).describe('Changes that were accepted, one sentence each.'),
  ignored: z.array(z.string()).describe('Changes that were not, and why.'),
});

const EditWaits = z.object({
  id: z.string().describe('Of the edit: the `order` of the `plan.edited` event that will answer it.'),
  why: z.string().describe('Why it was not made yet.'),
});

const FieldChange = z.object({
  step: z.string().nullable().describe('Id of the step; null: a field of the plan.'),
  description: z.string().nullable(),
  field: z.string().describe('"step" if the whole step was added (`from` is null) or removed (`to` is null).'),
  from: z.unknown(),
  to: z.unknown(),
});

const HistoryEntry = z.object({
  event: z.int().describe('Its seq in the event log.'),
  at: z.string().describe('ISO 8601, UTC.'),
  by: Actor,
  author: z.string().optional().describe('The sender who ordered it, if they have a name.'),
  from: z.int().describe('The revision before it.'),
  to: z.int().describe('The revision after it; the same if nothing was accepted.'),
  what: z.array(z.string()).describe('What changed, one sentence each.'),
});

const PlanHistory = z.object({
  plan: z.string().describe('Id of the plan.'),
  revision: z.int(),
  versions: z.array(HistoryEntry.extend({ changes: z.array(FieldChange) })).describe('Oldest first.'),
  complete: z.boolean().describe('False if there are more changes than these 500, the newest.'),
});

const PlanDiff = z.object({
  plan: z.string(),
  from: z.int(),
  to: z.int(),
  changes: z.array(FieldChange),
  entries: z.array(HistoryEntry).describe('The changes in between, oldest first.'),
});

const Revision = wholeNumber(1, 9_999_999_999);
/** The most changes in a history. */
const MAX_VERSIONS = 500;

/** An ETag: plan id and revision. */
const PLAN_TAG = /^"([^"]+)\.([0-9]{1,15})"$/;
const planTag = ({ id, revision }: Pick<Plan, 'id' | 'revision'>): string => `"${id}.${revision}"`;

/** The plan, or only that it is the one that the caller has. */
function unlessKnown({ 'if-none-match': known = '' }: { 'if-none-match'?: string | undefined }, plan: Plan): Response {
  const etag = planTag(plan);
  const isKnown = known.trim() === '*' || known.split(',').some((one) => one.trim().replace(/^W\//, '') === etag);
  return isKnown ? new Response(null, { status: 304, headers: { etag } }) : jsonAnswer(plan, 200, { etag });
}

/** The plan of a session, which can be edited, and its earlier versions. */
export const PLAN_OPERATIONS: readonly HttpOperation[] = [
  defineOperation({
    ...{ method: 'get', path: '/api/sessions/{session}/plan', id: 'getPlan', params: InSession },
    summary: 'The plan from the event log; its ETag is "<plan id>.<revision>"',
    query: z.strictObject({
      revision: Revision.optional().describe('The plan as it was at this revision; by default as it is now.'),
    }),
    answers: { 200: { describe: 'As in plan.json.', schema: Plan } },
    problems: [404],
    headers: z.object({
      'if-none-match': z.string().optional().describe('ETags that the caller has: 304 if one is current.'),
    }),
    async run({ client, params, query: { revision }, headers }) {
      if (revision !== undefined) {
        const { planAtRevision } = await import('../../../client/inspect/plan-history.ts');
        const history = await readHistory(client, params.session);
        const old = revision <= history.plan.revision ? planAtRevision(history, revision) : undefined;
        if (old) return unlessKnown(headers, old);
        throw new HttpProblem(404, {
          wanted: `a revision from 1 to ${history.plan.revision}`,
          came: String(revision),
          todo: 'GET /api/sessions/{session}/plan/history lists them.',
        });
      }
      const { plan } = (await client.show(params.session)).session;
      if (plan) return unlessKnown(headers, plan);
      throw noPlan(params.session);
    },
  }),
  defineOperation({
    ...{ method: 'put', path: '/api/sessions/{session}/plan', id: 'savePlan', params: InSession },
    summary: 'Edit the plan; the edit is merged with changes since its revision',
    headers: z.object({
      'if-match': z
        .string()
        .regex(PLAN_TAG, 'expected an ETag of this plan, such as "<plan id>.<revision>"')
        .optional()
        .describe(
          'ETag of the answer that the edit started from. 412 only if another plan is current; edits of the same plan are merged.',
        ),
    }),
    body: PlanEdit,
    answers: {
      200: { describe: 'Which changes were accepted and which were not.', schema: EditedNow },
      202: { describe: 'The edit is durably in the inbox; no daemon has made it yet.', schema: EditWaits },
    },
    problems: [403, 404, 409, 412, 422],
    async run({ client, params, headers, body }) {
      const [, id, revision] = PLAN_TAG.exec(headers['if-match'] ?? '') ?? [];
      if (id !== undefined && body.id !== undefined && body.id !== id)
        throw new HttpProblem(412, {
          wanted: `an edit of one plan (If-Match has ${id})`,
          came: `one of ${body.id}`,
          todo: 'Read the plan again.',
        });
      const base = id === undefined ? {} : { id, revision: Number(revision) };
      const { is, ...answer } = await client.editPlan(params.session, { edit: { ...body, ...base } });
      return 'plan' in answer ? jsonAnswer(answer, 200, { etag: planTag(answer.plan) }) : jsonAnswer(answer, 202);
    },
  }),
  defineOperation({
    ...{ method: 'get', path: '/api/sessions/{session}/plan/history', id: 'getPlanHistory', params: InSession },
    summary: 'The changes of the current plan, else of the last one, and who made them',
    answers: { 200: { describe: 'As agentctl plan history, with the fields that changed.', schema: PlanHistory } },
    problems: [404],
    async run({ client, params }) {
      const { listPlanVersions } = await import('../../../client/inspect/plan-history.ts');
      const history = await readHistory(client, params.session);
      const { plan, entries } = history;
      const versions = listPlanVersions(history, MAX_VERSIONS);
      return jsonAnswer({
        ...{ plan: plan.id, revision: plan.revision, versions },
        complete: entries.length === versions.length,
      });
    },
  }),
  defineOperation({
    ...{ method: 'get', path: '/api/sessions/{session}/plan/diff', id: 'diffPlan', params: InSession },
    summary: 'What differs between two revisions of the plan',
    query: z.strictObject({
      from: Revision.optional().describe('By default the one before the last change.'),
      to: Revision.optional().describe('By default the current one.'),
    }),
    answers: { 200: { describe: 'As agentctl plan diff --json.', schema: PlanDiff } },
    problems: [404, 422],
    async run({ client, params, query: { from, to } }) {
      const { diffPlanRevisions } = await import('../../../client/inspect/plan-history.ts');
      return jsonAnswer(diffPlanRevisions(await readHistory(client, params.session), from, to));
    },
  }),
];

async function readHistory(client: Client, session: string) {
  const { buildPlanHistory } = await import('../../../client/inspect/plan-history.ts');
  const name = basename(client.folder(session));
  const events: Event[] = [];
  for await (const { event } of client.events(session)) events.push(event);
  const history = buildPlanHistory(name, events);
  if (!history) throw noPlan(session);
  return history;
}

const noPlan = (session: string): HttpProblem =>
  new HttpProblem(404, {
    ...{ wanted: 'a plan', came: `none in ${session}` },
    todo: 'Send a message: a task makes a plan.',
  });
