import { describe, expect, test } from 'vitest';
import { countTokens } from '../../src/engine/ports/session-ports.ts';
import type { EndpointSettings } from '../../src/models/endpoint/endpoint-client.ts';
import { openEndpointModel } from '../../src/models/endpoint/openai-endpoint.ts';
import type { ScriptEntry } from '../support/openai-server.ts';
import { modelServer } from '../support/temporary.ts';
import { ask, assistantMessage, request, shell, tool, user } from './ask.ts';

async function endpoint(script: ScriptEntry[] | ScriptEntry, more: Partial<EndpointSettings> = {}) {
  const server = await modelServer(script);
  const settings = { baseUrl: server.url, apiKey: 'sk-test', name: 'gpt-test', timeoutMs: 10_000, ...more };
  return { server, model: openEndpointModel(settings) };
}

const delta = (delta: object, finish_reason: string | null = null) => ({
  choices: [{ index: 0, delta, finish_reason }],
});

describe('the request', () => {
  test('carries model, messages and tools as they are, asks for a stream with usage, and sends the key', async () => {
    const { server, model } = await endpoint([{ text: 'hi' }]);
    const messages = [{ role: 'system' as const, content: 'sys' }, user('héllo 你好')];
    await ask(model, messages);
    const [seen] = server.requests;
    expect(seen?.path).toBe('/v1/chat/completions');
    expect(seen?.body).toEqual({
      model: 'gpt-test',
      messages,
      tools: [{ type: 'function', function: shell }],
      stream: true,
      stream_options: { include_usage: true },
    });
    expect(seen?.headers.authorization).toBe('Bearer sk-test');
  });

  test('has no tools where none are on offer, the model it names, and no Authorization without a key', async () => {
    const { server, model } = await endpoint([{ text: 'hi' }], { apiKey: undefined });
    await ask(model, 'hello', { tools: [], model: 'other' });
    expect(server.requests[0]?.body.tools).toBeUndefined();
    expect(server.requests[0]?.body.model).toBe('other');
    expect(server.requests[0]?.headers.authorization).toBeUndefined();
  });

  test('one connection serves calls that follow each other', async () => {
    const { server, model } = await endpoint({ text: 'hi' });
    // The connection is free for the next call a moment after the end of the answer.
    await expect
      .poll(async () => {
        await ask(model, 'hello');
        const [before, last] = server.requests.slice(-2).map((one) => one.port);
        return server.requests.length > 1 && before === last;
      })
      .toBe(true);
  });

  test('an endpoint that refuses stream_options gets requests without it from then on', async () => {
    const no = { status: 400, body: { error: { message: "Unknown field 'stream_options'", param: 'stream_options' } } };
    const { server, model } = await endpoint((seen) => (seen.body.stream_options ? no : { text: 'hi', usage: null }));
    // Two at once: the refusal of the second arrives after the style was changed for the first.
    await Promise.all([ask(model, 'a'), ask(model, 'b')]);
    await ask(model, 'c');
    const options = server.requests.map((one) => one.body.stream_options !== undefined);
    expect(options.filter(Boolean)).toHaveLength(2);
    expect(options.at(-1)).toBe(false);
    expect(options).toHaveLength(5);
  });

  test('ids, names and arguments of earlier calls are written so that every endpoint accepts them', async () => {
    const { server, model } = await endpoint({ text: 'fine' });
    const long = `call_${'x'.repeat(60)}`;
    const calls = [
      { id: 'a', name: 'functions.shell', args: '{"command": ' },
      { id: long, name: '', args: '' },
    ];
    await ask(model, [user('go'), assistantMessage({ text: '', calls }), tool('a', 'no JSON'), tool(long, 'no tool')]);
    const [, assistant, first, second] = server.requests[0]?.body.messages ?? [];
    expect(assistant?.tool_calls?.map((call) => call.function)).toEqual([
      { name: 'functions_shell', arguments: '{"unparsed":"{\\"command\\": "}' },
      { name: 'unknown', arguments: '{}' },
    ]);
    const ids = assistant?.tool_calls?.map(({ id }) => id) ?? [];
    expect(ids).toEqual(['a', expect.stringMatching(/^call_\w{24}$/)]);
    expect([first?.tool_call_id, second?.tool_call_id]).toEqual(ids);
  });

  test('a body and headers of the settings are merged into each request; null removes what would be there', async () => {
    const { server, model } = await endpoint(
      { text: 'hi' },
      {
        body: { temperature: 0.2, stream_options: null, provider: { order: ['a'] } },
        headers: { 'X-Title': 'agentd', Authorization: null },
      },
    );
    await ask(model, 'hello', { tools: [] });
    const { messages: _, ...body } = server.requests[0]?.body ?? { messages: [] };
    expect(body).toEqual({ model: 'gpt-test', stream: true, temperature: 0.2, provider: { order: ['a'] } });
    expect(server.requests[0]?.headers).toMatchObject({ 'x-title': 'agentd' });
    expect(server.requests[0]?.headers.authorization).toBeUndefined();
  });

  test('an address with a query keeps it behind the path', async () => {
    const server = await modelServer({ text: 'hi' });
    const baseUrl = `${server.url.replace(/v1$/, 'openai/deployments/gpt')}?api-version=2024-10-21`;
    await ask(openEndpointModel({ baseUrl, apiKey: 'k', name: 'm', timeoutMs: 5000 }), 'hello');
    expect(server.requests[0]?.path).toBe('/openai/deployments/gpt/chat/completions?api-version=2024-10-21');
  });
});

