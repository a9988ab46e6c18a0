import { basename } from 'node:path';
import { z } from 'zod';
import { formatUtcTime } from '../../../base/strings.ts';
import type { Event } from '../../../protocol/session/event.ts';
import { Plan } from '../../../protocol/session/plan.ts';
import { SESSION_STANDINGS } from '../../../protocol/session/reply.ts';
import { WaitShown } from '../../../protocol/workspace/owed-file.ts';
import { defineOperation, FileName, type HttpOperation, InSession, jsonAnswer, WorkPath } from '../common/operation.ts';

const SessionLine = z.looseObject({
  name: z.string().describe('The name of its folder.'),
  label: z.string().describe('The name for people, such as "Büro" for the folder "=42=ufc=ro".'),
  title: z.string().nullable(),
  standing: z.enum(SESSION_STANDINGS),
  changed: z.string().nullable().describe('ISO 8601, UTC.'),
  inbox: z.int().describe('Messages in the inbox.'),
  unserved: z.string().nullable().describe('Why its messages are not taken.'),
  waits: WaitShown.nullable().describe('What it waits for, and what answers it.'),
});

/** In a list only a plan that is not over is looked at. */
const ListedSession = SessionLine.extend({
  plan_problem: z.string().nullable().describe('Why its plan.json cannot be read; null if its run is over.'),
  waits_for: z
    .string()
    .nullable()
    .describe('Why it waits for a person, such as "approval"; of a running one: "budget", "model limit" or "model".'),
  waits_until: z.string().nullable().describe('When a running session that waits goes on by itself, ISO 8601, UTC.'),
});

const SessionView = SessionLine.extend({ plan: Plan.nullable(), run: z.looseObject({}).nullable() });

const WaitingCall = z.object({
  session: z.string().describe('The session that asks: this one or one of its child sessions.'),
  id: z.int().min(1).describe('Number of the call, for POST …/approvals/{number}.'),
  tool: z.string(),
  display: z.string().describe('The call in readable form.'),
  why: z.string(),
  always: z.string().nullable().describe('The rule that the decision "always" adds.'),
  expires_at: z.string(),
  hash: z.string().describe('Hash of the call. An answer must carry it and applies to this call only.'),
  problem: z.string().nullable(),
});

const ExplainedStep = z.looseObject({
  id: z.string(),
  number: z.int(),
  status: z.string(),
  text: z.string().describe('The explanation in one sentence.'),
});

/** Reading sessions. */
export const SESSION_OPERATIONS: readonly HttpOperation[] = [
  defineOperation({
    ...{ method: 'get', path: '/api/sessions', id: 'listSessions', summary: 'All sessions, in short' },
    answers: { 200: { describe: 'As agentctl list --json.', schema: z.array(ListedSession) } },
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
      const found = explainSteps(name, events, formatUtcTime);
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
  faults: z
    .array(z.string())
    .describe(
      'Files that are invalid. What is in force instead is not known: settings that they may set are left out.',
    ),
});

const UsageSums = z.object({
  calls: z.int(),
  tokens: z.int(),
  estimated: z.literal(true).optional().describe('The endpoint of a call reports no tokens, so they are estimated.'),
  cached: z.int().describe('Of the tokens, those that endpoints reported as cached.'),
  cost: z.number().describe('Of the calls whose cost is known, in the currency of the prices in the settings.'),
  unpriced: z.int().describe('Calls whose cost is unknown.'),
});
const DayUsage = UsageSums.extend({ day: z.string().describe("As 2026-01-31, in the server's time zone.") });

const Usage = z.object({
  sessions: z.array(
    UsageSums.extend({
      session: z.string(),
      days: z.array(DayUsage),
      removed_events: z.int().describe('Events that retention removed; their calls are not counted.'),
      checkpoints: z.object({ count: z.int(), bytes: z.int() }).describe('Those of work/ that are kept.'),
      problem: z.string().nullable().describe('Why the event log cannot be read; then nothing of it is counted.'),
    }),
  ),
  days: z.array(DayUsage),
  total: UsageSums,
});

/** Reading what belongs to the workspace as a whole. */
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
  defineOperation({
    ...{ method: 'get', path: '/api/usage', id: 'getUsage' },
    summary: 'The tokens and the cost of model calls, by session and by day',
    query: z.strictObject({
      session: InSession.shape.session.optional().describe('Only this session and its child sessions.'),
    }),
    answers: { 200: { describe: 'As agentctl usage --json.', schema: Usage } },
    problems: [404],
    async run({ client, query: { session } }) {
      const { reportUsage } = await import('../../../client/inspect/usage.ts');
      const names = session === undefined ? client.sessions() : client.withChildren(session);
      return jsonAnswer(await reportUsage(names.map((name) => ({ name, folder: client.folder(name) }))));
    },
  }),
];

const WorkListing = z.object({
  folder: z.string().describe('Relative to work/; "" is work/ itself.'),
  entries: z.array(
    z.object({
      name: z.string(),
      path: z.string().describe('Relative to work/.'),
      type: z.enum(['file', 'folder', 'link', 'other']).describe('Links are never followed.'),
      bytes: z.int().nullable(),
      modified: z.string().describe('ISO 8601, UTC.'),
    }),
  ),
  complete: z.boolean().describe('False if there are more entries than these 1,000.'),
});

const Upload = z.object({
  session: z.string(),
  attachment: z.string().describe('For `attachments` of POST /api/sessions/{session}/messages.'),
  bytes: z.int(),
});

/** Reading files of `work/`, and uploads for a message. */
export const FILE_OPERATIONS: readonly HttpOperation[] = [
  defineOperation({
    ...{ method: 'get', path: '/api/sessions/{session}/files', id: 'listFiles', params: InSession },
    summary: 'The entries of a folder of work/',
    query: z.strictObject({ folder: WorkPath.optional().describe('Relative to work/; by default work/ itself.') }),
    answers: { 200: { describe: 'Sorted by name.', schema: WorkListing } },
    problems: [404],
    run: async ({ client, params, query }) => jsonAnswer(await client.files(params.session, query.folder)),
  }),
  defineOperation({
    ...{ method: 'get', path: '/api/sessions/{session}/files/{path}', id: 'getFile' },
    summary: 'A file of work/',
    params: InSession.extend({ path: WorkPath.describe('Relative to work/.') }),
    answers: { 200: { describe: 'Its bytes.', type: 'application/octet-stream' } },
    problems: [404],
    async run({ client, params }) {
      const file = await client.openFile(params.session, params.path);
      return new Response(file.read(), {
        headers: {
          // A browser must not render or run what a model wrote.
          'content-type': 'application/octet-stream',
          'content-disposition': `attachment; filename*=UTF-8''${encodeName(file.name)}`,
          'content-length': String(file.bytes),
          'cache-control': 'no-store',
        },
      });
    },
  }),
  defineOperation({
    ...{ method: 'post', path: '/api/sessions/{session}/uploads', id: 'uploadFile', params: InSession },
    summary: 'Upload a file for a later message; creates the session if needed',
    query: z.strictObject({ name: FileName.describe('Name of the file; a number is added if it is taken.') }),
    takesFile: true,
    answers: { 201: { describe: 'The file is durably in the inbox.', schema: Upload } },
    problems: [413],
    run: async ({ client, params, query, bytes }) =>
      jsonAnswer(await client.upload(params.session, query.name, bytes), 201),
  }),
];

/** Encodes a file name by RFC 8187. */
const encodeName = (name: string): string =>
  encodeURIComponent(name).replace(/['()*]/g, (one) => `%${one.charCodeAt(0).toString(16).toUpperCase()}`);
