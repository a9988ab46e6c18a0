import { createServer } from 'node:http';
import { afterEach, describe, expect, test } from 'vitest';
import { openEndpointModel } from '../../src/models/endpoint/openai-endpoint.ts';
import { type Answer, type OpenAIServer, startOpenAI } from '../support/openai-server.ts';
import { listen } from '../support/temporary.ts';
import { ask, fault } from './ask.ts';

const KEY = 'sk-very-secret';
const servers: OpenAIServer[] = [];
afterEach(async () => {
  await Promise.all(servers.splice(0).map((server) => server.close()));
});

const modelAt = (baseUrl: string, timeoutMs = 10_000) =>
  openEndpointModel({ baseUrl, apiKey: KEY, keyName: 'MY_KEY', name: 'gpt-test', timeoutMs });

/** The fault for one answer of an endpoint; also checks that only one request was sent. */
async function faultOf(answer: Answer, timeoutMs?: number) {
  const server = await startOpenAI([answer]);
  servers.push(server);
  const { kind, retry, waitMs, message } = await fault(modelAt(server.url, timeoutMs));
  expect(server.requests).toHaveLength(1);
  expect(message).not.toContain(KEY);
  return { kind, retry, waitMs, message };
}

const piece = (content: string) => ({ choices: [{ index: 0, delta: { content } }] });

describe('unreachable, worth another try', () => {
  test('a refused connection, and a name that nobody knows', async () => {
    const server = await startOpenAI([]);
    await server.close();
    expect(await fault(modelAt(server.url))).toMatchObject({
      kind: 'unreachable',
      retry: true,
      message: expect.stringContaining('ECONNREFUSED'),
    });
    expect(await fault(modelAt('http://no-such-host.invalid/v1'))).toMatchObject({ kind: 'unreachable', retry: true });
  });

  test('any 5xx, also with a web page for a body, whose markup is left out', async () => {
    expect(await faultOf({ status: 500, text: 'boom' })).toMatchObject({
      kind: 'unreachable',
      retry: true,
      message: expect.stringContaining('500: boom'),
    });
    const page = await faultOf({ status: 502, body: '<html><body>Bad gateway</body></html>' });
    expect(page).toMatchObject({ kind: 'unreachable', retry: true });
    expect(page.message).not.toContain('<');
  });

  test.each([204, 304, 999])('a status with which no answer comes: %i', async (status) => {
    const server = createServer((_request, response) => response.writeHead(status).end());
    const port = await listen(server);
    expect(await fault(modelAt(`http://127.0.0.1:${port}/v1`))).toMatchObject({
      kind: 'unreachable',
      retry: true,
      message: expect.stringContaining(`answered with status ${status}, which comes without an answer`),
    });
  });

  test('silence before the answer, and silence in the middle of it', async () => {
    // Long enough for the request to arrive even on a busy machine.
    const [before, during] = await Promise.all([
      faultOf({ hang: 'before' }, 3000),
      faultOf({ text: ['a', 'b'], hang: 'first' }, 3000),
    ]);
    expect(before).toMatchObject({ kind: 'unreachable', retry: true, message: expect.stringContaining('3 s') });
    expect(during).toMatchObject({ kind: 'unreachable', retry: true });
    expect(servers).toHaveLength(2);
    for (const { requests } of servers) expect(await requests[0]?.hungUp).toBe(true);
  });

  test('a connection that breaks in the middle of the answer', async () => {
    expect(await faultOf({ pieces: [piece('a'), piece('b')], end: 'cut' })).toMatchObject({
      kind: 'unreachable',
      retry: true,
    });
  });
});

describe('overloaded, worth another try', () => {
  test('429 with the seconds to wait', async () => {
    expect(await faultOf({ status: 429, text: 'slow down', headers: { 'retry-after': '7' } })).toMatchObject({
      kind: 'overloaded',
      retry: true,
      waitMs: 7000,
    });
    expect(await faultOf({ status: 429, headers: { 'retry-after-ms': '250', 'retry-after': '1' } })).toMatchObject({
      waitMs: 250,
    });
    expect(await faultOf({ status: 429 })).toMatchObject({ kind: 'overloaded', retry: true, waitMs: undefined });
  });

  test("503 with a date, read against the endpoint's own clock", async () => {
    const headers = { date: 'Tue, 05 Mar 2030 10:00:00 GMT', 'retry-after': 'Tue, 05 Mar 2030 10:01:30 GMT' };
    expect(await faultOf({ status: 503, headers })).toMatchObject({ kind: 'overloaded', retry: true, waitMs: 90_000 });
    expect(await faultOf({ status: 503 })).toMatchObject({ kind: 'unreachable', retry: true });
  });
});