describe('the answer', () => {
  test('text comes in fragments and as a whole, with usage and the model that answered', async () => {
    const { model } = await endpoint([{ text: ['Hel', 'lo ', '世界'], model: 'gpt-test-2026' }]);
    expect(await ask(model, 'hello')).toEqual({
      text: 'Hello 世界',
      deltas: ['Hel', 'lo ', '世界'],
      calls: [],
      usage: { tokens: 15, cost: null, output: 5 },
      model: 'gpt-test-2026',
    });
  });

  test('tool calls are put together from fragments by index, also when these arrive interleaved', async () => {
    const part = (index: number, more: object) => delta({ tool_calls: [{ index, ...more }] });
    const { model } = await endpoint([
      {
        pieces: [
          part(0, { id: 'a', function: { name: 'shell', arguments: '{"comm' } }),
          part(1, { id: 'b', function: { name: 'read', arguments: '' } }),
          part(0, { function: { arguments: 'and":"ls"}' } }),
          part(1, { function: { arguments: '{"path":"x"}' } }),
          delta({}, 'tool_calls'),
        ],
      },
    ]);
    expect((await ask(model, 'go')).calls).toEqual([
      { id: 'a', name: 'shell', args: '{"command":"ls"}' },
      { id: 'b', name: 'read', args: '{"path":"x"}' },
    ]);
  });

  test('calls that all claim index 0, or none, stay apart', async () => {
    const one = (id: string, index: object) =>
      delta({ tool_calls: [{ ...index, id, function: { name: 'shell', arguments: `{"command":"${id}"}` } }] });
    for (const index of [{ index: 0 }, {}]) {
      const { model } = await endpoint([{ pieces: [one('a', index), one('b', index), delta({}, 'stop')] }]);
      expect((await ask(model, 'go')).calls.map((call) => call.args)).toEqual(['{"command":"a"}', '{"command":"b"}']);
    }
  });

  test('an id and a name that every fragment repeats make one call', async () => {
    const part = (args: string) =>
      delta({ tool_calls: [{ index: 0, id: 'a', function: { name: 'shell', arguments: args } }] });
    const { model } = await endpoint([{ pieces: [part('{"a"'), part(':1}'), delta({}, 'tool_calls')] }]);
    expect((await ask(model, 'go')).calls).toEqual([{ id: 'a', name: 'shell', args: '{"a":1}' }]);
  });

  test('broken arguments are passed on as they were written, an object as its JSON, a call without a name with none', async () => {
    const { model } = await endpoint([
      { calls: [{ id: 'a', name: 'shell', args: '{"command": "ls' }] },
      {
        pieces: [
          delta({ tool_calls: [{ index: 0, id: 'a', function: { name: 'shell', arguments: { command: 'ls' } } }] }),
          delta({ tool_calls: [{ index: 1, id: 'b', function: { arguments: '{}' } }] }),
          delta({}, 'tool_calls'),
        ],
      },
    ]);
    expect((await ask(model, 'go')).calls).toEqual([{ id: 'a', name: 'shell', args: '{"command": "ls' }]);
    expect((await ask(model, 'go')).calls).toEqual([
      { id: 'a', name: 'shell', args: '{"command":"ls"}' },
      { id: 'b', name: '', args: '{}' },
    ]);
  });

  test('missing ids are made, and no id comes twice in an answer or a conversation', async () => {
    const call = { name: 'shell', args: '{}' };
    const { model } = await endpoint([
      { calls: [call, call] },
      { calls: [{ ...call, id: 'x' }, { ...call, id: 'x' }, call] },
      { calls: [{ ...call, id: 'x' }] },
    ]);
    const first = await ask(model, 'go');
    expect(first.calls.map(({ id }) => id)).toEqual(['call_0', 'call_1']);
    const second = await ask(model, [user('go'), assistantMessage(first)]);
    expect(second.calls.map(({ id }) => id)).toEqual(['x', 'x_2', 'call_4']);
    const third = await ask(model, [user('go'), assistantMessage(first), assistantMessage(second)]);
    expect(third.calls.map(({ id }) => id)).toEqual(['x_3']);
  });

  test('content in parts is joined, reasoning is ignored, a refusal is text', async () => {
    const { model } = await endpoint([
      {
        pieces: [
          delta({ reasoning_content: 'hm' }),
          delta({
            content: [
              { type: 'text', text: 'one ' },
              { type: 'thinking', thinking: [] },
              { type: 'text', text: 'two' },
            ],
          }),
          delta({ refusal: ' no' }),
          delta({}, 'stop'),
        ],
      },
    ]);
    expect((await ask(model, 'hello')).text).toBe('one two no');
  });

  test('an answer that ends at the length limit is marked as truncated, a call is not', async () => {
    const { model } = await endpoint([
      { text: 'half', finish: 'length' },
      { calls: [{ id: 'a', name: 'shell', args: '{"x": ' }], finish: 'length' },
    ]);
    expect(await ask(model, 'hello')).toMatchObject({ text: 'half', truncated: true });
    expect(await ask(model, 'hello')).not.toHaveProperty('truncated');
  });

  test('an endpoint that ignores `stream` and answers plain JSON is understood', async () => {
    const { model } = await endpoint([
      { plain: true, text: 'whole', calls: [{ id: 'a', name: 'shell', args: '{"x": 1}' }] },
    ]);
    expect(await ask(model, 'hello')).toMatchObject({
      text: 'whole',
      calls: [{ id: 'a', name: 'shell', args: '{"x": 1}' }],
      usage: { tokens: 15 },
    });
  });

  test('a stream ends with [DONE], though the connection stays open, or with a finish_reason and no [DONE]', async () => {
    const { model } = await endpoint([
      { pieces: [delta({ content: 'a' }), '[DONE]'], end: 'open' },
      { text: 'b', end: 'quiet' },
    ]);
    expect((await ask(model, 'hello')).text).toBe('a');
    expect((await ask(model, 'hello')).text).toBe('b');
  });
});

