import { writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { methods } from '@agentclientprotocol/sdk';
import { expect, test } from 'vitest';
import { ground, until } from '../support/daemon.ts';
import { ask, editorHere, load, newThread, spawnAcp } from './editor.ts';

test('a missing session is named in the error, with the existing ones', async () => {
  const on = ground();
  on.sh('demo', 'mkdir inbox');
  const editor = await editorHere(on.root);
  await expect(load(editor, 'nobody')).rejects.toMatchObject({
    code: -32_002,
    message: 'No session "nobody". Known: demo.',
  });
  await expect(load(editor, '../demo')).rejects.toMatchObject({ code: -32_002 });
  await expect(ask(editor, 'demo', 'hello')).rejects.toThrow(/not found/i);
});

test('a cwd must be absolute, and for a new session an existing folder', async () => {
  const on = ground();
  on.sh('demo', 'mkdir inbox');
  const { agent } = await editorHere(on.root);
  const open = (cwd: string) => agent.request(methods.agent.session.new, { cwd, mcpServers: [] });
  await expect(open('here')).rejects.toThrow(/Expected a cwd that is an absolute path, got "here"/);
  await expect(open('/nowhere/at/all')).rejects.toThrow(/Expected a cwd that is a folder.*got "\/nowhere\/at\/all"/);
  await expect(open(join(on.root, 'agentd.json'))).rejects.toThrow(/is a folder/);
  const loaded = agent.request(methods.agent.session.load, { sessionId: 'demo', cwd: 'here', mcpServers: [] });
  await expect(loaded).rejects.toThrow(/absolute path/);
});

test('MCP servers of the editor are refused, except those that agentd.json names too', async () => {
  const on = ground();
  on.config({ mcpServers: { notes: { command: '/opt/notes', args: ['--stdio'] } } });
  const { agent, project } = await editorHere(on.root);
  const open = (command: string) =>
    agent.request(methods.agent.session.new, {
      cwd: project,
      mcpServers: [{ name: 'notes', command, args: ['--stdio'], env: [] }],
    });
  await expect(open('/tmp/other')).rejects.toThrow(/programs to run.*notes.*add to agentd\.json: .*\/tmp\/other/);
  expect((await open('/opt/notes')).sessionId).toMatch(/^atlas-/);
});

test('an empty prompt and audio are refused, and nothing is sent', async () => {
  const on = ground();
  const { editor, sessionId } = await newThread(on.root);
  await expect(ask(editor, sessionId, ' ')).rejects.toThrow(/Not sent: expected "text"/);
  const audio = { type: 'audio' as const, data: 'AAAA', mimeType: 'audio/wav' };
  const spoken = editor.agent.request(methods.agent.session.prompt, { sessionId, prompt: [audio] });
  await expect(spoken).rejects.toThrow(/got audio/);
  expect(on.sh(sessionId, 'ls inbox 2>/dev/null || true')).toBe('');
});

test('an invalid cursor is refused', async () => {
  const { agent } = await editorHere(ground().root);
  await expect(agent.request(methods.agent.session.list, { cursor: 'x' })).rejects.toThrow(/nextCursor.*got "x"/);
});

test('invalid JSON, an unknown method and wrong parameters are answered, and the next request works', async () => {
  const { child, ended } = spawnAcp(ground().root);
  let out = '';
  child.stdout?.setEncoding('utf8').on('data', (text: string) => {
    out += text;
  });
  const initialize = { jsonrpc: '2.0', id: 1, method: 'initialize', params: { protocolVersion: 1 } };
  child.stdin?.write(`${JSON.stringify(initialize)}\n`);
  await until(() => out.includes('"id":1'), 'the first answer');
  const lines = [
    '{"jsonrpc": "2.0", "id": 9',
    '[]',
    JSON.stringify({ jsonrpc: '2.0', id: 2, method: 'session/fly', params: {} }),
    JSON.stringify({ jsonrpc: '2.0', id: 3, method: 'session/prompt', params: { sessionId: 7 } }),
    JSON.stringify({ jsonrpc: '2.0', id: 4, method: 'session/list', params: {} }),
  ];
  child.stdin?.write(`${lines.join('\n')}\n`);
  await until(() => out.includes('"id":4'), 'the last answer');
  // As with `printf … | agentctl acp`: requests before the end are answered, then the program exits.
  const last = { jsonrpc: '2.0', id: 5, method: 'session/new', params: { cwd: tmpdir(), mcpServers: [] } };
  child.stdin?.end(JSON.stringify(last));
  expect(await ended).toBe(0);
  const answers = out
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line));
  const codes = answers.map(({ id, error }) => [id, error?.code]);
  expect(codes.sort((a, b) => a[0] - b[0])).toEqual([
    [null, -32_700],
    [null, -32_600],
    [1, undefined],
    [2, -32_601],
    [3, -32_602],
    [4, undefined],
    [5, undefined],
  ]);
});

test('a damaged event log is an error of its session, and others can be opened', async () => {
  const on = ground();
  writeFileSync(join(on.root, 'script.json'), JSON.stringify([{ text: 'Hi.', repeat: true }]));
  const daemon = await on.serve(['--model', `scripted:${join(on.root, 'script.json')}`]);
  for (const name of ['bad', 'good']) {
    on.sh(name, 'mkdir -p inbox; echo hello > inbox/1.md');
    await on.file(name, 'outbox/1.md');
  }
  await daemon.stop();
  on.sh('bad', "rm -f snapshot.json; sed -i '2s/hello/hullo/' events.jsonl");
  const editor = await editorHere(on.root);
  await expect(load(editor, 'bad')).rejects.toThrow(/events\.jsonl/);
  await load(editor, 'good');
  expect(editor.words()).toBe('Hi.');
});