describe('rejected, another try is pointless', () => {
  test('401 and 403 name the variable that holds the key, and never the key', async () => {
    for (const status of [401, 403]) {
      expect(await faultOf({ status, text: `wrong key ${KEY}` })).toMatchObject({
        kind: 'rejected',
        retry: false,
        message: expect.stringContaining('MY_KEY'),
      });
    }
  });

  test('404 names the address and the model', async () => {
    const { kind, retry, message } = await faultOf({ status: 404, text: 'model not found' });
    expect({ kind, retry }).toEqual({ kind: 'rejected', retry: false });
    expect(message).toContain(servers[0]?.url);
    expect(message).toContain('gpt-test');
    expect(message).toContain('model not found');
  });

  test("400 and 422 bring the endpoint's own words, in whichever form it says them", async () => {
    const forms: Array<[number, object]> = [
      [400, { error: { message: 'the tone is not polite' } }],
      [400, { error: 'the tone is not polite' }],
      [400, { object: 'error', message: 'the tone is not polite', code: 400 }],
      [422, { detail: 'the tone is not polite' }],
      [422, { detail: [{ msg: 'the tone is not polite' }] }],
    ];
    for (const [status, body] of forms) {
      expect(await faultOf({ status, body })).toMatchObject({
        kind: 'rejected',
        retry: false,
        message: expect.stringContaining('the tone is not polite'),
      });
    }
  });

  test('429 for a quota that comes back at a known time is waited for', async () => {
    const body = { error: { message: 'Your quota resets in 3h10m.', code: 'insufficient_quota' } };
    expect(await faultOf({ status: 429, body })).toMatchObject({ kind: 'overloaded', retry: true, waitMs: 11_400_000 });
  });

  test('429 because the account is empty', async () => {
    const body = { error: { message: 'You exceeded your current quota', code: 'insufficient_quota' } };
    expect(await faultOf({ status: 429, body, headers: { 'retry-after': '1' } })).toMatchObject({
      kind: 'rejected',
      retry: false,
    });
  });

  test('a web page where an answer belongs, since base_url is likely wrong', async () => {
    expect(await faultOf({ plain: true, body: '<!doctype html><title>Hello</title>' })).toMatchObject({
      kind: 'rejected',
      retry: false,
      message: expect.stringContaining('/v1'),
    });
  });
});

describe('malformed, worth another try', () => {
  const cases: Array<[string, Answer]> = [
    ['a stream that ends without finish_reason and without [DONE]', { pieces: [piece('a')], end: 'quiet' }],
    ['a piece that is no JSON', { pieces: [piece('a'), '{"choices": ['] }],
    ['a piece of another form', { pieces: [{ choices: 'many' }] }],
    ['an error object in the stream', { pieces: [piece('a'), { error: { message: 'provider gone' } }] }],
    ['a finish_reason "error"', { pieces: [{ choices: [{ delta: { content: 'a' }, finish_reason: 'error' }] }] }],
    ['a plain answer that is an error', { plain: true, body: { error: { message: 'odd' } } }],
    ['an empty body', { plain: true, body: '', headers: { 'content-type': 'text/event-stream' } }],
    ['JSON that is none', { plain: true, body: 'oops', headers: { 'content-type': 'application/json' } }],
  ];
  test.each(cases)('%s', async (_, answer) => {
    expect(await faultOf(answer)).toMatchObject({ kind: 'malformed', retry: true });
  });

  test('a tool call quoted in an answer is part of its text', async () => {
    const text = 'It looks so:\n```\n<tool_call>\n{"name": "shell"}\n</tool_call>\n```';
    const server = await startOpenAI([{ text }]);
    servers.push(server);
    expect((await ask(modelAt(server.url), 'hello')).text).toBe(text);
  });

  test('an answer without text and calls is reported as empty', async () => {
    expect(await faultOf({ text: ' \n' })).toMatchObject({
      kind: 'malformed',
      retry: true,
      message: expect.stringContaining('an empty answer'),
    });
  });
});
