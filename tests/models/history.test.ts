import { describe, expect, test } from 'vitest';
import type { ChatMessage } from '../../src/engine/ports/session-ports.ts';
import { openEndpointModel } from '../../src/models/endpoint/openai-endpoint.ts';
import type { ScriptEntry } from '../support/openai-server.ts';
import fc from '../support/property.ts';
import { modelServer } from '../support/temporary.ts';
import { ask, fault, tool, user } from './ask.ts';

async function endpoint(script: ScriptEntry) {
  const server = await modelServer(script);
  return { server, model: openEndpointModel({ baseUrl: server.url, apiKey: undefined, name: 'm', timeoutMs: 10_000 }) };
}

const called = (id: string, name: string, args: string, more: object = {}): ChatMessage => ({
  ...{ role: 'assistant', content: null, ...more },
  tool_calls: [{ id, type: 'function', function: { name, arguments: args } }],
});
const refusal = (status: number, error: object) => ({ status, body: { error } });

/** A conversation with what other models and endpoints left in it. */
const HISTORY: ChatMessage[] = [
  { role: 'system', content: 'rules' },
  user('Append one.'),
  called('call_0_0', 'functions.shell', '{"command":"echo one"}', { provider_fields: { reasoning_content: 'Hm.' } }),
  tool('call_0_0', ''),
  { role: 'assistant', content: 'One is appended.' },
  user('continue'),
];

describe('an endpoint that refuses what is in the history', () => {
  const cases: Array<[string, (body: { messages: never[] }) => boolean, ReturnType<typeof refusal>]> = [
    [
      'ids of another form',
      ({ messages }) =>
        messages.every(({ tool_calls = [] }: { tool_calls?: Array<{ id: string }> }) =>
          tool_calls.every(({ id }) => /^[a-zA-Z0-9]{9}$/.test(id)),
        ),
      {
        status: 400,
        body: {
          error: {
            object: 'error',
            message: 'Tool call id was call_0_0 but must be a-z, A-Z, 0-9, with a length of 9.',
            type: 'invalid_function_call',
            code: '3280',
          },
        },
      },
    ],
    [
      'content null',
      ({ messages }) => messages.every(({ content }) => content !== null),
      refusal(400, { message: 'Input should be a valid string' }),
    ],
    [
      'content null and an empty content',
      ({ messages }) => messages.every(({ content }) => Boolean(content)),
      refusal(400, { message: 'messages: text content blocks must be non-empty' }),
    ],
    [
      'a system role',
      ({ messages }) => messages.every(({ role }) => role !== 'system'),
      refusal(500, { message: 'System role not supported' }),
    ],
    [
      'calls at all, without a word about them',
      ({ messages }) => messages.every(({ role, tool_calls }) => role !== 'tool' && tool_calls === undefined),
      refusal(400, { message: 'Bad request' }),
    ],
  ];
  test.each(cases)('%s, gets what it accepts, and from then on at once', async (_, accepts, refused) => {
    const { server, model } = await endpoint((seen) => (accepts(seen.body as never) ? { text: 'fine' } : refused));
    expect((await ask(model, HISTORY)).text).toBe('fine');
    const before = server.requests.length;
    const more = [...HISTORY, { role: 'assistant' as const, content: 'fine' }, user('And again.')];
    expect((await ask(model, more)).text).toBe('fine');
    expect(server.requests.length).toBe(before + 1);
    expect(
      server.requests
        .at(-1)
        ?.body.messages.map(({ content }) => content)
        .join('\n'),
    ).toContain('One is appended.');
  });

  test('one message for its words is asked again without it, which is recorded', async () => {
    const { server, model } = await endpoint((seen) =>
      JSON.stringify(seen.body.messages).includes('One is appended')
        ? refusal(400, { message: 'messages[4]: data_inspection_failed, inappropriate content' })
        : { text: 'fine' },
    );
    expect(await fault(model, HISTORY)).toMatchObject({
      retry: true,
      waitMs: 0,
      message: expect.stringContaining('tried again without'),
    });
    expect((await ask(model, HISTORY)).text).toBe('fine');
    const sent = server.requests.at(-1)?.body.messages.map(({ content }) => content) ?? [];
    expect(sent).toContain('Append one.');
    expect(sent.join('\n')).toContain('Messages are missing here');
  });

  test('everything gets the first refusal as its fault, and nothing is left out of later requests', async () => {
    let isDown = true;
    const { server, model } = await endpoint((seen) =>
      isDown ? refusal(400, { message: `Bad request ${seen.index}` }) : { text: 'fine' },
    );
    let last = await fault(model, HISTORY);
    for (let tries = 0; last.retry && tries < 6; tries++) last = await fault(model, HISTORY);
    expect(last).toMatchObject({ kind: 'rejected', retry: false });
    isDown = false;
    await ask(model, HISTORY);
    expect(server.requests.at(-1)?.body.messages).toHaveLength(HISTORY.length);
    expect(server.requests.length).toBeLessThan(12);
  });

  test('a wrong key, an unknown model or an empty account is no matter of the history', async () => {
    for (const message of [
      'API key not valid. Please pass a valid API key.',
      'The model `m` does not exist.',
      'This request requires more credits',
    ]) {
      const { server, model } = await endpoint(refusal(400, { message }));
      expect(await fault(model, HISTORY)).toMatchObject({ kind: 'rejected', retry: false });
      expect(server.requests).toHaveLength(1);
    }
  });
});

test('no session is stuck on its history: whichever field of an earlier message is refused, asking again helps', async () => {
  const fields = HISTORY.slice(1, -1).flatMap((message) =>
    leavesOf(JSON.parse(JSON.stringify(message))).flatMap(([path, value]) =>
      path === 'role' && value !== 'tool' ? [] : [{ path, value }],
    ),
  );
  const words = fc.constantFrom('Bad request', 'invalid message', 'Input should be a valid string', '{}');
  await fc.assert(
    fc.asyncProperty(
      fc.constantFrom(...fields),
      words,
      fc.constantFrom(400, 422),
      async ({ path, value }, message, status) => {
        const { model } = await endpoint((seen) =>
          seen.body.messages
            .slice(0, -1)
            .some((one) => leavesOf(one).some(([own, has]) => own === path && has === value))
            ? refusal(status, { message })
            : { text: 'fine' },
        );
        let said = '';
        for (let tries = 0; said === '' && tries < 5; tries++)
          said = await ask(model, HISTORY).then(
            ({ text }) => text,
            () => '',
          );
        expect(said).toBe('fine');
      },
    ),
    { numRuns: 40 },
  );
});

/** The plain values in a message with their paths. */
function leavesOf(value: unknown, path = ''): Array<[string, unknown]> {
  if (typeof value !== 'object' || value === null) return [[path, value]];
  return Object.entries(value).flatMap(([key, one]) => leavesOf(one, path ? `${path}.${key}` : key));
}
