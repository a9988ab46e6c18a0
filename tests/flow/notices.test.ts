import { createHmac } from 'node:crypto';
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { createServer, type IncomingMessage } from 'node:http';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { openClient } from '../../src/client/index.ts';
import { serveHttp } from '../../src/frontends/http/index.ts';
import { NoticeBody } from '../../src/protocol/session/notice-file.ts';
import { ground, until } from '../support/daemon.ts';
import { listen } from '../support/temporary.ts';

const KEY = 'a key of the hook';

type Got = { notice: NoticeBody; signature: string | undefined; body: string };

/** A server of a hook that answers with a status, and keeps what it accepted. */
async function startHook() {
  const got: Got[] = [];
  const state = { status: 200, refused: 0 };
  const server = createServer(async (request: IncomingMessage, response) => {
    let body = '';
    for await (const piece of request) body += piece;
    if (state.status === 200)
      got.push({
        notice: NoticeBody.parse(JSON.parse(body)),
        signature: request.headers['x-agentd-signature']?.toString(),
        body,
      });
    else state.refused += 1;
    response.writeHead(state.status).end();
  });
  const port = await listen(server);
  const url = `http://127.0.0.1:${port}/hook`;
  return { url, got, state };
}

/** A workspace in which a command asks, whose notices go to a hook, with its HTTP server. */
async function asking(answers: object[]) {
  const hook = await startHook();
  const on = ground();
  const client = openClient(on.root);
  writeFileSync(join(on.root, 'script.json'), JSON.stringify(answers));
  const http = await serveHttp(client, { port: 0, complain: () => {} });
  onTestFinished(() => http.close());
  on.config({
    permissions: [{ ask: 'shell' }],
    notify: [{ webhook: hook.url, secret_env: 'HOOK_SECRET' }],
    public_url: http.url,
    senders: ['mia'],
  });
  on.sh('demo', 'mkdir inbox; echo "write it" > inbox/1.md');
  const flags = ['--model', `scripted:${join(on.root, 'script.json')}`];
  return { hook, on, start: () => on.start(flags, { HOOK_SECRET: KEY }) };
}

const WRITE = { calls: [{ name: 'shell', args: { command: 'echo "<b>a</b>" >> ran' } }] };
const kinds = (got: readonly Got[]) => got.map(({ notice }) => notice.kind);
const form = (decision: string) => ({
  method: 'POST',
  headers: { 'content-type': 'application/x-www-form-urlencoded' },
  body: `decision=${decision}`,
});

test('a waiting call is notified with a signature; its link shows that call, allows it once whatever `senders` says, and says who was first', async () => {
  const { hook, on, start } = await asking([WRITE, { text: 'Written.' }]);
  await start();
  await until(() => hook.got.length === 1, 'the notice');
  const [{ notice, signature, body }] = hook.got as [Got];
  expect(notice).toMatchObject({ kind: 'waiting', session: 'demo', call: { tool: 'shell', id: 1 } });
  expect(signature).toBe(`sha256=${createHmac('sha256', KEY).update(body).digest('hex')}`);
  const link = notice.link ?? '';
  for (let look = 0; look < 3; look += 1) {
    const page = await (await fetch(link)).text();
    expect(page).toContain('Allow this call?');
    expect(page).toContain('<a href="/#/s/demo">Open the session</a>');
    expect(page).toContain('&#60;b&#62;a&#60;/b&#62;');
    expect(page).not.toContain('<b>a</b>');
  }
  expect((await fetch(`${link.slice(0, -4)}aaaa`)).status).toBe(410);
  expect((await fetch(link, { ...form('allow'), headers: { 'content-type': 'text/plain' } })).status).toBe(415);
  expect((await fetch(link, form('perhaps'))).status).toBe(400);
  expect(existsSync(join(on.session('demo'), 'work', 'ran'))).toBe(false);
  expect(await (await fetch(link, form('allow'))).text()).toContain('Allowed by this link');
  await until(() => hook.got.length === 2, 'the end of the run');
  expect(hook.got[1]?.notice).toMatchObject({ kind: 'done', text: 'Written.' });
  expect(readFileSync(join(on.session('demo'), 'work', 'ran'), 'utf8')).toBe('<b>a</b>\n');
  expect(await (await fetch(link, form('deny'))).text()).toContain('Allowed by this link');
});

test('notices that a hook does not accept are sent after a restart, each once and in order', async () => {
  const { hook, on, start } = await asking([{ text: 'One.' }, { text: 'Two.' }]);
  hook.state.status = 500;
  const first = await start();
  await until(() => hook.state.refused > 0, 'a refused notice');
  on.sh('demo', 'echo "again" > inbox/2.md');
  const folder = join(on.root, '.agentd', 'notices');
  const files = () => readdirSync(folder).filter((name) => name.endsWith('.json'));
  await until(() => files().length === 3, 'both notices and the marks');
  await first.kill();
  hook.state.status = 200;
  for (const name of files().filter((one) => one !== 'read.json')) {
    const file = JSON.parse(readFileSync(join(folder, name), 'utf8'));
    writeFileSync(
      join(folder, name),
      JSON.stringify({ ...file, to: [{ ...file.to[0], next_at: '2026-01-01T00:00:00.000Z' }] }),
    );
  }
  await start();
  await until(() => readdirSync(folder).join() === 'read.json', 'an empty queue');
  expect(kinds(hook.got)).toEqual(['done', 'done']);
  expect(hook.got.map(({ notice }) => notice.text)).toEqual(['One.', 'Two.']);
});
