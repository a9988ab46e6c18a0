import { once } from 'node:events';
import { readdirSync, statSync } from 'node:fs';
import { connect } from 'node:net';
import { expect, test } from 'vitest';
import { OPERATIONS } from '../../src/frontends/http/server/http-app.ts';
import { setup } from '../support/agentctl.ts';
import { type Asked, serveHere, serveWorkspace } from './serving.ts';

test('refusals are problem JSON that says what was expected, what was found and what to do', async () => {
  const place = setup();
  await place.here(['send', 'demo', 'hello']);
  const { ask, token, child, ended } = await serveWorkspace(place);
  const { port } = new URL((await serveHere(place)).url);
  expect(statSync(place.path('.agentd', 'token')).mode & 0o777).toBe(0o600);
  expect(Buffer.from(token, 'base64url')).toHaveLength(32);

  const message = '/api/sessions/demo/messages';
  const text = { text: 'x' };
  const cases: Array<[status: number, method: string, path: string, asked?: Asked]> = [
    [401, 'GET', '/api/sessions', { headers: { authorization: undefined } }],
    [401, 'GET', '/api/sessions', { headers: { authorization: 'Bearer wrong' } }],
    [401, 'GET', '/api/sessions', { headers: { authorization: `Basic ${token}` } }],
    [401, 'GET', '/nothing', { headers: { authorization: undefined } }],
    [403, 'GET', '/api/sessions', { headers: { host: 'evil.example' } }],
    [403, 'GET', '/healthz', { headers: { host: `127.0.0.1.evil.example:${port}` } }],
    [403, 'GET', '/api/sessions', { headers: { origin: 'https://evil.example' } }],
    [403, 'GET', '/api/sessions', { headers: { origin: 'null' } }],
    [403, 'GET', '/api/sessions', { headers: { host: `localhost:${port}`, origin: 'http://localhost:1' } }],
    [403, 'GET', '/api/sessions', { headers: { 'sec-fetch-site': 'cross-site' } }],
    [403, 'POST', message, { body: text, headers: { 'sec-fetch-site': 'same-site', 'sec-fetch-mode': 'navigate' } }],
    [405, 'DELETE', '/api/sessions/demo'],
    [405, 'POST', '/api/sessions'],
    [405, 'PUT', '/api/sessions/demo/plan/history', { headers: { 'content-type': undefined } }],
    [415, 'POST', message, { body: text, headers: { 'content-type': 'text/plain' } }],
    [415, 'POST', message, { body: text, headers: { 'content-type': undefined } }],
    [415, 'POST', message, { body: text, headers: { 'content-encoding': 'gzip' } }],
    [415, 'POST', '/api/sessions/demo/pause', { headers: { 'content-type': undefined } }],
    [413, 'POST', message, { raw: Buffer.alloc(10 * 1024 * 1024 + 1, ' ') }],
    [413, 'POST', message, { raw: Buffer.alloc(11e6, ' '), headers: { 'transfer-encoding': 'chunked' } }],
    [400, 'POST', message, { raw: '{"text":' }],
    [400, 'POST', message, { raw: Buffer.from([0x22, 0xff, 0x22]) }],
    [400, 'POST', message, { body: { text: 'x', shout: true } }],
    [400, 'POST', message, { body: text, headers: { 'idempotency-key': '../x' } }],
    [422, 'POST', message, { body: {} }],
    [400, 'GET', '/api/sessions?limit=3'],
    [400, 'GET', '/api/sessions/demo/replies/x.msg.json?wait=51'],
    [400, 'GET', '/api/sessions/demo/replies/..%2F..%2Fplan.json'],
    [400, 'GET', '/api/sessions/demo/events?after=-1'],
    [404, 'GET', '/nothing'],
    [404, 'GET', '/api/sessions/nobody'],
    [404, 'GET', '/api/sessions/nobody/events'],
    [431, 'GET', `/api/sessions?${'x'.repeat(20_000)}`],
    [404, 'POST', '/api/sessions/nobody/pause'],
    [404, 'GET', '/api/sessions/nobody/replies/x.msg.json'],
    [404, 'PUT', '/api/sessions/demo/plan', { body: { steps: [] } }],
    [409, 'POST', '/api/sessions/demo/approvals/1', { body: { hash: '0'.repeat(64), decision: 'allow' } }],
  ];
  for (const [status, method, path, asked] of cases) {
    const answer = await ask(method, path, asked).catch((error: Error) => error);
    const what = `${method} ${path} ${JSON.stringify(asked?.headers ?? {})}`;
    // A server may close the connection before a body that is too large has been sent.
    if (answer instanceof Error) expect([what, status]).toEqual([what, 413]);
    else {
      expect([what, answer.status, answer.text]).toEqual([what, status, expect.any(String)]);
      expect(answer.headers['content-type'], what).toBe('application/problem+json');
      const part = expect.stringMatching(/./);
      expect(answer.json, what).toMatchObject({
        status,
        title: part,
        detail: part,
        wanted: part,
        came: part,
        do: part,
      });
    }
  }
  const slip = (await ask('POST', message, { body: { txt: 'x' } })).json;
  expect([slip['wanted'], slip['came']]).toEqual(['body: no key "txt"; did you mean "text"?', '{"txt":"x"}']);
  for (const [path, flag] of Object.entries({ '/v1/models': '--openai', '/mcp': '--mcp', '/ag-ui/demo': '--ag-ui' }))
    expect((await ask('GET', path)).json['do'], path).toContain(`agentctl serve ${flag}`);
  const own = { headers: { host: `localhost:${port}`, origin: `http://localhost:${port}` } };
  expect((await ask('GET', '/api/sessions', own)).status).toBe(200);
  expect((await ask('GET', '/api/sessions', { headers: { host: `[::1]:${port}` } })).status).toBe(200);
  const page = { headers: { 'sec-fetch-site': 'same-origin' } };
  expect((await ask('GET', '/api/sessions', page)).status).toBe(200);
  const link = { headers: { 'sec-fetch-site': 'cross-site', 'sec-fetch-mode': 'navigate' } };
  expect((await ask('GET', '/api/sessions', link)).status).toBe(200);
  child.kill('SIGINT');
  expect(await ended).toMatchObject({ code: 0, err: '' });
});

