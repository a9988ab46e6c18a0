import { expect, test } from 'vitest';
import { openAccessTokens } from '../../src/client/actions/access.ts';
import { workspacePaths } from '../../src/store/layout/layout.ts';
import { serveHere, serveWorkspace } from '../http/serving.ts';
import { setup } from '../support/agentctl.ts';
import { until } from '../support/daemon.ts';
import { callTool, httpClient, readText, VERSIONS } from './mcp-client.ts';

test('over HTTP a DELETE and a list of messages are refused, by what the protocol says', async () => {
  const { ask } = await serveHere(setup(), 'mcp');
  const gone = await ask('DELETE', '/mcp', { headers: { 'content-type': undefined } });
  expect(gone.status).toBe(405);
  const ping = { jsonrpc: '2.0', method: 'ping' };
  const body = [
    { ...ping, id: 1 },
    { ...ping, id: 2 },
  ];
  const accept = 'application/json, text/event-stream';
  expect(await ask('POST', '/mcp', { headers: { accept }, body })).toMatchObject({
    status: 400,
    text: expect.stringContaining('one message of JSON-RPC'),
  });
});

test('/mcp serves both versions with a token, as the user that it names; plans are subscribed to by the newer one', async () => {
  const at = setup();
  const { url, token, ask } = await serveWorkspace(at, '--mcp');
  await at.serveHere('--model', 'runbook');
  for (const version of VERSIONS) {
    const client = await httpClient(url, token, { version });
    expect(client.getNegotiatedProtocolVersion()).toBe(version);
    // What is never told is not promised.
    expect(client.getServerCapabilities()).toEqual({
      tools: { listChanged: false },
      resources: { listChanged: false, subscribe: version === '2026-07-28' },
    });
    const args = { session: 'demo', text: '1. Say hello: `echo hello`', id: `by-${version}` };
    expect(await callTool(client, 'send_message', args)).toMatchObject({ data: { status: 'done', session: 'demo' } });
    expect(await readText(client, 'agentd://sessions/demo/plan')).toContain('Say hello');
  }

  const paths = workspacePaths(at.root);
  const readers = await openAccessTokens(paths).add({ name: 'rae', role: 'read', sessions: ['demo'] });
  const senders = await openAccessTokens(paths).add({ name: 'sam', role: 'send', sessions: ['team-*'] });
  const reader = await httpClient(url, readers);
  expect(await callTool(reader, 'list_sessions', {})).toMatchObject({ data: { sessions: [{ name: 'demo' }] } });
  const refused = await callTool(reader, 'send_message', { session: 'demo', text: 'Go' });
  expect(refused).toMatchObject({ isError: true, text: expect.stringContaining('the role "send"') });
  const sender = await httpClient(url, senders);
  expect(await callTool(sender, 'list_sessions', {})).toMatchObject({ data: { sessions: [] } });
  expect((await callTool(sender, 'get_plan', { session: 'demo' })).isError).toBe(true);

  const uri = 'agentd://sessions/demo/plan';
  const updated: string[] = [];
  reader.setNotificationHandler('notifications/resources/updated', ({ params }) => void updated.push(params.uri));
  await reader.listen({ resourceSubscriptions: [uri] });
  await until(() => updated.length === 1, 'how the plan is now');
  await ask('POST', '/api/sessions/demo/messages', { body: { text: '/plan add Draw it' } });
  await until(() => updated.length === 2, 'the plan that was edited');
  expect(new Set(updated)).toEqual(new Set([uri]));

  expect((await ask('POST', '/mcp', { headers: { authorization: undefined }, body: {} })).status).toBe(401);
  expect((await ask('POST', '/mcp', { headers: { origin: 'https://evil.example' }, body: {} })).status).toBe(403);
  expect((await ask('POST', '/mcp', { raw: '{', body: {} })).status).toBe(400);
});
