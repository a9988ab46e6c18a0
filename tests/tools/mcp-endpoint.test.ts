import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { expect, onTestFinished, test } from 'vitest';
import { listen } from '../support/temporary.ts';
import { mcpSetup, reference } from './mcp-setup.ts';
import { eventually } from './tool-setup.ts';

/** server-everything on a port of the loopback; ends with the test. */
async function everything(way: 'streamableHttp' | 'sse', port = 0) {
  const { command, args } = reference('everything', way);
  for (let tries = 1; ; tries++) {
    const at = port || (await freePort());
    const child = spawn(command, args, { env: { PATH: process.env['PATH'], PORT: String(at) }, stdio: 'pipe' });
    onTestFinished(() => void child.kill('SIGKILL'));
    let output = '';
    const listens = await new Promise<boolean>((settle) => {
      for (const stream of [child.stdout, child.stderr]) {
        stream.on('data', (data: Buffer) => {
          output += data.toString();
          if (/listening on|running on port/i.test(output)) settle(true);
        });
      }
      child.once('exit', () => settle(false));
    });
    const url = `http://127.0.0.1:${at}/${way === 'sse' ? 'sse' : 'mcp'}`;
    if (listens) return { port: at, child, url, posts: () => output.split('Received MCP POST request').length - 1 };
    // Somebody else may have taken the port in the meantime.
    if (tries === 5) throw new Error(`the server does not start: ${output}`);
  }
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, 'close');
  return port;
}

/** An endpoint that handles each request's message with a given function. */
async function endpoint(
  answer: (message: { id?: number; method: string }, to: ServerResponse, from: IncomingMessage) => void,
) {
  const server = createServer((from, to) => {
    let body = '';
    from.on('data', (data: Buffer) => {
      body += data.toString();
    });
    from.on('end', () => answer(body === '' ? { method: from.method ?? '' } : JSON.parse(body), to, from));
  });
  const port = await listen(server);
  return `http://127.0.0.1:${port}/mcp`;
}

const WELCOME = { protocolVersion: '2025-06-18', capabilities: { tools: {} }, serverInfo: { name: 'x', version: '1' } };
const json = (to: ServerResponse, id: number | undefined, result: unknown) =>
  to.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify({ jsonrpc: '2.0', id, result }));

test('server-everything answers over streamable HTTP, and after its restart as well', async () => {
  const first = await everything('streamableHttp');
  const at = mcpSetup({ web: { url: first.url } });
  expect(await at.use('mcp__web__echo', { message: 'one' })).toEqual({ ok: true, text: 'Echo: one' });
  first.child.kill('SIGKILL');
  await once(first.child, 'exit');
  expect(await at.use('mcp__web__echo', { message: 'gone' })).toMatchObject({
    ok: false,
    text: expect.stringMatching(/was not reached, the call did not run/),
  });
  await everything('streamableHttp', first.port);
  await eventually(() => at.logged.length > 0);
  await expect
    .poll(async () => (await at.use('mcp__web__echo', { message: 'two' })).text, { timeout: 30_000 })
    .toBe('Echo: two');
});

test('a session unknown to the server is started again, and the call runs once', async () => {
  const first = await everything('streamableHttp');
  const at = mcpSetup({ web: { url: first.url } });
  await at.ready();
  first.child.kill('SIGKILL');
  await once(first.child, 'exit');
  await everything('streamableHttp', first.port);
  expect(await at.use('mcp__web__echo', { message: 'again' })).toEqual({ ok: true, text: 'Echo: again' });
});

test('for an endpoint that speaks only SSE, the notice says what to do', async () => {
  const { url } = await everything('sse');
  const at = mcpSetup({ old: { url } });
  expect((await at.ready()).join('\n')).toMatch(/`old` is not connected.*404.*\/mcp where SSE has \/sse.*`command`/s);
});

test('a server that dies in the middle of a call over HTTP is reported at once', async () => {
  const { url, child, posts } = await everything('streamableHttp');
  const at = mcpSetup({ web: { url } });
  await at.ready();
  const before = posts();
  const call = at.use('mcp__web__trigger-long-running-operation', { duration: 60, steps: 600 });
  await eventually(() => posts() > before);
  child.kill('SIGKILL');
  expect(await call).toMatchObject({ ok: false, text: expect.stringMatching(/may or may not have run/) });
});

test('headers are sent, with what the environment holds, and are in no error', async () => {
  const seen: unknown[] = [];
  const url = await endpoint((message, to, from) => {
    seen.push(from.headers.authorization);
    if (message.method === 'initialize') json(to, message.id, WELCOME);
    else if (message.method === 'tools/list')
      json(to, message.id, { tools: [{ name: 'peek', inputSchema: { type: 'object' } }] });
    else if (message.id === undefined) to.writeHead(message.method === 'GET' ? 405 : 202).end();
    else to.writeHead(500).end(`no way with ${from.headers.authorization}`);
  });
  const env = { PATH: process.env['PATH'], TOKEN: 'swordfish-77' };
  const settings = { url: `${url}?key=sunflower-5`, headers: { Authorization: `Bearer \${${'TOKEN'}}` } };
  const at = mcpSetup({ web: settings }, { env });
  const { ok, text } = await at.use('mcp__web__peek');
  expect(seen[0]).toBe('Bearer swordfish-77');
  expect(ok).toBe(false);
  expect([text, ...at.logged].join('\n')).toMatch(/no way with .*\[hidden\]/);
  expect([text, ...at.logged].join('\n')).not.toMatch(/swordfish|sunflower/);
});

