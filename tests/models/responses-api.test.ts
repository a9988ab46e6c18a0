import { createServer } from 'node:http';
import { expect, test } from 'vitest';
import { openEndpointModel } from '../../src/models/endpoint/openai-endpoint.ts';
import { listen } from '../support/temporary.ts';
import { ask, assistantMessage, fault, shell, tool, user } from './ask.ts';

type Body = { input: Array<Record<string, unknown>>; [key: string]: unknown };

/** An endpoint that has the Responses API only; each answer is a list of events. */
async function endpoint(...answers: object[][]) {
  const seen: Array<{ path: string; body: Body }> = [];
  let at = 0;
  const server = createServer(async (request, response) => {
    let text = '';
    for await (const piece of request) text += String(piece);
    const path = request.url ?? '';
    seen.push({ path, body: JSON.parse(text || '{}') });
    if (!path.endsWith('/responses')) {
      const message = 'This model is only supported in v1/responses and not in v1/chat/completions.';
      return void response
        .writeHead(404, { 'content-type': 'application/json' })
        .end(JSON.stringify({ error: { message } }));
    }
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    for (const event of answers[at++] ?? [])
      response.write(`event: ${Reflect.get(event, 'type')}\ndata: ${JSON.stringify(event)}\n\n`);
    response.end();
  });
  const port = await listen(server);
  const baseUrl = `http://127.0.0.1:${port}/v1`;
  return {
    seen,
    model: openEndpointModel({ baseUrl, apiKey: 'k', name: 'm', timeoutMs: 5000, body: { max_tokens: 9 } }),
  };
}

const usage = { input_tokens: 10, output_tokens: 5, input_tokens_details: { cached_tokens: 4 } };
const completed = { type: 'response.completed', response: { model: 'm-1', usage, output: [] } };
const reasoning = { type: 'reasoning', id: 'r1', encrypted_content: 'xyz', summary: [] };

test('an endpoint that has only the Responses API is spoken to in it, and calls and reasoning go there and back', async () => {
  const call = { type: 'function_call', call_id: 'c1', name: 'shell', arguments: '{"command":"ls"}' };
  const { seen, model } = await endpoint(
    [
      { type: 'response.created', response: {} },
      { type: 'response.output_item.done', output_index: 0, item: reasoning },
      { type: 'response.output_text.delta', output_index: 1, delta: 'I ' },
      { type: 'response.output_text.delta', output_index: 1, delta: 'look.' },
      { type: 'response.output_item.done', output_index: 1, item: { type: 'message', content: [{ text: 'I look.' }] } },
      { type: 'response.output_item.added', output_index: 2, item: { ...call, arguments: '' } },
      { type: 'response.function_call_arguments.delta', output_index: 2, delta: '{"comm' },
      { type: 'response.function_call_arguments.delta', output_index: 2, delta: 'and":"ls"}' },
      { type: 'response.output_item.done', output_index: 2, item: call },
      completed,
    ],
    [{ type: 'response.output_text.delta', output_index: 0, delta: 'a.txt' }, completed],
  );
  const messages = [{ role: 'system' as const, content: 'rules' }, user('Which files?')];
  const first = await ask(model, messages);
  expect(first).toMatchObject({
    ...{ text: 'I look.', deltas: ['I ', 'look.'], model: 'm-1', usage: { tokens: 15, cost: null } },
    calls: [{ id: 'c1', name: 'shell', args: '{"command":"ls"}' }],
    provider_fields: { reasoning_details: [reasoning] },
  });
  const answered = { ...assistantMessage(first), provider_fields: first.provider_fields ?? {} };
  expect((await ask(model, [...messages, answered, tool('c1', 'a.txt')])).text).toBe('a.txt');
  expect(seen.map(({ path }) => path)).toEqual(['/v1/chat/completions', '/v1/responses', '/v1/responses']);
  expect(seen[2]?.body).toEqual({
    ...{ model: 'm', store: false, stream: true, include: ['reasoning.encrypted_content'], max_output_tokens: 9 },
    tools: [{ type: 'function', ...shell, strict: false }],
    input: [
      { role: 'system', content: [{ type: 'input_text', text: 'rules' }] },
      { role: 'user', content: [{ type: 'input_text', text: 'Which files?' }] },
      reasoning,
      { role: 'assistant', content: [{ type: 'output_text', text: 'I look.' }] },
      call,
      { type: 'function_call_output', call_id: 'c1', output: 'a.txt' },
    ],
  });
});

test('its ends and errors mean the same as those of chat completions', async () => {
  const text = { type: 'response.output_text.delta', output_index: 0, delta: 'half' };
  const cut = (reason: string) => ({ type: 'response.incomplete', response: { incomplete_details: { reason } } });
  const { model } = await endpoint(
    [text, cut('max_output_tokens')],
    [text, cut('content_filter')],
    [{ type: 'response.failed', response: { error: { code: 'rate_limit_exceeded', message: 'slow down' } } }],
    [{ type: 'error', code: 'server_error', message: 'gone' }],
    [text],
  );
  expect(await ask(model, 'a')).toMatchObject({ text: 'half', truncated: true });
  expect(await ask(model, 'a')).toMatchObject({ text: 'half', unfinished: 'content_filter' });
  expect(await fault(model)).toMatchObject({ kind: 'overloaded', message: expect.stringContaining('slow down') });
  expect(await fault(model)).toMatchObject({ kind: 'unreachable' });
  expect(await fault(model)).toMatchObject({ kind: 'malformed' });
});
