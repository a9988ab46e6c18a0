import { mkdirSync, writeFileSync } from 'node:fs';
import { type BaseEvent, EventType, HttpAgent } from '@ag-ui/client';
import { expect, test } from 'vitest';
import { jsonPatch } from '../../src/frontends/ag-ui/json-patch.ts';
import { type Serving, serveHere, serveWorkspace } from '../http/serving.ts';
import { type Setup, script, setup } from '../support/agentctl.ts';
import fc from '../support/property.ts';

/** A workspace with a daemon whose model plays `answers`, and `agentctl serve --ag-ui` beside it. */
async function agUiSetup(answers: object[], settings: object = {}): Promise<Setup & { serving: Serving }> {
  const place = setup();
  mkdirSync(place.root, { recursive: true, mode: 0o700 });
  writeFileSync(place.path('agentd.json'), JSON.stringify({ sandbox: 'none', ...settings }));
  await place.serveHere('--model', script(place, answers));
  return { ...place, serving: await serveHere(place, 'ag-ui') };
}

/** The client of AG-UI, which refuses events that are malformed or in a wrong order. */
const agentOf = ({ url, token }: Pick<Serving, 'url' | 'token'>, threadId: string): HttpAgent =>
  new HttpAgent({ url: `${url}/ag-ui`, threadId, headers: { authorization: `Bearer ${token}` } });

/** Says something, and answers with the events of the run. */
async function say(agent: HttpAgent, id: string, content: string): Promise<BaseEvent[]> {
  agent.addMessage({ id, role: 'user', content });
  return run(agent);
}

async function run(agent: HttpAgent): Promise<BaseEvent[]> {
  const events: BaseEvent[] = [];
  await agent.runAgent({}, { onEvent: ({ event }) => void events.push(event) });
  return events;
}

const typesOf = (events: BaseEvent[]) =>
  events.map(({ type }) => String(type)).filter((type, at, all) => type !== 'STATE_DELTA' && type !== all[at - 1]);
const textsOf = (agent: HttpAgent) => agent.messages.map(({ role, content }) => `${role}: ${String(content ?? '')}`);

const COUNT = { name: 'shell', args: { command: 'echo 3' } };

test('a run has its texts, tool calls and steps in an order that the client of AG-UI takes, and the plan as its state', async () => {
  const place = await agUiSetup([
    { text: '[Step] Count\n[Step] Tell\nI count.', calls: [COUNT] },
    { text: '[Done: Count] Three.', calls: [{ name: 'shell', args: { command: 'true' } }] },
    { text: '[Done: Tell] There are three.' },
    { text: 'You are welcome.' },
  ]);
  const agent = agentOf(place.serving, 'demo');
  const events = await say(agent, 'u1', 'Count and tell');
  expect(typesOf(events)).toEqual([
    ...['RUN_STARTED', 'STATE_SNAPSHOT', 'TEXT_MESSAGE_START', 'TEXT_MESSAGE_CONTENT', 'TEXT_MESSAGE_END'],
    ...['STEP_STARTED', 'TOOL_CALL_START', 'TOOL_CALL_ARGS', 'TOOL_CALL_END', 'TOOL_CALL_RESULT'],
    ...['TEXT_MESSAGE_START', 'TEXT_MESSAGE_CONTENT', 'TEXT_MESSAGE_END'],
    ...['TOOL_CALL_START', 'TOOL_CALL_ARGS', 'TOOL_CALL_END', 'TOOL_CALL_RESULT', 'STEP_FINISHED', 'STEP_STARTED'],
    ...['TEXT_MESSAGE_START', 'TEXT_MESSAGE_CONTENT', 'TEXT_MESSAGE_END', 'STEP_FINISHED'],
    ...['RUN_FINISHED'],
  ]);
  expect(events.at(-1)).toMatchObject({ threadId: 'demo', result: { status: 'done' } });
  const { json } = await place.serving.ask('GET', '/api/sessions/demo/plan');
  expect(agent.state).toEqual({ plan: json });
  expect(json['steps']).toMatchObject([{ status: 'completed' }, { status: 'completed' }]);
  const call = agent.messages.find(({ role }) => role === 'tool');
  expect(call?.content).toContain('3');
  expect(textsOf(agent).at(-1)).toBe('assistant: [Done: Tell] There are three.');

  // The same request is the same message, and only what is new is told of a longer conversation.
  agent.setMessages(agent.messages.slice(0, 1));
  const again = await run(agent);
  expect(again.filter(({ type }) => type === EventType.STEP_FINISHED)).toHaveLength(2);
  await say(agent, 'u2', 'Thanks');
  expect(textsOf(agent).at(-1)).toBe('assistant: You are welcome.');
  const log = (await place.here(['log', 'demo', '--json'])).out.split('\n').filter(Boolean);
  const received = log.map((line) => JSON.parse(line)).filter(({ type }) => type === 'message.received');
  expect(received.map(({ body }) => body.text)).toEqual(['Count and tell', 'Thanks']);
});

