import { z } from 'zod';
import type { Client } from '../../../client/index.ts';
import { PushSubscription } from '../../../protocol/session/notice-file.ts';
import { defineOperation, type HttpOperation, jsonAnswer } from '../common/operation.ts';

/** Throws 403 unless the caller is the admin: a notice may be of any session. */
async function pushFiles(client: Client) {
  client.status();
  const { openPushFiles } = await import('../../../client/sessions/push-files.ts');
  return openPushFiles(client.paths);
}

/** Notices by Web Push: a browser is told by what key, and says where it takes them. */
export const PUSH_OPERATIONS: readonly HttpOperation[] = [
  defineOperation({
    ...{ method: 'get', path: '/api/push', id: 'getPushKey', summary: 'The key for Web Push' },
    answers: {
      200: {
        describe: 'What a browser calls `applicationServerKey`.',
        schema: z.object({ publicKey: z.string().describe('In base64url.') }),
      },
    },
    problems: [403],
    async run({ client }) {
      const { publicKey } = await (await pushFiles(client)).keys();
      return jsonAnswer({ publicKey });
    },
  }),
  defineOperation({
    ...{ method: 'put', path: '/api/push', id: 'putPushSubscription' },
    summary: 'Let a browser take notices, or no more',
    body: z.strictObject({ subscription: PushSubscription, active: z.boolean() }),
    answers: { 200: { describe: 'It is written.', schema: z.object({}) } },
    problems: [403],
    async run({ client, body: { subscription, active } }) {
      const files = await pushFiles(client);
      if (active) await files.add(subscription, new Date());
      else files.remove(subscription.endpoint);
      return jsonAnswer({});
    },
  }),
];
