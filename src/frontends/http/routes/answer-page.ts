import { createHmac, timingSafeEqual } from 'node:crypto';
import { setTimeout } from 'node:timers/promises';
import type { Context, Hono } from 'hono';
import { legible } from '../../../base/strings.ts';
import { attempt, UserError } from '../../../base/user-error.ts';
import { approvalMessage } from '../../../client/actions/messaging.ts';
import type { ApprovalRequest, Client } from '../../../client/index.ts';
import { NoSuchApproval, NoSuchSession } from '../../../client/sessions/client-errors.ts';
import { LinkedCall } from '../../../protocol/session/notice-file.ts';
import { readableName } from '../../../protocol/workspace/session-names.ts';
import { ANSWER_PATH } from '../access/request-checks.ts';
import { HttpProblem } from '../common/http-problem.ts';
import type { HttpEnv } from '../common/operation.ts';

/** Nothing is loaded and nothing runs: the page is text and two buttons. */
const HEADERS = {
  'content-type': 'text/html; charset=utf-8',
  'content-security-policy':
    "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
  // With `no-referrer` browsers send the form with `Origin: null`, which is refused.
  'referrer-policy': 'same-origin',
  'cache-control': 'no-store',
  'x-robots-tag': 'noindex',
};
const MAX_FORM_BYTES = 1000;

/**
 * The page of one waiting call, for who has its link: no other token is needed, and nothing else is reached by it. To
 * look uses nothing up, since programs that preview links do; only the form answers.
 */
export function addAnswerPage(app: Hono<HttpEnv>, workspace: Client): void {
  const path = `${ANSWER_PATH}:link` as const;
  app.get(path, async (c) => show(c, await lookAtAnswerLink(workspace, c.req.param('link'))));
  app.post(path, async (c) => {
    const text = await c.req.text();
    const decision = text.length > MAX_FORM_BYTES ? null : new URLSearchParams(text).get('decision');
    if (decision !== 'allow' && decision !== 'deny')
      throw new HttpProblem(400, {
        wanted: 'decision=allow or decision=deny',
        came: decision === null ? 'none' : 'another decision',
        todo: 'Open the link in a browser and use its buttons.',
      });
    return show(c, await answerByLink(workspace, c.req.param('link'), decision));
  });
}

const DECISIONS = { allow: 'Allowed', deny: 'Denied' } as const;

function show(c: Context<HttpEnv>, state: AnswerState): Response {
  const page = (title: string, body: string): Response =>
    new Response(
      `<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>${title}</title><style>${STYLE}</style></head><body><main><h1>${title}</h1>${body}</main></body></html>`,
      { headers: HEADERS, status: state.is === 'gone' ? 410 : 200 },
    );
  if (c.req.method === 'HEAD') return new Response(null, { headers: HEADERS });
  if (state.is === 'gone') return page('Nothing to answer', `<p>${toHtml(state.why)}</p>`);
  if (state.is === 'answered')
    return page(
      `${DECISIONS[state.decision]} by ${toHtml(state.by)}`,
      `<p>The run goes on. You can close this page.</p>${linkTo(state.session)}`,
    );
  if (state.is === 'sent')
    return page(
      'Your answer is sent',
      '<p>No daemon has read it yet. It counts as soon as one does, unless somebody else answers first. Reload this page to see.</p>',
    );
  const { session, tool, display, why, expires_at } = state.call;
  return page(
    'Allow this call?',
    `<p>The session <b>${toHtml(readableName(session))}</b> wants to use <b>${toHtml(tool)}</b>:</p><pre>${toHtml(display)}</pre><p>${toHtml(why)}</p><form method="post"><button name="decision" value="allow">Allow once</button><button name="decision" value="deny">Deny</button></form><p>Denied automatically at ${toHtml(expires_at)}.</p>${linkTo(session)}`,
  );
}

/** A link to a session on the page, which asks for a token. */
const linkTo = (session: string): string => `<p><a href="/#/s/${encodeURIComponent(session)}">Open the session</a></p>`;

