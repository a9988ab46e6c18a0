import { PassThrough, Readable } from 'node:stream';
import { z } from 'zod';
import { CheckpointEntry, FileChange, LeftOut } from '../../../protocol/session/checkpoint.ts';
import {
  defineOperation,
  type HttpOperation,
  IdempotencyKey,
  InSession,
  jsonAnswer,
  WorkPath,
} from '../common/operation.ts';
import { ACCEPTED, EmptyBody, sendMessage } from './message-operations.ts';

const Moment = z.string().min(1).max(500).describe('A step (its end), or the number of a checkpoint.');
const MomentNumber = z.union([z.int(), z.literal('now')]);
const Counts = z.object({ added: z.int(), changed: z.int(), removed: z.int() });

const Files = z.object({
  checkpoint: MomentNumber,
  at: z.string().nullable().describe('ISO 8601, UTC.'),
  entries: z.array(CheckpointEntry),
  partial: z.boolean().describe('Something is left out.'),
  left_out: z.array(LeftOut),
  concurrent: z.boolean().describe('Something else may have changed the files meanwhile.'),
});

const Diff = z.object({
  ...{ from: MomentNumber, to: MomentNumber, counts: Counts, files: z.array(FileChange) },
  ...{ partial: z.boolean(), left_out: z.array(LeftOut) },
  patch: z.string().optional().describe('A unified diff, if it was asked for.'),
});

const Preview = z.object({ checkpoint: z.int(), counts: Counts, files: z.array(FileChange) });

const RestoreBody = z.strictObject({
  at: Moment,
  paths: z.array(WorkPath).max(1000).optional().describe('Only these, relative to work/; by default all of it.'),
});

const ForkBody = z.strictObject({ at: Moment, name: z.string().min(1).max(500).describe('Of the new session.') });
const Forked = z.object({
  name: z.string(),
  checkpoint: z.int(),
  seq: z.int().describe('The last event that it has.'),
});

const Imported = z.array(
  z.object({
    name: z.string().describe('The name of its folder.'),
    from: z.string().describe('Its name in the tar.'),
    hasSettings: z.boolean().describe('It has a session.json, which may allow calls and start programs.'),
  }),
);

/** The files of a session at moments of the past, and copies of sessions. */
export const CHECKPOINT_OPERATIONS: readonly HttpOperation[] = [
  defineOperation({
    ...{ method: 'get', path: '/api/sessions/{session}/checkpoints/{at}', id: 'listFilesAt' },
    summary: 'What work/ held at the end of a step, or at a checkpoint',
    params: InSession.extend({ at: Moment }),
    answers: { 200: { describe: 'As agentctl files --at --json.', schema: Files } },
    problems: [404],
    run: async ({ client, params }) => jsonAnswer(await client.filesAt(params.session, params.at)),
  }),
  defineOperation({
    ...{ method: 'get', path: '/api/sessions/{session}/diff', id: 'diffFiles', params: InSession },
    summary: 'What changed in work/: in a step, since a checkpoint, or between two moments',
    query: z.strictObject({
      from: Moment.optional().describe('With a step alone: what it changed. By default the last checkpoint.'),
      to: Moment.optional().describe('By default work/ as it is now.'),
      full: z.literal('true').optional().describe('With a unified diff.'),
    }),
    answers: { 200: { describe: 'As agentctl diff --json.', schema: Diff } },
    problems: [404],
    run: async ({ client, params, query: { from, to, full } }) =>
      jsonAnswer(await client.diffWork(params.session, [from, to], full === 'true')),
  }),
  defineOperation({
    ...{ method: 'post', path: '/api/sessions/{session}/restore/preview', id: 'previewRestore', params: InSession },
    ...{ summary: 'What a restore would change; nothing is changed', body: RestoreBody },
    answers: { 200: { describe: 'As agentctl restore --dry-run --json.', schema: Preview } },
    problems: [404, 422],
    run: async ({ client, params, body: { at, paths = [] } }) =>
      jsonAnswer(await client.previewRestore(params.session, at, paths)),
  }),
  defineOperation({
    ...{ method: 'post', path: '/api/sessions/{session}/restore', id: 'restoreFiles', params: InSession },
    summary: 'Make files in work/ what they were; a checkpoint is taken first. For an admin',
    ...{ headers: IdempotencyKey, body: RestoreBody, answers: ACCEPTED, problems: [404, 409] },
    run: ({ client, params, headers, body: { at, paths = [] } }) => {
      const message = {
        command: `restore "${at.replaceAll('"', '')}"`,
        ...(paths.length > 0 && { text: paths.join('\n') }),
      };
      return sendMessage(client, params.session, message, headers, { mustExist: true });
    },
  }),
  defineOperation({
    ...{ method: 'post', path: '/api/sessions/{session}/undo-files', id: 'undoStepWithFiles', params: InSession },
    summary: 'Reopen the step that was closed last, and restore what it changed in work/',
    ...{ headers: IdempotencyKey, body: EmptyBody, answers: ACCEPTED, problems: [404, 409] },
    run: ({ client, params, headers }) =>
      sendMessage(client, params.session, { command: 'undo --files' }, headers, { mustExist: true }),
  }),
  defineOperation({
    ...{ method: 'post', path: '/api/sessions/{session}/fork', id: 'forkSession', params: InSession },
    summary: 'Make a new session of what this one was at the end of a step. For an admin',
    ...{ body: ForkBody, answers: { 201: { describe: 'It is paused.', schema: Forked } }, problems: [404, 422] },
    run: async ({ client, params, body: { at, name } }) =>
      jsonAnswer(await client.forkSession(params.session, at, name), 201),
  }),
  defineOperation({
    ...{ method: 'get', path: '/api/sessions/{session}/export', id: 'exportSession', params: InSession },
    summary: 'The session as a tar, as agentctl export writes it. For an admin',
    answers: { 200: { describe: 'The tar.', type: 'application/x-tar' } },
    problems: [404],
    async run({ client, params, services }) {
      const tar = await client.exportSessions([params.session]);
      const out = new PassThrough();
      // The caller notices by a body that ends early.
      tar.write(out).catch((error) => services.complain(`an export was cut off: ${String(error)}`));
      const headers = { 'content-type': 'application/x-tar', 'cache-control': 'no-store' };
      return new Response(Readable.toWeb(out), { headers });
    },
  }),
  defineOperation({
    ...{ method: 'post', path: '/api/import', id: 'importSessions' },
    summary: 'Take the sessions from such a tar; they begin paused. For an admin',
    query: z.strictObject({
      as: z.string().min(1).max(500).optional().describe('The name, if the tar has one session.'),
    }),
    takesFile: true,
    answers: { 201: { describe: 'The new sessions.', schema: Imported } },
    problems: [413, 422],
    run: async ({ client, query, bytes }) => jsonAnswer(await client.importSessions(bytes, query.as), 201),
  }),
];
