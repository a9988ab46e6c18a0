import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { type BaseEvent, buildResumeArray, EventType, HttpAgent } from '@ag-ui/client';
import { expect, test, vi } from 'vitest';
import { openAccessTokens } from '../../src/client/actions/access.ts';
import { workspacePaths } from '../../src/store/layout/layout.ts';
import { type Serving, serveHere, serveWorkspace } from '../http/serving.ts';
import { type Setup, script, setup } from '../support/agentctl.ts';
import { TEST_SETTINGS } from '../support/daemon-here.ts';

/** A workspace with a daemon whose model plays `answers`, and `agentctl serve --ag-ui` beside it. */
async function agUiSetup(answers: object[], settings: object = {}): Promise<Setup & { serving: Serving }> {
  const place = setup();
  mkdirSync(place.root, { recursive: true, mode: 0o700 });
  writeFileSync(place.path('agentd.json'), JSON.stringify({ ...TEST_SETTINGS, ...settings }));
  await place.serveHere('--model', script(place, answers));
  return { ...place, serving: await serveHere(place, 'ag-ui') };
}

/** The client of AG-UI, which refuses events that are malformed or in a wrong order. */
const agentOf = ({ url, token }: Pick<Serving, 'url' | 'token'>, threadId: string): HttpAgent =>
  new HttpAgent({ url: `${url}/ag-ui`, threadId, headers: { authorization: `Bearer ${token}` } });

/** Says something, and answers with the events of the run. */
async function say(agent: HttpAgent, id: string, content: string, resume?: Resume): Promise<BaseEvent[]> {
  agent.addMessage({ id, role: 'user', content });
  return run(agent, resume);
}

type Resume = ReturnType<typeof buildResumeArray>;

async function run(agent: HttpAgent, resume?: Resume): Promise<BaseEvent[]> {
  const events: BaseEvent[] = [];
  await agent.runAgent({ ...(resume && { resume }) }, { onEvent: ({ event }) => void events.push(event) });
  return events;
}

/** Why a run is refused, by the client or the server. The client prints it as well. */
async function refusal(agent: HttpAgent, resume?: Resume): Promise<string> {
  const printed = vi.spyOn(console, 'error').mockImplementation(() => {});
  const error = await run(agent, resume).then(
    () => 'It was not.',
    (error: Error) => error.message,
  );
  printed.mockRestore();
  return error;
}

/** The answer to everything that the client was asked, as it builds it. */
const answers = ({ pendingInterrupts }: HttpAgent, payload: unknown): Resume =>
  buildResumeArray(
    pendingInterrupts,
    Object.fromEntries(pendingInterrupts.map(({ id }) => [id, { status: 'resolved', payload }])),
  );
const abandons = ({ pendingInterrupts }: HttpAgent): Resume =>
  pendingInterrupts.map(({ id }) => ({ interruptId: id, status: 'cancelled' }));

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
  expect(textsOf(agent).at(-1)).toBe('assistant: Tell: There are three.');

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

