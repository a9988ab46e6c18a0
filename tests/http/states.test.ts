import * as fs from 'node:fs';
import { resolve } from 'node:path';
import { expect, test } from 'vitest';
import { openClient } from '../../src/client/index.ts';
import { everyState } from '../support/every-state.ts';
import { type Answer, type Asked, serveHere } from './serving.ts';

/** `@` is the session, `#` a reply of it. */
const READS = [
  ...[
    '',
    '/plan',
    '/plan/history',
    '/plan/diff',
    '/why',
    '/approvals',
    '/files',
    '/replies/x.msg.json',
    '/replies/#',
    '/replies/read',
  ].map((of) => `/api/sessions/@${of}`),
  ...['/api/usage?session=@', '/api/settings?session=@', '/api/sessions'],
];
const WRITES: ReadonlyArray<[method: string, path: string, body: object]> = [
  ['PUT', '/api/sessions/@/plan', { steps: [{ description: 'Another' }] }],
  ['POST', '/api/sessions/@/approvals/9', { hash: '0'.repeat(64), decision: 'allow' }],
  ['POST', '/api/sessions/@/messages', { text: 'hello' }],
  ...['pause', 'undo', 'continue', 'cancel'].map((order): [string, string, object] => [
    'POST',
    `/api/sessions/@/${order}`,
    {},
  ]),
];

/** A refusal says what was expected, what is there and what to do; the server did not fail. */
function checkAnswer(what: string, { status, headers, json }: Answer): void {
  if (status < 400) return;
  const said = expect.stringMatching(/\w{3}/);
  expect([what, status < 500, headers['content-type']]).toEqual([what, true, 'application/problem+json']);
  expect(json, what).toMatchObject({ status, wanted: said, came: said, do: said });
  expect(json['detail'], what).not.toMatch(/\bundefined\b|\[object |^ +at /m);
}

async function everyAnswer(
  ask: (method: string, path: string, asked: Asked) => Promise<Answer>,
  name: string,
  reply: string,
) {
  const statuses: number[] = [];
  for (const [method, path, body] of [...READS.map((path) => ['GET', path, undefined] as const), ...WRITES]) {
    const answer = await ask(method, path.replace('@', encodeURIComponent(name)).replace('#', reply), { body });
    checkAnswer(`${method} ${path} of ${name}`, answer);
    statuses.push(answer.status);
  }
  return statuses.join(' ');
}

test('every operation is answered in every state of a session, also with a file in place of a folder, or a folder in place of a file', async () => {
  const at = await everyState();
  await at.stop();
  // The daemon may have ended before it looked at this session.
  fs.mkdirSync(at.path('.sessions/new/outbox/read'), { recursive: true });
  const { ask } = await serveHere(at);
  const rows: Record<string, string> = {};
  const names = [
    'gone',
    'nobody',
    ...openClient(at.root)
      .sessions()
      .filter((name) => !/~.*~/.test(name)),
  ];
  for (const { name, plan_problem: problem } of (await ask('GET', '/api/sessions')).json as unknown as Listed[])
    expect([name, problem]).toEqual([name, name === 'planfile' ? expect.stringContaining('line 1, column 13') : null]);
  await replaceEach(at.path('.sessions/approval'), (reply) => everyAnswer(ask, 'approval', reply));
  for (const name of names) rows[name] = await everyAnswer(ask, name, 'x.msg.json');
  const all = '200 200 200 200 200 200 200 202 202 422 200 200 200 202 409 202 202 202 202 202';
  const unknown = '404 404 404 404 404 404 404 404 404 404 404 404 200 404 404 202 202 202 202 202';
  const noPlan = '200 404 404 404 200 200 200 202 202 422 200 200 200 404 409 202 202 202 202 202';
  expect(rows).toEqual({
    ...Object.fromEntries(names.map((name) => [name, all])),
    ...{ gone: unknown, nobody: unknown, talked: noPlan, new: noPlan },
    damaged: '422 422 422 422 422 422 200 202 202 422 200 200 200 422 422 202 202 202 202 202',
    inboxfile: '200 200 200 200 200 200 200 202 202 422 200 200 200 422 409 422 422 422 422 422',
  });
  const unanswered = await ask('POST', '/api/sessions/done/approvals/9', { body: {} });
  expect(unanswered.json['detail']).toMatch(/^Expected: body\.hash: string\. Got: nothing\. GET /);
  fs.writeFileSync(at.path('agentd.json'), '{');
  const said = expect.stringMatching(/^agentd\.json is not JSON: line 1/);
  expect((await ask('GET', '/api/sessions/done')).json).toMatchObject({
    settings_problem: null,
    workspace_problem: said,
  });
});

type Listed = { name: string; plan_problem: string | null };

/** Every entry of a session's folder in turn: a folder becomes a file, and a file a folder. */
async function replaceEach(folder: string, statuses: (reply: string) => Promise<string>): Promise<void> {
  const reply = fs.readdirSync(`${folder}/outbox`).find((name) => name.endsWith('.json')) ?? '';
  const kept = resolve(folder, '../../kept');
  fs.renameSync(folder, kept);
  const entries = new Set([...fs.readdirSync(kept), 'rejected', 'approvals', 'jobs', 'session.json']);
  for (const entry of entries) {
    fs.cpSync(kept, folder, { recursive: true });
    fs.mkdirSync(`${folder}/outbox/read`, { recursive: true });
    const wasFolder =
      fs.statSync(`${folder}/${entry}`, { throwIfNoEntry: false })?.isDirectory() ?? /^[a-z]+$/.test(entry);
    fs.rmSync(`${folder}/${entry}`, { recursive: true, force: true });
    if (wasFolder) fs.writeFileSync(`${folder}/${entry}`, '');
    else fs.mkdirSync(`${folder}/${entry}`);
    expect([entry, await statuses(reply)]).toEqual([entry, expect.stringMatching(/^[24][ 0-9]+$/)]);
    fs.rmSync(folder, { recursive: true });
  }
  fs.renameSync(kept, folder);
}
