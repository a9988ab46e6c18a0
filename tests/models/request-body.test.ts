import { expect, onTestFinished, test } from 'vitest';
import type { ChatMessage } from '../../src/engine/ports/session-ports.ts';
import { chooseModel } from '../../src/models/choose-model.ts';
import { openEndpointModel } from '../../src/models/endpoint/openai-endpoint.ts';
import { buildRequestBody, requestOptions } from '../../src/models/request/request-body.ts';
import { startOpenAI } from '../support/openai-server.ts';
import { ask, assistantMessage, request, shell, tool, user } from './ask.ts';

const wireOf = (messages: unknown[]): Buffer[] => messages.map((one) => Buffer.from(JSON.stringify(one)));

test.each([true, false])(
  'the bytes are the JSON of the whole request, whatever it contains (with usage: %s)',
  (usage) => {
    const options = requestOptions(usage);
    const messages = [user('"quotes", ü, 漢字, 🙂, \n, \u2028 and a lone \ud800'), tool('c', ''), user('last')];
    const tools = [shell, { ...shell, name: 'other' }];
    const body = buildRequestBody({
      ...{ model: 'a "model"', wire: wireOf(messages), tools, schemas: 'plain' as const, options },
    });
    expect(JSON.parse(body.toString('utf8'))).toEqual({
      model: 'a "model"',
      messages: JSON.parse(JSON.stringify(messages)),
      tools: tools.map((spec) => ({ type: 'function', function: spec })),
      stream: true,
      ...(usage && { stream_options: { include_usage: true } }),
    });
  },
);

test('without tools there is no list of them, which some endpoints refuse', () => {
  const parts = { model: 'm', wire: wireOf([user('hello')]), tools: [], schemas: 'plain' as const };
  const body = buildRequestBody({ ...parts, options: requestOptions(false) });
  expect(Object.keys(JSON.parse(body.toString()))).toEqual(['model', 'messages', 'stream']);
});

test('each request of a growing conversation arrives complete', async () => {
  const call = { id: 'c1', name: 'shell', args: '{"command":"true"}' };
  const server = await startOpenAI([{ calls: [call] }, { text: 'done' }]);
  onTestFinished(() => server.close());
  const model = openEndpointModel({ baseUrl: server.url, apiKey: 'k', name: 'm', timeoutMs: 5000 });
  const talk: ChatMessage[] = [user('go')];
  talk.push(assistantMessage(await ask(model, talk)), tool('c1', 'exit 0'));
  await ask(model, talk);
  expect(server.requests.map(({ body }) => body.messages)).toEqual([[talk[0]], talk]);
  expect(server.requests[1]?.headers['content-type']).toBe('application/json');
});

test('a request that is made ready beforehand is not sent until it is asked, then at once and as it is otherwise', async () => {
  const server = await startOpenAI([{ text: 'one' }, { text: 'two' }]);
  onTestFinished(() => server.close());
  const model = chooseModel({ base_url: server.url, name: 'm' }, {});
  const images = [{ path: 'dot.png', type: 'image/png' as const, bytes: 3, sha256: 'a'.repeat(64) }];
  let reads = 0;
  const image = async () => {
    reads++;
    return new Uint8Array([1, 2, 3]);
  };
  const made = request([{ role: 'user', content: 'look', images }], { image });
  const options = { signal: new AbortController().signal, onText: () => {} };
  await model.prepare?.(made);
  expect([server.requests, reads]).toEqual([[], 1]);
  await model.ask(made, options);
  expect(reads).toBe(1);
  await model.ask(made, options);
  expect(reads).toBe(2);
  expect(server.requests[0]?.body).toEqual(server.requests[1]?.body);
});

test('a call through another tool is sent back as the model wrote it; a tool that is offered by a line has no schema', async () => {
  const server = await startOpenAI([{ text: 'done' }]);
  onTestFinished(() => server.close());
  const model = openEndpointModel({ baseUrl: server.url, apiKey: 'k', name: 'm', timeoutMs: 5000 });
  const { tool_calls } = assistantMessage({
    text: '',
    calls: [{ id: 'c', name: 'browser', args: '{"action":"close"}' }],
  }) as {
    tool_calls: Array<{ via?: string }>;
  };
  const via = tool_calls.map((call) => ({ ...call, via: 'more_tools' }));
  const messages = [user('go'), { role: 'assistant', content: null, tool_calls: via } as ChatMessage, tool('c', 'ok')];
  await ask(model, messages, { tools: [shell, { ...shell, name: 'browser', line: 'a real browser' }] });
  const { body } = server.requests[0] ?? {};
  expect(body?.messages[1]?.tool_calls?.[0]?.function).toEqual({
    ...{ name: 'more_tools', arguments: '{"tool":"browser","arguments":{"action":"close"}}' },
  });
  expect(JSON.stringify(body?.messages)).not.toContain('via');
  expect(body?.tools?.map((one) => one.function.name)).toEqual(['shell']);
});

test('what was sent once is the beginning of every later request, so that the caches of endpoints hold', async () => {
  const server = await startOpenAI({ text: 'ok' });
  onTestFinished(() => server.close());
  const model = openEndpointModel({ baseUrl: server.url, apiKey: 'k', name: 'm', timeoutMs: 5000 });
  const talk: ChatMessage[] = [{ role: 'system', content: 'rules' }, user('go')];
  const sent: string[] = [];
  for (let n = 0; n < 4; n++) {
    await ask(model, [...talk, user(`<daemon 0>\nnews ${n}\n</daemon 0>`)]);
    const { messages, ...rest } = server.requests.at(-1)?.body ?? { messages: [] };
    sent.push(JSON.stringify(rest));
    const before = server.requests.at(-2)?.body.messages.slice(0, -1) ?? [];
    expect(messages.slice(0, before.length)).toEqual(before);
    const call = { id: `c${n}`, name: 'shell', args: '{}' };
    talk.push(assistantMessage({ text: `answer ${n}`, calls: [call] }), tool(`c${n}`, 'ok'));
  }
  expect(new Set(sent).size).toBe(1);
});