describe('usage', () => {
  test('without usage, tokens are estimated as for the window: four Latin letters or one Chinese character each', async () => {
    const { model } = await endpoint([
      { text: 'x'.repeat(40), usage: null },
      { text: '完'.repeat(15), usage: null },
      { text: '完'.repeat(15), usage: null },
    ]);
    const words = [user('y'.repeat(400))];
    const first = await ask(model, words, { tools: [] });
    expect(first.usage).toEqual({ tokens: 118, cost: null, estimated: true });
    expect(first.usage.tokens).toBe(countTokens([...words, assistantMessage(first)]));
    expect((await ask(model, words, { tools: [] })).usage).toEqual({ tokens: 123, cost: null, estimated: true });
    expect((await ask(model, words)).usage.tokens).toBeGreaterThan(130);
  });

  test("cost is what prices make of the tokens, else the endpoint's own, else unknown", async () => {
    const usage = { prompt_tokens: 1000, completion_tokens: 500, total_tokens: 1500, cost: 0.25 };
    const priced = await endpoint([{ text: 'a', usage }], { prices: { input: 2, output: 8 } });
    const reported = await endpoint([{ text: 'a', usage }]);
    expect((await ask(priced.model, 'hello')).usage).toEqual({ tokens: 1500, cost: 0.006, output: 500 });
    expect((await ask(reported.model, 'hello')).usage).toEqual({ tokens: 1500, cost: 0.25, output: 500 });
  });

  test.each([
    { prompt_tokens_details: { cached_tokens: 800 } },
    { prompt_cache_hit_tokens: 800 },
    { cache_read_input_tokens: 800 },
  ])('tokens from the cache of the endpoint are counted apart and have their own price: %j', async (cached) => {
    const usage = { prompt_tokens: 1000, completion_tokens: 500, total_tokens: 1500, ...cached };
    const { model } = await endpoint([{ text: 'a', usage }], { prices: { input: 2, output: 8, cached: 0.5 } });
    expect((await ask(model, 'hello')).usage).toEqual({ tokens: 1500, cached: 800, output: 500, cost: 0.0048 });
  });
});

