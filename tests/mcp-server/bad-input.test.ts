import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { resolve } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { setup } from '../support/agentctl.ts';
import { until } from '../support/daemon.ts';
import { callTool, clientHere } from './mcp-client.ts';

test('arguments that no tool takes are refused with what was wanted, and nothing is made', async () => {
  const at = setup();
  const client = await clientHere(at);
  const wrong: Array<[string, object, RegExp]> = [
    ['send_message', { session: 'demo', text: '  ' }, /expected some words/],
    ['send_message', { session: '', text: 'x' }, /session/],
    ['send_message', { session: 'demo', text: 'x', wait_seconds: 60 }, /wait_seconds/],
    ['send_message', { session: 'demo', text: 'x', id: '../x' }, /expected letters, digits/],
    ['edit_plan', { session: 'demo', plan: 'plan_1', changes: [{ do: 'burn', step: 'step_1' }] }, /changes/],
    ['get_session', { session: 'demo', reply: '../events.jsonl' }, /expected a reply_name/],
    ['get_session', { session: 'nobody' }, /No session "nobody"\. Known: none yet\./],
    ['get_session', { session: '../ws' }, /No session/],
    ['answer_approval', { session: 'demo' }, /answer_approval/],
  ];
  for (const [name, args, words] of wrong) {
    const reported = await callTool(client, name, { ...args }).catch((error: Error) => ({
      isError: true,
      text: error.message,
    }));
    expect(reported, name).toMatchObject({ isError: true, text: expect.stringMatching(words) });
  }
  expect(existsSync(at.path('.sessions', 'demo'))).toBe(false);
});

test('without a daemon a message waits, and the answer says what to start', async () => {
  const at = setup();
  const client = await clientHere(at);
  const sent = await callTool(client, 'send_message', { session: 'demo', text: 'x', wait_seconds: 0 });
  expect(sent).toMatchObject({ isError: false, data: { status: 'running', reply: null } });
  expect(sent.text).toContain('agentctl start');
});

test('only plans of sessions that are there can be subscribed to', async () => {
  const client = await clientHere(setup(), { version: '2025-11-25' });
  for (const uri of ['agentd://sessions/none/plan', 'agentd://sessions/none/transcript', 'file:///etc/passwd'])
    await expect(client.subscribeResource({ uri }), uri).rejects.toThrow();
});

test('a line that is no JSON and a method that is not known leave the server at work', async () => {
  const { root } = setup();
  const child = spawn(process.execPath, [resolve('dist/agentctl.js'), '--workspace', root, 'mcp']);
  onTestFinished(() => void child.kill('SIGKILL'));
  let out = '';
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    out += text;
  });
  const params = { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 'x', version: '1' } };
  child.stdin.write(`{"jsonrpc": "2.0", "id": 9\n`);
  child.stdin.write(`${JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'initialize', params })}\n`);
  await until(() => out.includes('"id":1'), 'the first answer');
  child.stdin.write(`${JSON.stringify({ jsonrpc: '2.0', method: 'notifications/initialized' })}\n`);
  child.stdin.write(`${JSON.stringify({ jsonrpc: '2.0', id: 2, method: 'tools/fly' })}\n`);
  child.stdin.write(`${JSON.stringify({ jsonrpc: '2.0', id: 3, method: 'tools/list' })}\n`);
  await until(() => out.includes('"id":3'), 'the last answer');
  const answers = out
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line));
  expect(answers.find(({ id }) => id === 2)).toMatchObject({ error: { code: -32_601 } });
  const tools = answers.find(({ id }) => id === 3).result.tools as Array<{ name: string }>;
  expect(tools.map(({ name }) => name)).toContain('send_message');
});