test('a caller that disconnects in the middle of a body is not reported as a server error and leaves nothing behind', async () => {
  const place = setup();
  await place.here(['send', 'demo', 'hello']);
  const { url, token, ask, close } = await serveHere(place, 'openai', 'mcp', 'ag-ui');
  const json = ['/api/sessions/demo/messages', '/login', '/v1/responses', '/mcp', '/ag-ui'];
  const paths = [...json.map((path) => [path, 'json']), ['/api/sessions/demo/uploads?name=a.bin', 'octet-stream']];
  for (const [path, type] of paths)
    for (const length of ['content-length: 100', 'transfer-encoding: chunked']) {
      const socket = connect(Number(new URL(url).port), '127.0.0.1');
      const head = [
        `POST ${path} HTTP/1.1`,
        'host: localhost',
        `authorization: Bearer ${token}`,
        'expect: 100-continue',
      ];
      socket.write(`${[...head, `content-type: application/${type}`, length].join('\r\n')}\r\n\r\n`);
      // The request has arrived once the server asks for the body.
      expect(String((await once(socket, 'data'))[0])).toContain('100 Continue');
      socket.write('5\r\n{"a":\r\n', () => socket.resetAndDestroy());
      await once(socket, 'close');
      expect((await ask('GET', '/api/sessions')).status).toBe(200);
    }
  await close();
  expect(readdirSync(place.path('.sessions', 'demo', 'inbox', '.files'))).toEqual([]);
});