test('an endpoint that wants a token says so, and one that is away is named', async () => {
  const closed = await endpoint((_, to) => to.writeHead(401).end());
  const at = mcpSetup({
    closed: { url: closed },
    // No system assigns this port automatically.
    away: { url: 'http://127.0.0.1:2/mcp' },
    odd: { url: 'nowhere' },
  });
  const notices = (await at.ready()).join('\n');
  expect(notices).toMatch(/`closed` is not connected.*401.*`headers`/);
  expect(notices).toMatch(/`away` is not connected.*ECONNREFUSED/);
  expect(notices).toMatch(/`odd` is not connected.*mcpServers\.odd\.url/);
});

test('an endpoint of the stateless version is asked without a session, and gets the headers that a tool declares', async () => {
  const seen: Array<Record<string, unknown>> = [];
  const city = { type: 'string', 'x-mcp-header': 'City' };
  const tools = [
    { name: 'peek', inputSchema: { type: 'object', properties: { city } } },
    { name: 'bad', inputSchema: { type: 'object', properties: { city: { ...city, 'x-mcp-header': 'a b' } } } },
  ];
  const complete = { resultType: 'complete', ttlMs: 0, cacheScope: 'private' };
  const url = await endpoint((message, to, { headers }) => {
    seen.push({ method: message.method, ...headers });
    if (message.method === 'server/discover')
      json(to, message.id, { ...complete, supportedVersions: ['2026-07-28'], capabilities: { tools: {} } });
    else if (message.method === 'tools/list') json(to, message.id, { ...complete, tools });
    else if (message.method === 'tools/call')
      json(to, message.id, { ...complete, content: [{ type: 'text', text: 'here' }] });
    else to.writeHead(404).end();
  });
  const at = mcpSetup({ web: { url } });
  expect(await at.use('mcp__web__peek', { city: 'Oslo' })).toEqual({ ok: true, text: 'here' });
  expect(at.offered()).toEqual(['mcp__web__peek']);
  expect(seen.map(({ method }) => method)).toEqual(['server/discover', 'tools/list', 'tools/call']);
  expect(seen[2]).toMatchObject({
    'mcp-protocol-version': '2026-07-28',
    'mcp-method': 'tools/call',
    'mcp-param-city': 'Oslo',
  });
  expect(seen.some((one) => 'mcp-session-id' in one)).toBe(false);
});

test('an endpoint that answers 500 to what it does not know is greeted as before', async () => {
  const url = await endpoint((message, to) => {
    if (message.method === 'initialize') json(to, message.id, WELCOME);
    else if (message.method === 'tools/list') json(to, message.id, { tools: [{ name: 'a' }] });
    else to.writeHead(message.id === undefined ? 202 : 500).end();
  });
  const at = mcpSetup({ web: { url } });
  await at.ready();
  expect(at.offered()).toEqual(['mcp__web__a']);
});

test('an endpoint that speaks neither version says so', async () => {
  const url = await endpoint(({ id }, to) =>
    to
      .writeHead(200, { 'content-type': 'application/json' })
      .end(JSON.stringify({ jsonrpc: '2.0', id, error: { code: -32601, message: 'I know nothing' } })),
  );
  expect((await mcpSetup({ web: { url } }).ready()).join()).toMatch(/`web` is not connected.*I know nothing/);
});

test('an excessively large answer fails the call, not the daemon', async () => {
  const url = await endpoint((message, to) => {
    if (message.method === 'initialize') json(to, message.id, WELCOME);
    else if (message.method === 'tools/list') json(to, message.id, { tools: [{ name: 'flood' }] });
    else if (message.id === undefined) to.writeHead(message.method === 'GET' ? 405 : 202).end();
    else {
      to.writeHead(200, { 'content-type': 'text/event-stream' });
      const more = () => {
        while (!to.destroyed && to.write('x'.repeat(65_536)));
      };
      to.on('drain', more);
      to.write('data: ');
      more();
    }
  });
  const at = mcpSetup({ web: { url } });
  expect(await at.use('mcp__web__flood')).toMatchObject({
    ok: false,
    text: expect.stringMatching(/may or may not have run/),
  });
});

test('an endpoint that redirects elsewhere gets no second request, and its headers are sent nowhere else', async () => {
  const seen: Array<string | undefined> = [];
  const elsewhere = await endpoint((message, to, from) => {
    seen.push(from.headers.authorization);
    json(to, message.id, message.method === 'tools/list' ? { tools: [] } : WELCOME);
  });
  for (const status of [302, 307]) {
    const front = await endpoint((_, to) => to.writeHead(status, { location: elsewhere }).end());
    const at = mcpSetup({ web: { url: front, headers: { Authorization: 'Bearer swordfish-77' } } });
    expect((await at.ready()).join()).toContain(`Redirect to ${elsewhere} not followed`);
  }
  expect(seen).toEqual([]);
});

test('a redirect within the same origin is followed if it keeps the method', async () => {
  const url = await endpoint((message, to, from) => {
    if (from.url === '/mcp') to.writeHead(307, { location: '/new' }).end();
    else if (message.id === undefined) to.writeHead(202).end();
    else if (message.method === 'tools/list')
      json(to, message.id, { tools: [{ name: 'a', inputSchema: { type: 'object' } }] });
    else json(to, message.id, WELCOME);
  });
  const at = mcpSetup({ web: { url } });
  await at.ready();
  expect(at.offered()).toEqual(['mcp__web__a']);
});