test('a run that pauses succeeds with its steps ended and says so, one that fails is an error, and a question is an interrupt', async () => {
  const place = await agUiSetup(
    [
      { when: 'long', text: '[Step] Dig\nOn.', calls: [{ name: 'shell', args: { command: 'true' } }] },
      {
        when: 'paint',
        text: '[Step] Paint',
        calls: [{ name: 'ask_user', args: { question: 'Which?', choices: ['red', 'blue'] } }],
      },
      { when: 'paint', text: '[Done: Paint] Blue.' },
      { text: '[Done: Dig] Dug.' },
    ],
    { limits: { iterations: 1 } },
  );
  const agent = agentOf(place.serving, 'demo');
  const events = await say(agent, 'u1', 'a long one');
  expect(typesOf(events).slice(-2)).toEqual(['STEP_FINISHED', 'RUN_FINISHED']);
  expect(events.at(-1)).toMatchObject({ outcome: { type: 'success' }, result: { status: 'paused', reason: 'limit' } });
  expect(agent.state).toMatchObject({ plan: { status: 'paused', steps: [{ status: 'running' }] } });
  expect(textsOf(agent).at(-1)).toContain('Say "continue" to resume');
  const resumed = await say(agent, 'u2', 'continue');
  expect(typesOf(resumed)).toEqual(expect.arrayContaining(['STEP_STARTED', 'STEP_FINISHED', 'RUN_FINISHED']));
  expect(resumed.at(-1)).toMatchObject({ outcome: { type: 'success' }, result: { status: 'done' } });
  expect(agent.state).toMatchObject({ plan: { status: 'completed' } });

  const other = agentOf(place.serving, 'other');
  const asked = await say(other, 'u1', 'paint it');
  expect(typesOf(asked).slice(-2)).toEqual(['STEP_FINISHED', 'RUN_FINISHED']);
  expect(other.pendingInterrupts).toMatchObject([
    {
      id: expect.stringMatching(/^question-\d+\.0$/),
      ...{ reason: 'input_required', message: 'Which?' },
      responseSchema: { required: ['answer'], properties: { answer: { examples: ['red', 'blue'] } } },
    },
  ]);
  expect(textsOf(other).at(-1)).toMatch(/Which\?[\s\S]*red/);
  // The client sends nothing that leaves it unanswered, and the server takes nothing that does not fit.
  expect(await refusal(other)).toContain('not addressed by resume');
  expect(await refusal(other, answers(other, { approved: true }))).toContain('some words');
  const before = answers(other, { answer: 'blue' });
  expect((await run(other, before)).at(-1)).toMatchObject({ outcome: { type: 'success' }, result: { status: 'done' } });
  expect(other.pendingInterrupts).toEqual([]);
  expect(other.state).toMatchObject({ plan: { status: 'completed' } });
  // The same answer again is the same run; one to what nobody asks any more is said to be none.
  expect((await run(other, before)).at(-1)).toMatchObject({ result: { status: 'done' } });
  const late = await run(other, [{ interruptId: 'question-1.0', status: 'resolved', payload: 'red' }]);
  expect(typesOf(late).slice(0, 2)).toEqual(['RUN_STARTED', 'STATE_SNAPSHOT']);
  expect(textsOf(other).at(-1)).toBe('assistant: This was answered elsewhere, or is asked no more.');
  expect(late.at(-1)).toMatchObject({ outcome: { type: 'success' } });
  const refused = await say(other, 'u2', '/approve 7');
  expect(refused.at(-1)).toEqual({ type: 'RUN_ERROR', code: 'rejected', message: 'No call is waiting for approval.' });
});

test('a call that waits is an interrupt: only an answer to that call, by who may approve, lets it run', async () => {
  const shell = (command: string) => [{ name: 'shell', args: { command } }];
  const place = await agUiSetup(
    [
      { text: '', calls: shell('echo one > one') },
      { text: 'It is done.' },
      { text: '', calls: shell('echo two > two') },
      { text: 'It is not done.' },
      { text: '', calls: shell('echo three > three') },
      { text: 'As you like.' },
      { text: '', calls: shell('echo three > three') },
    ],
    { permissions: [{ ask: 'shell' }] },
  );
  const ran = (name: string) => existsSync(place.path('.sessions', 'demo', 'work', name));
  const agent = agentOf(place.serving, 'demo');
  const asked = await say(agent, 'u1', 'the first');
  expect(typesOf(asked)).toEqual(
    expect.arrayContaining(['TOOL_CALL_START', 'TOOL_CALL_ARGS', 'TOOL_CALL_END', 'RUN_FINISHED']),
  );
  const [call] = agent.messages.flatMap((message) => (message.role === 'assistant' ? (message.toolCalls ?? []) : []));
  const [open] = agent.pendingInterrupts;
  const { hash } = JSON.parse(readFileSync(place.path('.sessions', 'demo', 'approvals', '1.json'), 'utf8'));
  expect(open).toMatchObject({
    ...{ id: `approval-1-${hash}`, reason: 'tool_call', toolCallId: call?.id, expiresAt: expect.any(String) },
    message: expect.stringContaining('echo one > one'),
    responseSchema: { properties: { approved: { type: 'boolean' } }, required: ['approved'] },
    metadata: { agentd: { session: 'demo', id: 1, hash } },
  });

  // Neither words, nor the hash of another call, nor a token that may only send.
  const words = agentOf(place.serving, 'demo');
  const refusals: Array<[text: string, resume: () => Resume | undefined]> = [
    ['yes', () => undefined],
    ['/approve 1', () => abandons(words)],
  ];
  for (const [text, resume] of refusals) {
    const said = await say(words, text, text, resume());
    expect(said.at(-1)).toMatchObject({ outcome: { type: 'interrupt', interrupts: [{ id: open?.id }] } });
    expect(textsOf(words).at(-1)).toContain('was not sent');
  }
  const forged = [{ ...answers(agent, { approved: true })[0], interruptId: `approval-1-${'0'.repeat(64)}` }] as Resume;
  const other = await run(agentOf(place.serving, 'demo'), forged);
  expect(other.at(-1)).toMatchObject({ outcome: { type: 'interrupt', interrupts: [{ id: open?.id }] } });
  const token = await openAccessTokens(workspacePaths(place.root)).add({ name: 'bo', role: 'send', sessions: ['*'] });
  const sender = agentOf({ url: place.serving.url, token }, 'demo');
  expect(await refusal(sender, answers(agent, { approved: true }))).toContain('role \\"approve\\"');
  expect(await refusal(agent, answers(agent, 'yes'))).toContain('{\\"approved\\": true}');
  expect(ran('one')).toBe(false);

  const before = answers(agent, { approved: true });
  const allowed = await run(agent, before);
  expect(typesOf(allowed)).not.toContain('TOOL_CALL_START');
  expect(allowed).toContainEqual(expect.objectContaining({ type: 'TOOL_CALL_RESULT', toolCallId: call?.id }));
  expect(allowed.at(-1)).toMatchObject({ outcome: { type: 'success' } });
  expect([ran('one'), textsOf(agent).at(-1)]).toEqual([true, 'assistant: It is done.']);
  expect(agent.pendingInterrupts).toEqual([]);

  // Denied; and left unanswered, by a message instead, or by none: then the run pauses.
  await say(agent, 'u2', 'the second');
  expect(agent.pendingInterrupts).toMatchObject([{ id: expect.stringMatching(/^approval-2-/) }]);
  expect((await run(agent, answers(agent, { approved: false }))).at(-1)).toMatchObject({
    outcome: { type: 'success' },
  });
  await say(agent, 'u3', 'the third');
  const instead = await say(agent, 'u4', 'I would rather not', abandons(agent));
  expect(instead.at(-1)).toMatchObject({ outcome: { type: 'success' } });
  expect(textsOf(agent).at(-1)).toBe('assistant: As you like.');
  await say(agent, 'u5', 'the third, after all');
  await run(agent, abandons(agent));
  expect(textsOf(agent).at(-1)).toMatch(/^assistant: .*[Pp]aus/);
  expect((await place.serving.ask('GET', '/api/sessions/demo')).json).toMatchObject({
    standing: 'paused',
    approval: null,
  });
  expect([ran('two'), ran('three'), agent.pendingInterrupts]).toEqual([false, false, []]);
});

