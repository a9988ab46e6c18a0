import * as fs from 'node:fs';
import { expect, test } from 'vitest';
import { type AccessTokens, openAccessTokens } from '../../src/client/actions/access.ts';
import { workspacePaths } from '../../src/store/layout/layout.ts';
import { type Setup, script, setup } from '../support/agentctl.ts';
import { type Serving, serveWorkspace } from './serving.ts';

type NewToken = Parameters<AccessTokens['add']>[0];

async function addToken(
  place: Setup,
  name: string,
  role: NewToken['role'],
  ...sessions: string[]
): Promise<{ token: string; headers: { authorization: string } }> {
  const token = await openAccessTokens(workspacePaths(place.root)).add({ name, role, sessions });
  return { token, headers: { authorization: `Bearer ${token}` } };
}

/** The headers of a logged-in page. */
async function logInPage({ ask }: Serving, token: string) {
  const { status, headers, json } = await ask('POST', '/login', {
    body: { token },
    headers: { authorization: undefined },
  });
  if (status !== 200) throw new Error(`login: ${status}`);
  const cookie = /^[^;]+/.exec(String(headers['set-cookie']))?.[0];
  return { headers: { authorization: undefined, cookie, 'x-agentd-page': String(json['key']) } };
}

test('a token allows what its role says, in the sessions it may see; other sessions do not exist for it', async () => {
  const place = setup();
  fs.mkdirSync(place.root, { mode: 0o700 });
  fs.writeFileSync(place.path('agentd.json'), '{ "sandbox": "none", "permissions": [{ "ask": "shell" }] }');
  const call = { calls: [{ name: 'shell', args: { command: 'echo hi' } }] };
  const server = await serveWorkspace(place, '--openai');
  const { ask } = server;
  await place.serveHere('--model', script(place, [call, { text: 'Done.' }]));
  const [reader, sender, approver, admin] = [
    await addToken(place, 'rae', 'read', 'team-*', 'demo'),
    await addToken(place, 'sam', 'send', 'team-*'),
    await addToken(place, 'ana', 'approve', 'team-*'),
    await addToken(place, 'bo', 'admin', '*'),
  ];
  await ask('POST', '/api/sessions/secret/uploads?name=x', {
    raw: 'x',
    headers: { 'content-type': 'application/octet-stream' },
  });

  const messages = '/api/sessions/team-a/messages';
  const sent = await ask('POST', messages, { ...sender, body: { text: 'Say hi' } });
  expect(sent.status).toBe(202);
  await place.replied('team-a');
  const received = await place.here(['log', 'team-a', '--json']);
  expect(received.out).toContain('"from":"sam"');
  const forged = await ask('POST', messages, { ...sender, body: { text: 'x', from: 'ana' } });
  expect(forged).toMatchObject({ status: 403, json: { wanted: expect.stringContaining('"sam"') } });

  const sessionsOf = async (user: object) =>
    JSON.parse((await ask('GET', '/api/sessions', user)).text).map(({ name }: { name: string }) => name);
  expect(await sessionsOf(sender)).toEqual(['team-a']);
  expect(await sessionsOf(admin)).toEqual(['secret', 'team-a']);
  const page = await logInPage(server, sender.token);
  expect(await sessionsOf(page)).toEqual(['team-a']);
  const own = await logInPage(server, server.token);
  expect(await sessionsOf(own)).toEqual(['secret', 'team-a']);
  const mixed = { headers: { ...page.headers, cookie: own.headers.cookie } };
  expect((await ask('GET', '/api/sessions', mixed)).status).toBe(401);
  const counted = (await ask('GET', '/api/usage', sender)).json['sessions'] as Array<{ session: string }>;
  expect(counted.map(({ session }) => session)).toEqual(['team-a']);
  expect((await ask('GET', '/api/usage?session=secret', sender)).status).toBe(404);
  const models = await ask('GET', '/v1/models', sender);
  expect([models.text.includes('team-a'), models.text.includes('secret')]).toEqual([true, false]);
  const read = ['', '/plan', '/plan/history', '/events', '/files', '/files/uploads/x', '/approvals', '/why'];
  const hidden: Array<[method: string, path: string, body?: object]> = [
    ...read.map((path): [string, string] => ['GET', path]),
    ['POST', '/pause'],
    ['POST', '/messages', { text: 'x' }],
    ['PUT', '/plan', { steps: [] }],
  ];
  for (const [method, path, body] of hidden) {
    const answer = await ask(method, `/api/sessions/secret${path}`, { ...sender, body });
    expect([path, answer.status, answer.text]).toEqual([path, 404, expect.stringContaining('Known: team-a.')]);
  }
  // A key with the same folder is the same session, and a new session needs a name that the token may see.
  for (const name of ['SECRET', '=73ecret', 'new'])
    expect((await ask('POST', `/api/sessions/${name}/messages`, { ...sender, body: { text: 'x' } })).status).toBe(404);

  const forbidden: Array<[user: object, role: string, method: string, path: string, body?: object]> = [
    [reader, 'send', 'POST', '/messages', { text: 'Go on with it' }],
    [reader, 'send', 'POST', '/pause'],
    [reader, 'send', 'PUT', '/plan', { steps: [] }],
    [sender, 'approve', 'POST', '/approvals/1', { hash: '0'.repeat(64), decision: 'allow' }],
    [sender, 'approve', 'POST', '/messages', { command: 'approve', text: '1' }],
    [sender, 'approve', 'POST', '/messages', { text: 'yes' }],
    [sender, 'approve', 'POST', '/messages', { text: '/approve 1' }],
    [sender, 'approve', 'POST', '/continue', { note: 'yes' }],
  ];
  for (const [user, role, method, path, body] of forbidden) {
    const answer = await ask(method, `/api/sessions/team-a${path}`, { ...user, body });
    expect([path, body, answer.status, answer.json['wanted']]).toEqual([
      path,
      body,
      403,
      `a token with the role "${role}"`,
    ]);
  }
  const chat = { model: 'agentd/team-a', messages: [{ role: 'user', content: 'yes' }] };
  expect((await ask('POST', '/v1/chat/completions', { ...sender, body: chat })).status).toBe(403);
  const [waiting] = JSON.parse((await ask('GET', '/api/sessions/team-a/approvals', reader)).text);
  const body = { hash: waiting.hash, decision: 'allow' };
  expect((await ask('POST', '/api/sessions/team-a/approvals/1', { ...approver, body })).status).toBe(202);
  const reply = await ask('GET', `/api/sessions/team-a/replies/${String(sent.json['reply'])}?wait=30`, reader);
  expect(reply.status).toBe(200);

  const stream = await fetch(`${server.url}/api/sessions/team-a/events?after=0`, sender);
  await openAccessTokens(workspacePaths(place.root)).remove('sam');
  await ask('POST', messages, { body: { text: 'Say more' } });
  expect([stream.status, (await stream.text()).includes('Say more')]).toEqual([200, false]);
});

