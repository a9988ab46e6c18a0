import * as fs from 'node:fs';
import { request } from 'node:http';
import { expect, test } from 'vitest';
import { setup } from '../support/agentctl.ts';
import { serveWorkspace } from './serving.ts';

function askSocket(socketPath: string, path: string): Promise<number | undefined> {
  return new Promise((done, failed) => {
    const sent = request({ socketPath, path, headers: { host: 'localhost' }, agent: false }, (answer) => {
      answer.resume();
      answer.on('end', () => done(answer.statusCode));
    });
    sent.once('error', failed);
    sent.end();
  });
}

test('a private Unix socket needs no token; the socket of a killed server is replaced, one that answers is not', async () => {
  const place = setup();
  const path = place.path('..', 'http.sock');
  const first = await serveWorkspace(place, '--socket', path);
  expect(fs.statSync(path).mode & 0o777).toBe(0o600);
  expect(await askSocket(path, '/api/sessions')).toBe(200);
  expect((await first.ask('GET', '/api/sessions', { headers: { authorization: undefined } })).status).toBe(401);
  const second = await place.ctl(['serve', '--port', '0', '--socket', path]);
  expect(second).toMatchObject({ code: 1, out: '', err: expect.stringContaining('Another server answers') });
  first.child.kill('SIGKILL');
  await first.ended;
  expect(fs.existsSync(path)).toBe(true);
  const third = await serveWorkspace(place, '--socket', path);
  expect(await askSocket(path, '/api/sessions')).toBe(200);
  third.child.kill('SIGTERM');
  expect(await third.ended).toMatchObject({ code: 0, err: '' });
  expect(fs.existsSync(path)).toBe(false);
  fs.writeFileSync(path, 'mine');
  const taken = await place.ctl(['serve', '--port', '0', '--socket', path]);
  expect(taken).toMatchObject({ code: 1, out: '', err: expect.stringContaining('is not a socket') });
  expect(fs.readFileSync(path, 'utf8')).toBe('mine');
});