test('a call of a child session is an interrupt of the session above it, which goes on with the answer', async () => {
  const place = await agUiSetup(
    [
      { text: 'I have it written.', calls: [{ name: 'spawn', args: { task: 'write it' } }] },
      { text: '', calls: [{ name: 'shell', args: { command: 'echo a >> ran' } }] },
      { text: 'Written.' },
      { text: 'All of it is done.', repeat: true },
    ],
    { permissions: [{ ask: 'shell' }] },
  );
  const agent = agentOf(place.serving, 'demo');
  const asked = await say(agent, 'u1', 'delegate it');
  expect(typesOf(asked).slice(-2)).toEqual(['STEP_FINISHED', 'RUN_FINISHED']);
  const [open] = agent.pendingInterrupts;
  expect(agent.pendingInterrupts).toMatchObject([
    {
      ...{ id: expect.stringMatching(/^approval-1-[0-9a-f]{64}-demo~step_1/), reason: 'confirmation' },
      message: expect.stringMatching(/demo~step_1[\s\S]*echo a >> ran/),
    },
  ]);
  const token = await openAccessTokens(workspacePaths(place.root)).add({ name: 'bo', role: 'send', sessions: ['*'] });
  const sender = agentOf({ url: place.serving.url, token }, 'demo');
  expect(await refusal(sender, answers(agent, { approved: true }))).toContain('role \\"approve\\"');
  expect((await place.serving.ask('GET', '/api/sessions/demo/approvals')).text).toContain(open?.id.slice(11, 75));

  const { session } = open?.metadata?.['agentd'] ?? {};
  const before = answers(agent, { approved: true });
  const followed = await run(agent, before);
  expect(typesOf(followed).slice(0, 3)).toEqual(['RUN_STARTED', 'STATE_SNAPSHOT', 'STEP_STARTED']);
  // Every session above that one asks as well; the last one is that of the thread.
  let last = followed;
  while (agent.pendingInterrupts.length > 0) last = await run(agent, answers(agent, { approved: true }));
  expect(last.at(-1)).toMatchObject({ outcome: { type: 'success' }, result: { status: 'done' } });
  expect(agent.state).toMatchObject({ plan: { status: 'completed' } });
  const texts = textsOf(agent);
  expect(texts.filter((text) => text === 'assistant: I have it written.')).toHaveLength(1);
  // It counts once, and nothing is told twice.
  expect(await run(agent, before)).toHaveLength(6);
  const log = (await place.here(['log', session, '--json'])).out.split('\n');
  expect(log.filter((line) => line.includes('"approval.answered"'))).toEqual([
    expect.stringContaining('"decision":"allow"'),
  ]);
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
