import { spawn } from 'node:child_process';
import { chmodSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { openClient } from '../../src/client/index.ts';
import { serveHttp } from '../../src/frontends/http/index.ts';
import { ask } from '../http/serving.ts';
import { type Setup, setup } from '../support/agentctl.ts';

async function serveHere({ root }: Setup): Promise<{ url: string; token: string }> {
  const client = openClient(root);
  const server = await serveHttp(client, { port: 0, complain: (text) => expect.soft(text).toBe('') });
  onTestFinished(() => server.close());
  return { url: server.url, token: await client.accessToken() };
}

test('agentctl open sends the token only to a server of its workspace, and the browser gets a code that logs in once', async () => {
  const [place, other] = [setup(), setup()];
  const { url, token } = await serveHere(place);
  const { port } = new URL(url);
  const printed = await place.here(['open', '--print', '--port', port]);
  expect(printed).toEqual({ code: 0, out: `${url}/#token=${token}\n`, err: '' });

  const its = await serveHere(other);
  const refused = await place.here(['open', '--print', '--port', new URL(its.url).port]);
  expect(refused).toMatchObject({ code: 1, out: '', err: expect.stringContaining('not a server of the workspace') });
  const nobody = await place.here(['open', '--print', '--port', '1']);
  expect(nobody).toMatchObject({
    code: 1,
    out: '',
    err: expect.stringContaining(`Start one: agentctl serve --workspace ${place.root}`),
  });

  const opener = place.path('..', 'bin');
  mkdirSync(opener);
  writeFileSync(`${opener}/xdg-open`, `#!/bin/sh\nprintf %s "$1" > ${place.path('opened')}\n`);
  chmodSync(`${opener}/xdg-open`, 0o755);
  const words = [resolve('dist/agentctl.js'), '--workspace', place.root, 'open', '--port', port];
  const child = spawn(process.execPath, words, { env: { PATH: `${opener}:${process.env['PATH']}` }, stdio: 'ignore' });
  expect(await new Promise((done) => child.once('close', done))).toBe(0);
  await place.has('opened');
  await expect.poll(() => readFileSync(place.path('opened'), 'utf8'), { timeout: 10_000 }).toContain('#token=');
  const opened = readFileSync(place.path('opened'), 'utf8');
  expect(opened).not.toContain(token);
  const body = { token: opened.split('#token=')[1] };
  const logIn = async () => (await ask(url, '', 'POST', '/login', { body })).status;
  expect([await logIn(), await logIn()]).toEqual([200, 401]);
  const [until, nonce, proof] = body.token?.split('.') ?? [];
  const later = { token: `${Number(until) + 60_000}.${nonce}.${proof}` };
  expect((await ask(url, '', 'POST', '/login', { body: later })).status).toBe(401);
});
