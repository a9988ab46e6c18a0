import { z } from 'zod';
import { defineOperation, type HttpOperation, jsonAnswer } from '../common/operation.ts';
import { FileName, InSession, WorkPath } from '../common/path-schemas.ts';

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

/** Files of `work/`, and files that are sent to a session. */
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
          // A page must not run what a model wrote.
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
    summary: 'Upload a file for a message that follows; creates the session if needed',
    query: z.strictObject({ name: FileName.describe('Name of the file; a number is added if it is taken.') }),
    takesFile: true,
    answers: { 201: { describe: 'The file is durably in the inbox.', schema: Upload } },
    problems: [413],
    run: async ({ client, params, query, bytes }) =>
      jsonAnswer(await client.upload(params.session, query.name, bytes), 201),
  }),
];

/** As RFC 8187 has it. */
const encodeName = (name: string): string =>
  encodeURIComponent(name).replace(/['()*]/g, (one) => `%${one.charCodeAt(0).toString(16).toUpperCase()}`);
