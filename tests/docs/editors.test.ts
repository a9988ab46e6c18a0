import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { SessionUpdate } from '@agentclientprotocol/sdk';
import { expect, test } from 'vitest';
import { ask, editorHere, openNew, textOf } from '../acp/editor.ts';
import { callTool, clientHere } from '../mcp-server/mcp-client.ts';
import { served } from '../support/agentctl.ts';
import { ground } from '../support/daemon.ts';

const ANSWERS = [
  {
    text: '[Step] Count the words\nI count them.',
    calls: [{ name: 'shell', args: { command: 'echo one two | wc -w' } }],
  },
  { text: 'notes.txt has two words. [Done]' },
];

/** An update in a line, as the page shows it. */
function lineOf(update: SessionUpdate): string {
  switch (update.sessionUpdate) {
    case 'plan':
      return `plan ${update.entries.map(({ status, content }) => `[${status}] ${content}`).join(', ')}`;
    case 'tool_call':
      return `tool_call ${update.status} ${update.kind} "${update.title}"`;
    case 'tool_call_update':
      return `tool_call_update ${update.status}`;
    case 'session_info_update':
      return `session_info_update "${update.title}"`;
    default:
      return `${update.sessionUpdate} "${textOf(update).trim().replace(/\n/g, ' / ')}"`;
  }
}

/** Words come in pieces of any length. */
function joinChunks(updates: readonly SessionUpdate[]): SessionUpdate[] {
  const joined: SessionUpdate[] = [];
  for (const update of updates) {
    const last = joined.at(-1);
    if (last?.sessionUpdate === 'agent_message_chunk' && update.sessionUpdate === last.sessionUpdate)
      joined[joined.length - 1] = { ...last, content: { type: 'text', text: textOf(last) + textOf(update) } };
    else joined.push(update);
  }
  return joined;
}

test('the transcript of docs/editors.md comes out as it is shown', async () => {
  const page = readFileSync('docs/editors.md', 'utf8');
  const [, shown] = /<!-- transcript -->\n```\n([\s\S]*?)```\n<!-- \/transcript -->/.exec(page) ?? [];
  const on = ground();
  writeFileSync(join(on.root, 'script.json'), JSON.stringify(ANSWERS));
  on.config({ permissions: [{ ask: 'shell' }] });
  await on.serve(['--model', `scripted:${join(on.root, 'script.json')}`]);
  const editor = await editorHere(on.root);
  editor.responses.permission = 'allow';
  const sessionId = await openNew(editor);
  await editor.sees('the commands', ({ sessionUpdate }) => sessionUpdate === 'available_commands_update');
  const before = editor.reported.length;
  const question = 'How many words has notes.txt?';
  const end = await ask(editor, sessionId, question);
  const reported = joinChunks(editor.reported.slice(before));
  // Asked once the run has ended over it, and answered before the call begins.
  const began = reported.findIndex((one) => one.sessionUpdate === 'tool_call_update' && one.status === 'in_progress');
  const lines = (updates: SessionUpdate[]) => updates.map((one) => `← ${lineOf(one)}`);
  const whole = [
    `→ session/prompt "${question}"`,
    ...lines(reported.slice(0, began)),
    `← session/request_permission ${editor.permissions[0]?.options.map(({ name }) => name).join(' | ')}`,
    '→ Allow once',
    ...lines(reported.slice(began)),
    `← ${end}`,
  ];
  expect(`${whole.join('\n')}\n`).toBe(shown);
});

test('the tool calls of docs/editors.md are answered as it shows', async () => {
  const page = readFileSync('docs/editors.md', 'utf8');
  const [, shown = ''] = /<!-- mcp transcript -->\n```\n([\s\S]*?)```/.exec(page) ?? [];
  const lines = shown.trim().split('\n');
  expect(lines.length).toBeGreaterThan(6);
  const at = await served();
  const client = await clientHere(at);
  for (let line = 0; line < lines.length; line += 2) {
    const [, name = '', args = ''] = /^→ (\w+) (\{.*\})$/.exec(lines[line] ?? '') ?? [];
    const [, answer = ''] = /^← (.+)$/.exec(lines[line + 1] ?? '') ?? [];
    const { data, text, isError } = await callTool(client, name, JSON.parse(args));
    if (answer.startsWith('{')) expect(data, lines[line]).toMatchObject(JSON.parse(answer));
    else expect({ isError, text }).toEqual({ isError: true, text: answer });
  }
});
