import { readFile } from 'node:fs/promises';
import type { Hono } from 'hono';
import { z } from 'zod';
import { UserError } from '../../../base/user-error.ts';
import type { Client } from '../../../client/index.ts';
import { PushSubscription } from '../../../protocol/session/notice-file.ts';
import { pageFile } from '../../command-line.ts';
import type { PageAccess } from '../access/credentials.ts';
import { HttpProblem } from '../common/http-problem.ts';
import { defineOperation, type HttpEnv, type HttpOperation, jsonAnswer, readJson } from '../common/operation.ts';

/**
 * Allows files of this server only, and never treats text as markup or code, so that what a model writes cannot run or
 * load anything. The one trusted-types policy is in `notifications.ts`, for the URL of its worker.
 */
const CONTENT_SECURITY_POLICY = [
  ...["default-src 'none'", "script-src 'self'", "style-src 'self'", "img-src 'self' data:", "connect-src 'self'"],
  ...["worker-src 'self'", "manifest-src 'self'", "base-uri 'none'", "form-action 'none'", "frame-ancestors 'none'"],
  ...["require-trusted-types-for 'script'", 'trusted-types agentd-worker'],
].join('; ');

const PAGE_HEADERS = {
  'content-security-policy': CONTENT_SECURITY_POLICY,
  'cross-origin-opener-policy': 'same-origin',
  'cross-origin-resource-policy': 'same-origin',
  'referrer-policy': 'no-referrer',
  'cache-control': 'no-store',
};

/** The files of the page by their paths. */
const PAGE_FILES = {
  '/': { file: 'index.html', type: 'text/html; charset=utf-8' },
  '/app.js': { file: 'app.js', type: 'text/javascript; charset=utf-8' },
  '/chinese.js': { file: 'chinese.js', type: 'text/javascript; charset=utf-8' },
  '/browser-remote.js': { file: 'browser-remote.js', type: 'text/javascript; charset=utf-8' },
  '/notification-worker.js': { file: 'notification-worker.js', type: 'text/javascript; charset=utf-8' },
  '/app.css': { file: 'app.css', type: 'text/css; charset=utf-8' },
  '/icon.svg': { file: 'icon.svg', type: 'image/svg+xml' },
  '/app.webmanifest': { file: 'app.webmanifest', type: 'application/manifest+json' },
};

const LoginBody = z.strictObject({ token: z.string() });
const Challenge = z.string().regex(/^[\w-]{16,200}$/);

/** The page and its login: it sends a token once, and gets a cookie and a key in return. */
export function addPageRoutes(app: Hono<HttpEnv>, access: PageAccess): void {
  for (const [path, { file, type }] of Object.entries(PAGE_FILES))
    app.get(path, async () => {
      const bytes = await readFile(pageFile(file));
      return new Response(new Uint8Array(bytes), { headers: { ...PAGE_HEADERS, 'content-type': type } });
    });
  app.post('/login', async (c) => {
    const body = LoginBody.safeParse(await readJson(c));
    const login = body.success ? logIn(access, body.data.token.trim()) : undefined;
    if (!login)
      throw new HttpProblem(401, {
        wanted: 'a token of this workspace',
        came: body.success ? 'another one' : 'a body without it',
        todo: 'The token is in .agentd/token of the workspace, or was given to you by its owner. Or run: agentctl open',
      });
    const isSecure = c.req.header('origin')?.toLowerCase().startsWith('https:');
    return jsonAnswer({ key: login.key }, 200, { 'set-cookie': `${login.cookie}${isSecure ? '; Secure' : ''}` });
  });
  app.get('/login', (c) => {
    const challenge = Challenge.safeParse(c.req.query('challenge'));
    if (challenge.success) return jsonAnswer({ proof: access.prove(challenge.data) });
    throw new HttpProblem(400, {
      wanted: 'challenge: 16 to 200 letters, digits, "_" and "-"',
      came: c.req.query('challenge') === undefined ? 'nothing' : 'something else',
      todo: 'Send POST /login to log in.',
    });
  });
  app.post('/logout', () => jsonAnswer({}, 200, { 'set-cookie': access.logOut() }));
}

/** While `.agentd/tokens.json` is invalid, only the admin's token works; others are not told what is wrong. */
function logIn(access: PageAccess, text: string): ReturnType<PageAccess['logIn']> {
  try {
    return access.logIn(text);
  } catch (error) {
    if (error instanceof UserError) return undefined;
    throw error;
  }
}

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