test('a run that pauses or asks ends with its steps ended and says how it goes on; one that fails is an error', async () => {
  const place = await agUiSetup(
    [
      { when: 'long', text: '[Step] Dig\nOn.', calls: [{ name: 'shell', args: { command: 'true' } }] },
      {
        when: 'paint',
        text: '',
        calls: [{ name: 'ask_user', args: { question: 'Which?', choices: ['red', 'blue'] } }],
      },
      { text: '[Done: Dig] Dug.' },
    ],
    { limits: { iterations: 1 } },
  );
  const agent = agentOf(place.serving, 'demo');
  const events = await say(agent, 'u1', 'a long one');
  expect(typesOf(events).slice(-2)).toEqual(['STEP_FINISHED', 'RUN_FINISHED']);
  expect(events.at(-1)).toMatchObject({ result: { status: 'paused', reason: 'limit' } });
  expect(agent.state).toMatchObject({
    plan: { status: 'paused', steps: [{ status: 'running' }] },
  });
  expect(textsOf(agent).at(-1)).toContain('Say "continue" to resume');
  const resumed = await say(agent, 'u2', 'continue');
  expect(typesOf(resumed)).toEqual(expect.arrayContaining(['STEP_STARTED', 'STEP_FINISHED', 'RUN_FINISHED']));
  expect(agent.state).toMatchObject({ plan: { status: 'completed' } });

  const other = agentOf(place.serving, 'other');
  const asked = await say(other, 'u1', 'paint it');
  expect(asked.at(-1)).toMatchObject({ result: { status: 'waiting', question: { text: 'Which?' } } });
  expect(textsOf(other).at(-1)).toMatch(/Which\?[\s\S]*red/);
  const refused = await say(other, 'u2', '/approve 7');
  expect(refused.at(-1)).toEqual({ type: 'RUN_ERROR', code: 'rejected', message: 'No call is waiting for approval.' });
});

test('what is no run is refused as HTTP has it, and makes no session; without --ag-ui there is no such path', async () => {
  const place = setup();
  const { ask } = await serveWorkspace(place, '--ag-ui');
  const input = { threadId: 't', runId: 'r', messages: [], tools: [], context: [], state: {} };
  const message = (content: unknown, role = 'user') => ({ ...input, messages: [{ id: 'm', role, content }] });
  const cases: Array<[body: object, came: RegExp]> = [
    [{ ...input, threadId: '' }, /^threadId: /],
    [input, /^none$/],
    [message('x', 'assistant'), /role "assistant"/],
    [message(' '), /without text/],
    [message([{ type: 'image', source: { type: 'url', value: 'http://x' } }]), /part of the type "image"/],
  ];
  for (const [body, came] of cases)
    expect(await ask('POST', '/ag-ui', { body })).toMatchObject({
      status: 400,
      json: { came: expect.stringMatching(came) },
    });
  expect((await ask('POST', '/ag-ui', { body: input, headers: { authorization: undefined } })).status).toBe(401);
  expect(JSON.parse((await ask('GET', '/api/sessions')).text)).toEqual([]);
  const plain = await serveHere(setup());
  expect((await plain.ask('POST', '/ag-ui', { body: message('x') })).status).toBe(404);
});

test('a patch makes the later value of the earlier one', () => {
  const keys = fc.constantFrom('a', 'b', '/', '~', '~1', '__proto__');
  const value = fc.letrec((tie) => ({
    value: fc.oneof(
      { depthSize: 'small', withCrossShrink: true },
      fc.constantFrom(null, true, 0, 1, 'x', ''),
      fc.array(tie('value'), { maxLength: 4 }),
      fc.array(fc.tuple(keys, tie('value')), { maxLength: 4 }).map((entries) => Object.fromEntries(entries)),
    ),
  })).value;
  fc.assert(
    fc.property(value, value, (before, after) => {
      let made: unknown = structuredClone(before);
      for (const { op, path, ...rest } of jsonPatch(before, after)) {
        const parts = path
          .split('/')
          .slice(1)
          .map((part) => part.replaceAll('~1', '/').replaceAll('~0', '~'));
        const given = 'value' in rest ? structuredClone(rest.value) : undefined;
        const last = parts.pop();
        if (last === undefined) {
          made = given;
          continue;
        }
        const at = parts.reduce<unknown>((inner, part) => Object(inner)[part], made);
        if (Array.isArray(at) && op === 'remove') at.splice(Number(last), 1);
        else if (Array.isArray(at) && op === 'add') at.push(given);
        else if (op === 'remove') delete Object(at)[last];
        else Object.defineProperty(at, last, { value: given, writable: true, enumerable: true, configurable: true });
      }
      expect(made).toEqual(after);
    }),
    { numRuns: 300 },
  );
});
