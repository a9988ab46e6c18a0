import type { Context, Hono } from 'hono';
import { ANSWER_PATH, type AnswerState, answerByLink, lookAtAnswerLink } from '../../../client/actions/answer-link.ts';
import type { Client } from '../../../client/index.ts';
import { readableName } from '../../../protocol/workspace/session-names.ts';
import { HttpProblem } from '../common/http-problem.ts';
import type { HttpEnv } from '../common/operation.ts';

/** Nothing is loaded and nothing runs: the page is text and two buttons. */
const HEADERS = {
  'content-type': 'text/html; charset=utf-8',
  'content-security-policy':
    "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
  'referrer-policy': 'no-referrer',
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
      '<p>The run goes on. You can close this page.</p>',
    );
  const { session, tool, display, why, expires_at } = state.call;
  return page(
    'Allow this call?',
    `<p>The session <b>${toHtml(readableName(session))}</b> wants to use <b>${toHtml(tool)}</b>:</p><pre>${toHtml(display)}</pre><p>${toHtml(why)}</p><form method="post"><button name="decision" value="allow">Allow once</button><button name="decision" value="deny">Deny</button></form><p>Denied by itself at ${toHtml(expires_at)}.</p>`,
  );
}

const MARKS: Readonly<Record<string, string>> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;', "'": '&#39;' };

const toHtml = (text: string): string => text.replace(/[&<>"']/g, (mark) => MARKS[mark] ?? mark);

const STYLE =
  ':root{color-scheme:light dark;font:1rem/1.5 system-ui,sans-serif}main{max-width:40rem;margin:2rem auto;padding:0 1rem}pre{white-space:pre-wrap;overflow-wrap:anywhere;border:1px solid;padding:.8rem;border-radius:.4rem}form{display:flex;gap:1rem}button{flex:1;min-height:3rem;font:inherit}';