test("while a session asks about a child's call, a message that would answer it needs the role approve", async () => {
  const place = setup();
  fs.mkdirSync(place.root, { mode: 0o700 });
  fs.writeFileSync(
    place.path('agentd.json'),
    '{ "sandbox": "none", "permissions": [{ "ask": "shell" }, { "allow": "spawn" }] }',
  );
  const spawn = { calls: [{ name: 'spawn', args: { task: 'say hi' } }] };
  const call = { calls: [{ name: 'shell', args: { command: 'echo hi' } }] };
  const { ask } = await serveWorkspace(place);
  await place.serveHere('--model', script(place, [spawn, call, { text: 'Done.' }]));
  const sender = await addToken(place, 'sam', 'send', '*');
  const approver = await addToken(place, 'ana', 'approve', '*');
  const messages = '/api/sessions/demo/messages';
  await ask('POST', messages, { ...sender, body: { text: 'Say hi' } });
  await place.replied('demo');
  for (const body of [{ text: 'yes' }, { text: 'Use another way' }, { command: 'deny', text: 'demo~step_1' }])
    expect([body, (await ask('POST', messages, { ...sender, body })).status]).toEqual([body, 403]);
  expect((await ask('POST', messages, { ...approver, body: { text: 'yes' } })).status).toBe(202);
});

test("tokens are stored as hashes in a private file that is reloaded; while it is invalid, only the owner's token works", async () => {
  const place = setup();
  const file = place.path('.agentd', 'tokens.json');
  const server = await serveWorkspace(place);
  const { ask, child, ended } = server;
  const logIn = (token: string) => logInPage(server, token);
  const added = await place.here(['token', 'add', 'ana', '--sessions', 'a-*', '--sessions', 'demo']);
  expect(added).toMatchObject({ code: 0, err: expect.stringContaining('shown once') });
  const ana = { headers: { authorization: `Bearer ${added.out.trim()}` } };
  expect(fs.statSync(file).mode & 0o777).toBe(0o600);
  expect(fs.readFileSync(file, 'utf8')).not.toContain(added.out.trim());
  expect((await place.here(['token', 'list'])).out).toMatch(/^ana +send +a-\* demo +\d{4}-/);
  await expect(addToken(place, 'ana', 'send', '*')).rejects.toThrow('already a token for ana');
  await expect(addToken(place, 'a b', 'send', '*')).rejects.toThrow('expected a name of letters');
  expect(await place.here(['token', 'add'])).toMatchObject({ code: 2, out: '' });
  expect((await ask('GET', '/api/sessions', ana)).status).toBe(200);
  const tokens = fs.readFileSync(file, 'utf8');

  const broken = [tokens.replace('send', 'king'), '{', tokens.replace('"name"', '"nmae"')];
  for (const text of broken) {
    fs.writeFileSync(file, text);
    const refused = await ask('GET', '/api/sessions', ana);
    expect(refused).toMatchObject({ status: 401, json: { came: expect.stringContaining('tokens.json is invalid') } });
    expect((await ask('GET', '/api/sessions')).status).toBe(200);
  }
  fs.writeFileSync(file, tokens);
  fs.chmodSync(file, 0o644);
  expect((await ask('GET', '/api/sessions', ana)).status).toBe(401);
  fs.chmodSync(file, 0o600);
  expect((await ask('GET', '/api/sessions', ana)).status).toBe(200);
  const page = await logIn(added.out.trim());
  expect((await ask('GET', '/api/sessions', page)).status).toBe(200);
  expect((await place.here(['token', 'remove', 'ana'])).code).toBe(0);
  expect((await ask('GET', '/api/sessions', page)).status).toBe(401);
  await expect(logIn(added.out.trim())).rejects.toThrow('401');
  expect((await ask('GET', '/api/sessions', ana)).status).toBe(401);
  await expect(openAccessTokens(workspacePaths(place.root)).remove('ana')).rejects.toThrow('no token for "ana"');
  child.kill('SIGTERM');
  expect((await ended).err).toMatch(/tokens\.json is invalid: tokens: 0: role: .*\n.*is not JSON/);
});
