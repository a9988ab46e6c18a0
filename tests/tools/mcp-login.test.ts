import { chmodSync, chownSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { logIn } from '../../src/tools/mcp/mcp-login.ts';
import { listen } from '../support/temporary.ts';
import { mcpSetup } from './mcp-setup.ts';

type Answer = (path: string, body: string, to: ServerResponse, from: IncomingMessage) => boolean | undefined;

/** A server that wants a login, and beside it its authorization server, on one port. `other` may answer first. */
async function guarded(other: Answer = () => false) {
  const state = { access: 'none yet', refresh: 'none yet', refreshes: 0, registered: {} as Record<string, unknown> };
  const server = createServer(async (from, to) => {
    const body = Buffer.concat(await from.toArray()).toString();
    const { pathname: path, searchParams: query } = new URL(from.url ?? '', base);
    const json = (value: object, status = 200) =>
      to.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(value));
    if (other(path, body, to, from)) return;
    if (path === '/.well-known/oauth-protected-resource/mcp')
      json({ resource: `${base}/mcp`, authorization_servers: [base], scopes_supported: ['tickets'] });
    else if (path === '/.well-known/oauth-authorization-server')
      json({
        ...{ issuer: base, authorization_endpoint: `${base}/authorize`, token_endpoint: `${base}/token` },
        ...{ registration_endpoint: `${base}/register`, response_types_supported: ['code'] },
        ...{ code_challenge_methods_supported: ['S256'], token_endpoint_auth_methods_supported: ['none'] },
      });
    else if (path === '/register') {
      state.registered = JSON.parse(body);
      json({ ...state.registered, client_id: 'client-1' }, 201);
    } else if (path === '/authorize') {
      const back = new URL(query.get('redirect_uri') ?? '');
      back.search = new URLSearchParams({ code: 'code-1', state: query.get('state') ?? '' }).toString();
      to.writeHead(302, { location: back.href }).end();
    } else if (path === '/token') {
      const form = new URLSearchParams(body);
      const isCode = form.get('code') === 'code-1' && form.get('code_verifier') !== null;
      const isRefresh = form.get('refresh_token') === state.refresh;
      if (!isCode && !isRefresh) {
        json({ error: 'invalid_grant' }, 400);
        return;
      }
      if (isRefresh) state.refreshes += 1;
      state.access = `access-secret-${state.refreshes}`;
      state.refresh = `refresh-secret-${state.refreshes}`;
      json({ access_token: state.access, refresh_token: state.refresh, token_type: 'Bearer', expires_in: 3600 });
    } else if (from.headers.authorization !== `Bearer ${state.access}`) {
      const where = `Bearer resource_metadata="${base}/.well-known/oauth-protected-resource/mcp"`;
      to.writeHead(401, { 'www-authenticate': where }).end(`not with ${from.headers.authorization}`);
    } else answerCall(JSON.parse(body || '{}'), to, json);
  });
  const base = `http://127.0.0.1:${await listen(server)}`;
  return { url: `${base}/mcp`, state };
}

function answerCall(
  { id, method }: { id?: number; method?: string },
  to: ServerResponse,
  json: (value: object) => unknown,
) {
  const results: Record<string, object> = {
    initialize: { protocolVersion: '2025-11-25', capabilities: { tools: {} }, serverInfo: { name: 'x', version: '1' } },
    'tools/list': { tools: [{ name: 'peek', inputSchema: { type: 'object' } }] },
    'tools/call': { content: [{ type: 'text', text: 'inside' }] },
  };
  const result = results[method ?? ''];
  if (result) json({ jsonrpc: '2.0', id, result });
  else if (id === undefined) to.writeHead(method === undefined ? 405 : 202).end();
  else json({ jsonrpc: '2.0', id, error: { code: -32_601, message: 'Method not found' } });
}

/** A session with the server `web`, and how a person logs in at it: the browser follows the address at once. */
async function withLogin(other?: Answer) {
  const server = await guarded(other);
  const at = mcpSetup({});
  const folder = join(at.root, 'logins');
  const open = () => mcpSetup({ web: { url: server.url } }, { logins: folder });
  const target = { name: 'web', url: new URL(server.url), headers: {}, folder };
  const browse = (options: object = {}) =>
    logIn(target, { show: (url) => void fetch(url).catch(() => undefined), ...options });
  return { ...server, folder, open, browse, target };
}

