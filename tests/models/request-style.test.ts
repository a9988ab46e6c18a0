import { expect, test } from 'vitest';
import type { ChatMessage } from '../../src/engine/ports/session-ports.ts';
import { openEndpointModel } from '../../src/models/endpoint/openai-endpoint.ts';
import type { OpenAIServer, ScriptEntry } from '../support/openai-server.ts';
import { modelServer } from '../support/temporary.ts';
import { ask, fault, tool, user } from './ask.ts';

async function endpoint(script: ScriptEntry[] | ScriptEntry) {
  const server = await modelServer(script);
  const model = openEndpointModel({ baseUrl: server.url, apiKey: undefined, name: 'm', timeoutMs: 10_000 });
  return { server, model };
}

const pieces = (...deltas: object[]) => ({
  pieces: [...deltas.map((delta) => ({ choices: [{ index: 0, delta, finish_reason: null }] })), '[DONE]'],
});
const call = (more: object = {}) => ({
  tool_calls: [{ index: 0, id: 'a', function: { name: 'shell', arguments: '{}' }, ...more }],
});
const signature = { google: { thought_signature: 'c2ln' } };

/** A conversation after an answer with one call. */
const answered = (
  fields: { provider_fields?: object },
  callFields: { provider_fields?: object } = {},
): ChatMessage[] => [
  user('go'),
  {
    ...{ role: 'assistant', content: null, ...fields },
    tool_calls: [{ id: 'a', type: 'function', function: { name: 'shell', arguments: '{}' }, ...callFields }],
  } as ChatMessage,
  tool('a', 'ok'),
];
const lastAssistant = (server: OpenAIServer) =>
  server.requests.at(-1)?.body.messages.findLast(({ role }) => role === 'assistant');

test('reasoning and signatures that come with calls are kept as they came, those of a plain answer are not', async () => {
  const { model } = await endpoint([
    pieces({ reasoning_content: 'I ' }, { reasoning_content: 'look.' }, call(), { content: '' }),
    pieces(call({ extra_content: signature })),
    pieces(
      { reasoning_details: [{ type: 'reasoning.text', index: 0, text: 'I ' }] },
      { reasoning_details: [{ type: 'reasoning.text', index: 0, text: 'look.' }] },
      { reasoning_details: [{ type: 'reasoning.text', index: 0, signature: 's' }] },
      { reasoning_details: [{ type: 'reasoning.encrypted', index: 1, data: 'x' }] },
      call(),
    ),
    pieces({ reasoning_content: 'hm' }, { content: 'Done.' }),
  ]);
  expect(await ask(model, 'go')).toMatchObject({ provider_fields: { reasoning_content: 'I look.' } });
  expect((await ask(model, 'go')).calls).toEqual([
    { id: 'a', name: 'shell', args: '{}', provider_fields: { extra_content: signature } },
  ]);
  expect((await ask(model, 'go')).provider_fields).toEqual({
    reasoning_details: [
      { type: 'reasoning.text', index: 0, text: 'I look.', signature: 's' },
      { type: 'reasoning.encrypted', index: 1, data: 'x' },
    ],
  });
  expect(await ask(model, 'go')).not.toHaveProperty('provider_fields');
});

test('they are sent back to the endpoint where they were', async () => {
  const { server, model } = await endpoint({ text: 'ok' });
  const fields = { provider_fields: { reasoning_content: 'I look.' } };
  await ask(model, answered(fields, { provider_fields: { extra_content: signature } }));
  expect(lastAssistant(server)).toEqual({
    role: 'assistant',
    content: null,
    reasoning_content: 'I look.',
    tool_calls: [{ id: 'a', type: 'function', function: { name: 'shell', arguments: '{}' }, extra_content: signature }],
  });
});

const refusal = (message: string) => ({ status: 400, body: [{ error: { message } }] });

test.each([
  ["property 'messages.1.assistant.reasoning_content' is unsupported", { reasoning_content: 'hm' }, undefined],
  ['Missing `reasoning_content` field in the assistant message at message index 1', undefined, ''],
])(
  'an endpoint that answers "%s" gets the request in another style, and that style from then on',
  async (words, own, sent) => {
    const { server, model } = await endpoint((seen) =>
      seen.body.messages.some((one) => one.role === 'assistant' && Reflect.get(one, 'reasoning_content') !== sent)
        ? refusal(words)
        : { text: 'ok' },
    );
    const messages = answered(own ? { provider_fields: own } : {});
    expect((await ask(model, messages)).text).toBe('ok');
    expect((await ask(model, messages)).text).toBe('ok');
    expect(server.requests).toHaveLength(3);
  },
);

test('a call without a signature, made by another model, gets the placeholder that Gemini takes for one', async () => {
  const { server, model } = await endpoint((seen) =>
    JSON.stringify(seen.body).includes('thought_signature')
      ? { text: 'ok' }
      : refusal('Function call is missing a thought_signature in functionCall parts.'),
  );
  expect((await ask(model, answered({}))).text).toBe('ok');
  expect(server.requests).toHaveLength(2);
});

test.each([
  { words: "Unexpected role 'user' after role 'tool'", status: 400 },
  { words: 'After the optional system message, conversation roles must alternate user/assistant/…', status: 500 },
])('an endpoint that wants users and assistants in turn ($words) gets them so', async ({ words, status }) => {
  const order = (roles: string[]) => roles.join(' ');
  const wanted = 'system user assistant tool assistant user';
  const { server, model } = await endpoint((seen) =>
    order(seen.body.messages.map(({ role }) => role)) === wanted
      ? { text: 'ok' }
      : { status, body: { error: { message: words } } },
  );
  const conversation: ChatMessage[] = [
    { role: 'system', content: 'sys' },
    user('Begin.'),
    user('It is Monday.'),
    { role: 'assistant', content: 'I plan.' },
    ...answered({}).slice(1),
    user('Plan: 1/2'),
    user('Go on.'),
  ];
  expect((await ask(model, conversation)).text).toBe('ok');
  expect((await ask(model, conversation)).text).toBe('ok');
  expect(server.requests).toHaveLength(3);
  const sent = server.requests.at(-1)?.body.messages ?? [];
  expect(sent.map(({ content }) => content)).toEqual([
    'sys',
    'Begin.\n\nIt is Monday.',
    'I plan.',
    'ok',
    'OK.',
    'Plan: 1/2\n\nGo on.',
  ]);
});

test('an endpoint that refuses every style is asked a bounded number of times', async () => {
  const { server, model } = await endpoint((seen) =>
    refusal(seen.index % 2 === 0 ? 'Missing `reasoning_content`' : '`reasoning_content` is unsupported'),
  );
  const messages = answered({});
  let last = await fault(model, messages);
  while (last.retry && server.requests.length < 20) last = await fault(model, messages);
  expect(last).toMatchObject({ kind: 'rejected', retry: false });
  expect(server.requests.length).toBeLessThanOrEqual(12);
});