test('a request without a path or host gets a problem, and one whose sender has closed its side gets its answer', async () => {
  const { url } = await serveHere(setup());
  const say = async (lines: string[]): Promise<string> => {
    const socket = connect({ port: Number(new URL(url).port), host: '127.0.0.1', allowHalfOpen: true });
    socket.end(`${lines.join('\r\n')}\r\n\r\n`);
    return Buffer.concat(await socket.toArray()).toString();
  };
  for (const lines of [['GET /healthz HTTP/1.0'], ['OPTIONS * HTTP/1.1', 'host: localhost', 'connection: close']])
    expect(await say(lines)).toMatch(/^HTTP\/1\.1 400[\s\S]*application\/problem\+json[\s\S]*"wanted"/);
  const page = ['GET / HTTP/1.1', 'host: localhost', 'connection: close'];
  expect(await say(page)).toMatch(/^HTTP\/1\.1 200[\s\S]*<\/html>/);
});

test('openapi.json describes every operation and needs no token; a port in use is reported', async () => {
  const place = setup();
  const { ask, url } = await serveHere(place);
  const { status, json } = await ask('GET', '/openapi.json', { headers: { authorization: undefined } });
  expect(status).toBe(200);
  const described = Object.entries(json['paths'] as Record<string, object>).flatMap(([path, methods]) =>
    Object.keys(methods).map((method) => `${method} ${path}`),
  );
  expect(described.sort()).toEqual(OPERATIONS.map(({ method, path }) => `${method} ${path}`).sort());
  // The document says why requests are refused: a write without a body has no content type.
  const bodies = Object.values(json['paths'] as Record<string, { post?: { requestBody?: object } }>).flatMap(
    ({ post }) => (post?.requestBody ? [post.requestBody] : []),
  );
  expect(bodies.length).toBeGreaterThan(5);
  expect(bodies.filter((body) => !('required' in body && body.required === true))).toEqual([]);
  expect(JSON.stringify(bodies)).toContain('"anyOf":[{"required":["text"]},{"required":["command"]}');
  // The limits of a message are in its schema.
  expect(/"steps":\{[^{}]*"maximum":1000,/.test(JSON.stringify(json))).toBe(true);
  const taken = await place.ctl(['serve', '--port', new URL(url).port]);
  expect(taken).toMatchObject({ code: 1, out: '' });
  expect(taken.err).toContain('is in use by another process');
  expect(await place.ctl(['serve', '--port', '70000'])).toMatchObject({ code: 2, out: '' });
});

test('a TLS proxy must be named; other hosts are refused with the ways to reach the server', async () => {
  const place = setup();
  const elsewhere = await place.here(['serve', '--host', '0.0.0.0']);
  expect(elsewhere).toMatchObject({ code: 2, out: '' });
  expect(elsewhere.err).toMatch(/ssh -L[\s\S]*tailscale serve[\s\S]*--allow-host/);
  expect((await place.here(['serve', '--allow-host', 'https://a.example'])).err).toContain('takes a name such as');

  const { ask, token } = await serveWorkspace(place, '--allow-host', 'Agentd.example', '--allow-host', 'b.example');
  const from = (host: string, origin?: string) => ask('GET', '/api/sessions', { headers: { host, origin } });
  expect((await from('agentd.example', 'https://agentd.example')).status).toBe(200);
  expect((await from('b.example:8443', 'https://b.example:8443')).status).toBe(200);
  // As passed on by a proxy that does not keep the host name.
  expect((await from('127.0.0.1:8377', 'https://agentd.example')).status).toBe(200);
  expect((await from('evil.example', 'https://agentd.example')).status).toBe(403);
  expect((await from('agentd.example', 'https://agentd.example.evil.example')).status).toBe(403);
  for (const origin of ['https://evil.example', 'http://agentd.example'])
    expect(await from('agentd.example', origin)).toMatchObject({ status: 403, json: { came: `Origin "${origin}"` } });
  const login = (origin: string, host: string) =>
    ask('POST', '/login', { body: { token }, headers: { origin, host, authorization: undefined } });
  expect(String((await login('https://b.example', 'b.example')).headers['set-cookie'])).toMatch(/; Secure$/);
  expect(String((await login('http://localhost:1', 'localhost:1')).headers['set-cookie'])).not.toContain('Secure');
});