test('a login in the browser is stored for its owner alone, used by all sessions, and refreshed once', async () => {
  const { open, browse, folder, state } = await withLogin();
  const before = open();
  expect((await before.ready()).join()).toMatch(/`web` is not connected.*401.*`agentctl mcp login web`/);
  const file = await browse();
  expect(state.registered).toMatchObject({
    client_name: 'agentd',
    grant_types: ['authorization_code', 'refresh_token'],
  });
  expect([statSync(file).mode & 0o777, statSync(folder).mode & 0o777, readdirSync(folder).length]).toEqual([
    0o600, 0o700, 1,
  ]);
  const [one, two] = [open(), open()];
  for (const at of [one, two]) expect(await at.use('mcp__web__peek')).toEqual({ ok: true, text: 'inside' });
  state.access = 'expired meanwhile';
  const both = await Promise.all([one, two].map((at) => at.use('mcp__web__peek')));
  expect(both).toEqual([
    { ok: true, text: 'inside' },
    { ok: true, text: 'inside' },
  ]);
  expect(state.refreshes).toBe(1);
  expect(readFileSync(file, 'utf8')).toContain('access-secret-1');
  expect([before, one, two].flatMap(({ logged }) => logged).join()).not.toContain('secret');
});

test('a login that can no longer be refreshed has ended, and says what to do', async () => {
  const { open, browse, state } = await withLogin();
  await browse();
  Object.assign(state, { access: 'another', refresh: 'another' });
  expect((await open().ready()).join()).toMatch(
    /`web` is not connected.*its login has ended.*`agentctl mcp login web`/,
  );
  await browse();
  expect((await open().use('mcp__web__peek')).text).toBe('inside');
});

test('an authorization server that never answers ends the login, and one that refuses is quoted', async () => {
  const silent = await withLogin((path) => path === '/.well-known/oauth-authorization-server');
  await expect(silent.browse({ answerMs: 200 })).rejects.toThrow(
    /web: the login did not succeed.*gave no answer in 0\.2 s/,
  );
  const refusing = await withLogin((path, _, to, from) => {
    if (path !== '/authorize') return false;
    const query = new URL(from.url ?? '', 'http://x').searchParams;
    const words = { error: 'access_denied', error_description: 'not today', state: query.get('state') ?? '' };
    to.writeHead(302, { location: `${query.get('redirect_uri')}?${new URLSearchParams(words)}` }).end();
    return true;
  });
  await expect(refusing.browse()).rejects.toThrow('The login was refused: not today');
});

test('an answer to another login is none; an address from another machine can be pasted', async () => {
  const { browse } = await withLogin();
  const statuses: number[] = [];
  let paste: (address: string) => void = () => {};
  const show = async (url: string) => {
    const back = new URL(new URL(url).searchParams.get('redirect_uri') ?? '');
    back.search = 'code=stolen&state=guessed';
    statuses.push((await fetch(back)).status);
    const { headers } = await fetch(url, { redirect: 'manual' });
    paste(headers.get('location') ?? '');
  };
  const pasted = new Promise<string>((resolve) => {
    paste = resolve;
  });
  await browse({ show, pasted });
  expect(statuses).toEqual([404]);
});

test('a server that asks for no login gets none', async () => {
  const { browse } = await withLogin((path, _, to) => {
    if (path !== '/mcp') return false;
    to.writeHead(200).end();
    return true;
  });
  await expect(browse()).rejects.toThrow('web asks for no login: without one it answered HTTP 200');
});

test('a file that others may read, or that is theirs, is not used', async () => {
  const { open, browse } = await withLogin();
  const file = await browse();
  chmodSync(file, 0o644);
  expect((await open().ready()).join()).toMatch(/may be read by others \(mode 644\).*Remove it, and log in again/);
  chmodSync(file, 0o600);
  if (process.getuid?.() !== 0) return;
  chownSync(file, 65_534, 65_534);
  expect((await open().ready()).join()).toMatch(/belongs to another user \(65534\)/);
});