describe('an abort', () => {
  const reason = new Error('a person said stop');

  test('before the first byte ends the call with its reason, and the endpoint sees the connection close', async () => {
    const { server, model } = await endpoint([{ text: 'late', hang: 'before' }]);
    const stop = new AbortController();
    const asked = model.ask(request([user('hello')]), { signal: stop.signal, onText: () => undefined });
    const seen = await server.arrived(1);
    stop.abort(reason);
    await expect(asked).rejects.toBe(reason);
    expect(await seen.hungUp).toBe(true);
  });

  test('in the middle of a stream does the same', async () => {
    const { server, model } = await endpoint([{ text: ['first', 'second'], hang: 'first' }]);
    const stop = new AbortController();
    const asked = model.ask(request([user('hello')]), { signal: stop.signal, onText: () => stop.abort(reason) });
    await expect(asked).rejects.toBe(reason);
    expect(await server.requests[0]?.hungUp).toBe(true);
  });

  test('after the last word but before the end of the stream counts all the same', async () => {
    const { model } = await endpoint([{ pieces: [delta({ content: 'all' }, 'stop')], end: 'open' }]);
    const stop = new AbortController();
    const asked = model.ask(request([user('hello')]), { signal: stop.signal, onText: () => stop.abort(reason) });
    await expect(asked).rejects.toBe(reason);
  });

  test('before the call sends no request', async () => {
    const { server, model } = await endpoint([{ text: 'never' }]);
    const asked = model.ask(request([user('hello')]), { signal: AbortSignal.abort(reason), onText: () => undefined });
    await expect(asked).rejects.toBe(reason);
    expect(server.requests).toHaveLength(0);
  });

  test('an error of the listener ends the call unchanged', async () => {
    const { model } = await endpoint([{ text: 'hi' }]);
    const bug = new RangeError('a bug');
    const onText = () => {
      throw bug;
    };
    const { signal } = new AbortController();
    await expect(model.ask(request([user('hello')]), { signal, onText })).rejects.toBe(bug);
  });
});

describe('a budget of the run', () => {
  const budgeted = async (script: ScriptEntry, budget: { ms?: number; tokens?: number }) => {
    const { server, model } = await endpoint(script);
    const options = { signal: new AbortController().signal, onText: () => undefined, budget };
    return { server, answered: model.ask(request([user('hello')]), options) };
  };

  test('of tokens cuts the answer where it is used up, and hangs up', async () => {
    const { server, answered } = await budgeted(
      { text: Array.from({ length: 500 }, () => 'word '.repeat(20)) },
      { tokens: 500 },
    );
    const { text, truncated } = await answered;
    expect({ truncated, isShort: text.length < 3000, isThere: text.length > 1500 }).toEqual({
      truncated: true,
      isShort: true,
      isThere: true,
    });
    expect(await server.requests[0]?.hungUp).toBe(true);
  });

  test('of time cuts an answer that has begun, and ends the wait for one that has not', async () => {
    const begun = await budgeted({ text: ['first', 'second'], hang: 'first' }, { ms: 200 });
    expect(await begun.answered).toMatchObject({ text: 'first', truncated: true });
    const silent = await budgeted({ hang: 'before' }, { ms: 200 });
    await expect(silent.answered).rejects.toMatchObject({
      kind: 'unreachable',
      message: expect.stringContaining('limits.minutes'),
    });
  });
});
