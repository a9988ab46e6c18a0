import { expect, test } from 'vitest';
import { openEndpointModel } from '../../src/models/endpoint/openai-endpoint.ts';
import { openProfiles } from '../../src/models/request/endpoint-profiles.ts';
import type { ScriptEntry } from '../support/openai-server.ts';
import { modelServer } from '../support/temporary.ts';
import { ask, assistantMessage, tool, user } from './ask.ts';

async function endpoint(script: ScriptEntry) {
  const server = await modelServer(script);
  let saved: string | undefined;
  const open = () => {
    const profiles = openProfiles(saved, (text) => {
      saved = text;
    });
    return openEndpointModel(
      { baseUrl: `${server.url}?key=secret`, apiKey: undefined, name: 'm', timeoutMs: 5000 },
      profiles,
    );
  };
  const change = (text: string) => {
    saved = text;
  };
  return { server, open, saved: () => saved, change };
}

const strict: ScriptEntry = (seen) =>
  seen.body.stream_options
    ? { status: 400, body: { error: { message: "Unknown field 'stream_options'" } } }
    : { text: ['fi', 'ne'], usage: null };

test('what was learned from a refusal is known to the next daemon, and holds no query of the address', async () => {
  const it = await endpoint(strict);
  await ask(it.open(), 'a');
  await ask(it.open(), 'b');
  expect(it.server.requests).toHaveLength(3);
  expect(it.saved()).not.toContain('secret');
  expect(JSON.parse(it.saved() ?? '')).toMatchObject({
    ...{ version: 1, endpoints: { [`${it.server.url} m`]: { style: { usage: false }, streams: true, usage: false } } },
  });
});

test.each(['', 'no JSON', '{"version":2,"endpoints":{}}'])(
  'profiles that are damaged or of another version are learned again: %j',
  async (text) => {
    const it = await endpoint(strict);
    await ask(it.open(), 'a');
    it.change(text);
    expect((await ask(it.open(), 'b')).text).toBe('fine');
    expect(it.server.requests).toHaveLength(4);
  },
);

test('a profile that is no longer right does no harm, and what was only a guess is not kept', async () => {
  let refuses = 'role';
  const it = await endpoint((seen) => {
    const roles = seen.body.messages.map(({ role }) => role);
    const isAlternating = roles.every((role, at) => role !== roles[at + 1]);
    if (refuses === 'role')
      return isAlternating ? { text: 'fine' } : { status: 400, text: 'conversation roles must alternate' };
    return roles.includes('tool') ? { status: 400, text: 'Bad request' } : { text: 'fine' };
  });
  const call = { text: '', calls: [{ id: 'a', name: 'shell', args: '{}' }] };
  const messages = [user('a'), user('b'), assistantMessage(call), tool('a', 'ok'), user('c')];
  await ask(it.open(), messages);
  const before = it.saved();
  refuses = 'tool';
  expect((await ask(it.open(), messages)).text).toBe('fine');
  expect(it.saved()).toBe(before);
});

test('tools are described and called in words for a model without tool calls of its own, and the history follows', async () => {
  const server = await modelServer((seen) =>
    seen.index === 0
      ? { text: 'I look.\n<tool_call>\n{"name": "shell", "arguments": {"command": "ls"}}\n</tool_call>' }
      : { text: 'a.txt' },
  );
  const model = openEndpointModel({
    ...{ baseUrl: server.url, apiKey: undefined, name: 'm', timeoutMs: 5000 },
    toolCalls: 'text',
  });
  const messages = [{ role: 'system' as const, content: 'Be kind.' }, user('Which files?')];
  const first = await ask(model, messages);
  expect(first).toMatchObject({ text: 'I look.', calls: [{ name: 'shell', args: '{"command":"ls"}' }] });
  const result = tool(first.calls[0]?.id ?? '', 'a.txt');
  expect((await ask(model, [...messages, assistantMessage(first), result])).text).toBe('a.txt');
  const sent = server.requests[1]?.body;
  expect(sent?.tools).toBeUndefined();
  expect(sent?.messages.map(({ role }) => role)).toEqual(['system', 'user', 'assistant', 'user']);
  expect(sent?.messages[0]?.content).toMatch(/^Be kind\.[\s\S]*<tool_call>[\s\S]*- shell: Runs a command\./);
  expect(sent?.messages[2]?.content).toContain('{"name": "shell", "arguments": {"command":"ls"}}');
  expect(sent?.messages[3]?.content).toContain('a.txt');
});
