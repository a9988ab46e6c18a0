import { expect, test } from 'vitest';
import { listedContextWindow } from '../../src/models/endpoint/endpoint-client.ts';
import { openEndpointModel } from '../../src/models/endpoint/openai-endpoint.ts';
import type { Answer } from '../support/openai-server.ts';
import { modelServer } from '../support/temporary.ts';
import { ask, fault } from './ask.ts';

const modelAt = (baseUrl: string) => openEndpointModel({ baseUrl, apiKey: undefined, name: 'm', timeoutMs: 10_000 });

async function at(...answers: Answer[]) {
  const server = await modelServer(answers);
  return { server, model: modelAt(server.url) };
}

const refusal = (message: string, more: object = {}) => ({ status: 400, body: { error: { message, ...more } } });

test.each([
  [
    'OpenAI',
    refusal("This model's maximum context length is 8192 tokens. However, your messages resulted in 10000 tokens.", {
      code: 'context_length_exceeded',
    }),
    8192,
  ],
  [
    'llama.cpp',
    refusal('the request exceeds the available context size, try increasing it', {
      type: 'exceed_context_size_error',
      n_prompt_tokens: 9000,
      n_ctx: 4096,
    }),
    4096,
  ],
  ['a door to Anthropic', refusal('prompt is too long: 210000 tokens > 200000 maximum'), 200_000],
  ['one that gives no number', refusal('Please reduce the length of the messages.'), undefined],
])('the refusal of %s for length is told from others, with the window it names', async (_, answer, window) => {
  const { model } = await at(answer);
  expect(await fault(model)).toMatchObject({ kind: 'too_long', retry: true, window });
});

test('a refusal for another reason is not about length', async () => {
  const { model } = await at(refusal('Unknown parameter: tools'));
  expect(await fault(model)).toMatchObject({ kind: 'rejected', retry: false });
});

test.each([
  ['vLLM', { id: 'm', max_model_len: 32768 }, 32768],
  ['OpenRouter', { id: 'm', context_length: 200000 }, 200000],
  ['LM Studio', { id: 'm', max_context_length: 131072, loaded_context_length: 8192 }, 8192],
  ['llama.cpp', { id: 'm', meta: { n_ctx: 4096 } }, 4096],
  ['OpenAI, which says nothing', { id: 'm', owned_by: 'x' }, undefined],
  ['another model', { id: 'n', context_length: 200000 }, undefined],
])('the list of models of %s is read for the window', (_, entry, window) => {
  expect(listedContextWindow({ data: [{ id: 'x', context_length: 1000 }, entry] }, 'm')).toBe(window);
});

test.each([
  [null],
  [[]],
  ['text'],
  [{ data: {} }],
  [{ data: [null, 3] }],
  [{ data: [{ id: 'm', context_length: -1 }] }],
])('a list of models that is none (%j) tells no window', (answer) => {
  expect(listedContextWindow(answer, 'm')).toBeUndefined();
});

test('an endpoint is asked for its models once, and not before a conversation grows long', async () => {
  const server = await modelServer({ text: 'yes' });
  server.models.push({ id: 'm', max_model_len: 9000 });
  const model = modelAt(server.url);
  await ask(model, [{ role: 'user', content: 'short' }]);
  expect(model.contextWindow?.(undefined)).toBeUndefined();
  for (let n = 0; n < 3; n++) await ask(model, [{ role: 'user', content: 'long '.repeat(4000) }]);
  await expect.poll(() => model.contextWindow?.(undefined)).toBe(9000);
  expect(server.gets).toEqual(['/v1/models']);
});
