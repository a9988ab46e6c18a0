import { existsSync, writeFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { serveHere } from '../http/serving.ts';
import { ask, clientOf, openAiSetup, userMessages, waitForFile } from './openai-setup.ts';

const LOOK = { text: 'Let me look.', calls: [{ name: 'shell', args: { command: 'echo found it' } }] };

test('a completion is the text of the reply, and a header names the session', async () => {
  const place = await openAiSetup([LOOK, { text: 'Here it is.\nAll of it.' }]);
  const { text, finish, session } = await ask(place, userMessages('Where is it?'));
  expect([text, finish]).toEqual(['Here it is.\nAll of it.', 'stop']);
  expect(place.names()).toEqual([session]);
});

test("a streamed completion has the text as content and the agent's activity as reasoning", async () => {
  const { openai } = await openAiSetup([LOOK, { text: 'Here it is.' }]);
  const stream = openai.chat.completions.stream({
    model: 'agentd',
    messages: userMessages('Where is it?'),
    stream_options: { include_usage: true },
  });
  let reasoning = '';
  for await (const { choices } of stream) reasoning += Object(choices[0]?.delta).reasoning_content ?? '';
  expect(await stream.finalContent()).toBe('Let me look.\n\nHere it is.');
  expect(reasoning).toBe('shell: echo found it\n');
  expect((await stream.totalUsage()).total_tokens).toBeGreaterThan(0);
});

test('a stream contains only chunks, and a comment every 10 s', async () => {
  const { serving, path, has } = await openAiSetup([
    { text: 'I wait.', calls: [waitForFile('go')] },
    { text: 'Done.' },
  ]);
  const body = { model: 'agentd/demo', stream: true, messages: userMessages('Get it done') };
  const answer = serving.ask('POST', '/v1/chat/completions', { body });
  await has('.sessions/demo/work');
  await new Promise((later) => setTimeout(later, 11_000));
  writeFileSync(path('.sessions', 'demo', 'work', 'go'), '');
  const { text, headers } = await answer;
  expect(headers['content-type']).toBe('text/event-stream');
  const lines = text.split('\n').filter(Boolean);
  expect(lines.pop()).toBe('data: [DONE]');
  const [comments, chunks] = [
    lines.filter((line) => line.startsWith(':')),
    lines.filter((line) => !line.startsWith(':')),
  ];
  expect(comments.length).toBeGreaterThan(0);
  expect(new Set(comments)).toEqual(new Set([': keepalive']));
  for (const line of chunks)
    expect(JSON.parse(line.replace(/^data: /, ''))).toMatchObject({ object: 'chat.completion.chunk', choices: [{}] });
});

test('steps are reported by their names', async () => {
  const { openai } = await openAiSetup([
    { text: '[Step] Fetch\n[Step] Read', calls: [{ name: 'shell', args: { command: 'true' } }] },
    { text: '[Done: Fetch] Fetched.', calls: [{ name: 'shell', args: { command: 'true' } }] },
    { text: '[Done: Read] Read it all.' },
  ]);
  const stream = await openai.chat.completions.create({
    model: 'agentd',
    messages: userMessages('Do both'),
    stream: true,
  });
  let reasoning = '';
  for await (const { choices } of stream) reasoning += Object(choices[0]?.delta).reasoning_content ?? '';
  expect(reasoning).toContain('step: Fetch\n');
  expect(reasoning).toContain('step: Read\n');
});

test('a plan that the planner answers as JSON is not streamed', async () => {
  const { openai, ctl, names } = await openAiSetup(
    [
      { asked: 'Make the plan for the last message', text: '{"steps": ["Fetch it", "Read it"]}' },
      { text: '[Done] Fetched.' },
      { text: '[Done] Read it all.' },
    ],
    { mode: 'plan-act' },
  );
  const stream = openai.chat.completions.stream({ model: 'agentd', messages: userMessages('Do both') });
  let reasoning = '';
  for await (const { choices } of stream) reasoning += Object(choices[0]?.delta).reasoning_content ?? '';
  expect(await stream.finalContent()).toMatch(/^Fetched\.\n\nRead it all\./);
  expect(reasoning).toContain('step: Fetch it\n');
  expect((await ctl(['log', names()[0] ?? '', '--json'])).out).toContain('"planner_query":"plan"');
});

test('a question, an approval and a pause are messages that say what to answer', async () => {
  const args = { question: 'Which?', choices: ['red', 'blue'] };
  const place = await openAiSetup(
    [
      { when: 'paint', text: '', calls: [{ name: 'ask_user', args }] },
      { when: 'run it', text: '', calls: [{ name: 'shell', args: { command: 'echo ran > ran.txt' } }] },
      { when: 'long', text: 'On.', calls: [{ name: 'shell', args: { command: 'true' } }] },
      { text: 'That was all.' },
    ],
    { permissions: [{ ask: 'shell(echo *)' }], limits: { iterations: 1 } },
  );
  const say = (session: string, text: string) => ask(place, userMessages(text), { model: `agentd/${session}` });
  const question = await say('one', 'paint it');
  expect(question).toMatchObject({ text: expect.stringMatching(/Which\?[\s\S]*red[\s\S]*blue/), finish: 'stop' });
  expect((await say('one', 'red')).text).toBe('That was all.');
  const ran = place.path('.sessions', 'two', 'work', 'ran.txt');
  expect((await say('two', 'run it')).text).toMatch(/Approve this call\?[\s\S]*To answer: "yes" or "no"/);
  expect(existsSync(ran)).toBe(false);
  await say('two', 'yes');
  expect(existsSync(ran)).toBe(true);
  const paused = await say('three', 'a long one');
  expect(paused).toMatchObject({ text: expect.stringContaining('Say "continue" to resume'), finish: 'stop' });
});

test('a pause is a whole answer to the readers of the SDK, which throw at others, and says that it is a pause', async () => {
  const { openai } = await openAiSetup([{ text: 'On.', calls: [{ name: 'shell', args: { command: 'true' } }] }], {
    limits: { iterations: 1 },
  });
  const chat = (session: string) => ({ model: `agentd/${session}`, messages: userMessages('a long one') });
  const parsed = await openai.chat.completions.parse(chat('one'));
  expect(parsed).toMatchObject({ agentd: { status: 'paused', reason: 'limit' } });
  expect(await openai.chat.completions.stream(chat('two')).finalContent()).toContain('Say "continue"');
  const response = await openai.responses.stream({ model: 'agentd/three', input: 'a long one' }).finalResponse();
  const metadata = { agentd_status: 'paused', agentd_reason: 'limit' };
  expect(response).toMatchObject({ status: 'completed', incomplete_details: null, metadata });
  expect((await openai.responses.parse({ model: 'agentd/four', input: 'a long one' })).status).toBe('completed');
});

test('a client that disconnects, with or without a stream, ends no run, and the server reports no error', async () => {
  const { openai, path, ctl, has, serving } = await openAiSetup([
    { text: 'I wait.', calls: [waitForFile('go')] },
    { text: 'It is done.' },
  ]);
  const stream = await openai.chat.completions.create({
    model: 'agentd/demo',
    messages: userMessages('Get it done'),
    stream: true,
  });
  for await (const { choices } of stream) if (choices[0]?.delta.content) break;
  stream.controller.abort();
  const gone = new AbortController();
  const other = { model: 'agentd/other', messages: userMessages('Get it done') };
  const whole = openai.chat.completions.create(other, { signal: gone.signal });
  await has('.sessions/other/work');
  gone.abort();
  await expect(whole).rejects.toThrow('aborted');
  writeFileSync(path('.sessions', 'demo', 'work', 'go'), '');
  expect((await ctl(['watch', 'demo'])).code).toBe(0);
  expect((await ctl(['show', 'demo', '--json'])).out).toContain('It is done.');
  await serving.close();
});

test('when the server stops, a stream says so, and the same request to the next server gets the answer', async () => {
  const place = await openAiSetup([{ text: 'I wait.', calls: [waitForFile('go')] }, { text: 'It is done.' }]);
  const request = { model: 'agentd/demo', messages: userMessages('Get it done') };
  const stream = await place.openai.chat.completions.create({ ...request, stream: true });
  const read = async () => {
    for await (const { choices } of stream) if (choices[0]?.delta.content) void place.serving.close();
  };
  await expect(read()).rejects.toThrow(/the end of the server; the run continues/);
  writeFileSync(place.path('.sessions', 'demo', 'work', 'go'), '');
  const next = clientOf(await serveHere(place, 'openai'));
  expect((await ask({ openai: next }, userMessages('Get it done'), { model: 'agentd/demo' })).text).toBe('It is done.');
  expect(await place.received('demo')).toEqual(['Get it done']);
});