const toHtml = (text: string): string => text.replace(/[&<>"']/g, (mark) => `&#${mark.charCodeAt(0)};`);

const STYLE =
  ':root{color-scheme:light dark;font:1rem/1.5 system-ui,sans-serif}main{max-width:40rem;margin:2rem auto;padding:0 1rem}pre{white-space:pre-wrap;overflow-wrap:anywhere;border:1px solid;padding:.8rem;border-radius:.4rem}form{display:flex;gap:1rem}button{flex:1;min-height:3rem;font:inherit}';

/**
 * The text of a link to a waiting call, signed with the access token of the workspace: a new token makes all links
 * void. Who has it can see and answer that one call, and nothing else.
 */
export function signAnswerLink(token: string, call: LinkedCall): string {
  const content = Buffer.from(JSON.stringify(call)).toString('base64url');
  return `${content}.${signatureOf(token, content)}`;
}

const signatureOf = (token: string, content: string): string =>
  createHmac('sha256', token).update(`answer ${content}`).digest('base64url');

/** What became of the call of a link. */
type AnswerState =
  | { is: 'waiting'; call: ApprovalRequest }
  /** `by`: who was first. */
  | { is: 'answered'; session: string; decision: 'allow' | 'deny'; by: string }
  /** The answer lies in the inbox. */
  | { is: 'sent' }
  | { is: 'gone'; why: string };

/** Looks at the call of a link. Uses nothing up, so programs may look as often as they like. */
async function lookAtAnswerLink(client: Client, text: string): Promise<AnswerState> {
  const linked = await readLink(client, text);
  if (!linked) return { is: 'gone', why: 'This link is not complete, or not of this workspace.' };
  if (Date.parse(linked.until) < Date.now()) return { is: 'gone', why: 'This link has expired.' };
  try {
    const answered = await findAnswer(client, linked);
    if (answered) return answered;
    const call = await client.approvalRequest(linked.session, linked.id);
    if (call.hash === linked.hash) return { is: 'waiting', call };
    return { is: 'gone', why: 'Another call waits now.' };
  } catch (error) {
    if (error instanceof NoSuchApproval || error instanceof NoSuchSession)
      return { is: 'gone', why: 'This call does not wait any more.' };
    throw error;
  }
}

/**
 * Answers the call of a link, unless that was done. Returns what became of the call, as the log has it; `sent` if no
 * daemon has read the answer within three seconds. The answer is the owner's, who gave the link away, so it counts
 * whatever `senders` says.
 */
async function answerByLink(client: Client, text: string, decision: 'allow' | 'deny'): Promise<AnswerState> {
  const state = await lookAtAnswerLink(client, text);
  if (state.is !== 'waiting') return state;
  const { call } = state;
  const message = approvalMessage(call, call.hash, decision);
  // The same link sends the same message, however often a button is pressed.
  const id = `${LINK_PREFIX}${call.hash.slice(0, 16)}.${call.id}.${decision}`;
  await client.sendOnce(call.session, { ...message, id }, { mustExist: true });
  for (let look = 0; look < 30; look += 1) {
    await setTimeout(100);
    const after = await lookAtAnswerLink(client, text);
    if (after.is !== 'waiting') return after;
  }
  return { is: 'sent' };
}

/** Begins the id of each message that a link sent. */
const LINK_PREFIX = 'link.';

async function readLink(client: Client, text: string): Promise<LinkedCall | undefined> {
  const [content = '', signature = ''] = text.split('.');
  const wanted = Buffer.from(signatureOf(await client.accessToken(), content));
  const came = Buffer.from(signature);
  if (came.length !== wanted.length || !timingSafeEqual(came, wanted)) return undefined;
  return attempt(() => LinkedCall.parse(JSON.parse(Buffer.from(content, 'base64url').toString())));
}

async function findAnswer(client: Client, { session, id }: LinkedCall): Promise<AnswerState | undefined> {
  const senders = new Map<string, string>();
  let found: AnswerState | undefined;
  try {
    for await (const { event } of client.events(session)) {
      if (event.type === 'message.received')
        senders.set(event.id, event.from ?? (event.id.startsWith(LINK_PREFIX) ? 'this link' : 'a person'));
      if (event.type !== 'approval.answered' || event.id !== id) continue;
      const by = event.by === 'person' ? (senders.get(event.message ?? '') ?? 'a person') : `the daemon (${event.why})`;
      found = { is: 'answered', session, decision: event.decision, by: legible(by) };
    }
  } catch (error) {
    if (!(error instanceof UserError)) throw error;
  }
  return found;
}
