import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { ask, type Messages, openAiSetup, userMessages, waitForFile } from './openai-setup.ts';

const COUNT = [{ text: 'One.' }, { text: 'Two.' }, { text: 'Three.' }, { text: 'More.', repeat: true }];
const OK = [{ text: 'ok', repeat: true }];

test('the session is named by header, then by the front end, then by the body, then by the model', async () => {
  const place = await openAiSetup(OK);
  const all = { model: 'agentd/by-model', user: 'by-user', metadata: { session: 'by-metadata' } };
  const headers = { 'x-agentd-session': 'by-header', 'X-OpenWebUI-Chat-Id': 'by-front-end' };
  const hi = userMessages('hi');
  expect((await ask(place, hi, { ...all, headers })).session).toBe('by-header');
  expect((await ask(place, hi, { ...all, headers: { 'session-id': 'by-front-end' } })).session).toBe('by-front-end');
  expect((await ask(place, hi, all)).session).toBe('by-metadata');
  expect((await ask(place, hi, { ...all, metadata: null })).session).toBe('by-user');
  expect((await ask(place, hi, { model: 'agentd/by-model' })).session).toBe('by-model');
});

test('a name with characters that headers cannot contain is percent-encoded in both directions', async () => {
  const place = await openAiSetup(OK);
  const { session } = await ask(place, userMessages('hi'), { model: 'agentd/数据' });
  expect(decodeURIComponent(session ?? '')).toBe('数据');
  const headers = { 'x-agentd-session': session ?? '' };
  expect((await ask(place, userMessages('on'), { headers })).session).toBe(session);
  expect(place.names()).toEqual(['数据']);
});

test('a client that only sends its history continues its session, which receives only what is new', async () => {
  const place = await openAiSetup(COUNT);
  const messages: Messages = [{ role: 'system', content: 'You are terse.' }, ...userMessages('Count')];
  const first = await ask(place, messages);
  messages.push({ role: 'assistant', content: ` ${first.text}\n` }, ...userMessages('On'));
  const second = await ask(place, messages);
  messages.push({ role: 'assistant', content: second.text }, ...userMessages('On'));
  const third = await ask(place, messages);
  expect([first, second, third].map(({ text }) => text)).toEqual(['One.', 'Two.', 'Three.']);
  expect(place.names()).toEqual([first.session]);
  const [began, ...others] = await place.received(first.session ?? '');
  expect(began).toMatch(/^Count\n\nContext of the program[\s\S]*> You are terse\.$/);
  expect(others).toEqual(['On', 'On']);
});

test('two conversations that begin with the same text are two sessions, and each continues separately', async () => {
  const place = await openAiSetup([{ text: 'Hello.' }, { text: 'Yes.', repeat: true }]);
  const [one, two] = [await ask(place, userMessages('hi')), await ask(place, userMessages('hi'))];
  expect(one.session).not.toBe(two.session);
  const on = (more: string): Messages => [
    ...userMessages('hi'),
    { role: 'assistant', content: 'Hello.' },
    ...userMessages(more),
  ];
  const [tea, coffee] = [await ask(place, on('tea?')), await ask(place, on('coffee?'))];
  expect([tea.session, coffee.session].sort()).toEqual([one.session, two.session].sort());
});

test('an edited message or answer begins a new session that receives the history', async () => {
  const place = await openAiSetup(OK);
  const first = await ask(place, userMessages('Count'));
  const edited = await ask(place, [
    ...userMessages('Count'),
    { role: 'assistant', content: 'Never said.' },
    ...userMessages('On'),
  ]);
  expect(edited.session).not.toBe(first.session);
  const [text] = await place.received(edited.session ?? '');
  expect(text).toMatch(/^On\n\nContext[\s\S]*\[user\]\n> Count[\s\S]*\[assistant\]\n> Never said\.$/);
});

test('an answer to a pause continues the run, and a command is sent unchanged', async () => {
  const call = { name: 'shell', args: { command: 'true' } };
  const place = await openAiSetup([{ text: 'On it.', calls: [call] }, { text: 'All done.' }], {
    limits: { iterations: 1 },
  });
  const messages: Messages = [{ role: 'system', content: 'You are terse.' }, ...userMessages('Do it')];
  const paused = await ask(place, messages);
  expect(paused.finish).toBe('stop');
  messages.push({ role: 'assistant', content: paused.text }, ...userMessages('/status'));
  const status = await ask(place, messages);
  expect(status.text).toContain('paused');
  messages.push({ role: 'assistant', content: status.text }, ...userMessages('continue'));
  const done = await ask(place, messages);
  expect(done).toMatchObject({ text: 'All done.', session: paused.session });
  expect((await place.received(paused.session ?? '')).slice(1)).toEqual(['/status', 'continue']);
});

test('a request that is repeated during its run, or retried by an SDK, runs once', async () => {
  const place = await openAiSetup([
    { text: 'I wait.', calls: [waitForFile('go')] },
    { text: 'Done.' },
    { text: 'Again.' },
  ]);
  const demo = { model: 'agentd/demo' };
  const [first, second] = [ask(place, userMessages('Do it'), demo), ask(place, userMessages('Do it'), demo)];
  await place.has('.sessions/demo/work');
  writeFileSync(place.path('.sessions', 'demo', 'work', 'go'), '');
  expect([(await first).text, (await second).text]).toEqual(['Done.', 'Done.']);
  const headers = { 'x-stainless-retry-count': '1' };
  expect((await ask(place, userMessages('Do it'), { ...demo, headers })).text).toBe('Done.');
  expect(await place.received('demo')).toEqual(['Do it']);
  expect((await ask(place, userMessages('Do it'), demo)).text).toBe('Again.');
  expect(await place.received('demo')).toEqual(['Do it', 'Do it']);
});

test('requests with the same Idempotency-Key are one message', async () => {
  const place = await openAiSetup(COUNT);
  const keyed = (key: string) => ask(place, userMessages('Count'), { headers: { 'idempotency-key': key } });
  expect((await keyed('order-4711')).text).toBe('One.');
  expect((await keyed('order-4711')).text).toBe('One.');
  await keyed('order-4712');
  expect(place.names()).toHaveLength(2);
  for (const name of place.names()) expect(await place.received(name)).toEqual(['Count']);
});

test('a request for a title under the id of a chat is answered and leaves nothing behind, before and after it began', async () => {
  const place = await openAiSetup([{ when: 'title', text: 'Counting' }, { text: 'One.' }, { text: 'Two.' }]);
  const headers = { 'x-session-id': 'a-chat' };
  const title: Messages = [
    { role: 'system', content: 'You are a title generator. Output only a title for the thread.' },
    ...userMessages('Count'),
  ];
  expect(await ask(place, title, { headers })).toMatchObject({ text: 'Counting', session: null });
  expect(await ask(place, userMessages('Count'), { headers })).toMatchObject({ text: 'One.', session: 'a-chat' });
  const later = userMessages('Generate a title for this chat: Count');
  expect((await ask(place, later, { headers })).text).toBe('Counting');
  const on: Messages = [...userMessages('Count'), { role: 'assistant', content: 'One.' }, ...userMessages('On')];
  expect((await ask(place, on, { headers })).text).toBe('Two.');
  while (place.names().length > 1) await new Promise((later) => setTimeout(later, 20));
  expect(place.names()).toEqual(['a-chat']);
  expect(await place.received('a-chat')).toEqual(['Count', 'On']);
});

test("images become attachments of the message, once, and are part of a conversation's identity", async () => {
  const place = await openAiSetup([{ text: 'I see.' }, { text: 'Another.' }, { text: 'Still.' }]);
  const { openai, path, received } = place;
  const png = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==';
  const url = (base64: string) => `data:image/png;base64,${base64}`;
  const look = (base64: string): Messages => [
    {
      role: 'user',
      content: [
        { type: 'text', text: 'What is this?' },
        { type: 'image_url', image_url: { url: url(base64) } },
      ],
    },
  ];
  const options = { headers: { 'idempotency-key': 'k1' } };
  const first = await ask(place, look(png), options);
  const session = first.session ?? '';
  // A repeated request is the same message, and its image is not sent again.
  expect(await ask(place, look(png), options)).toEqual(first);
  expect(readdirSync(path('.sessions', session, 'inbox', '.files'))).toEqual([]);
  const name = /`(image-[0-9a-f]{12}\.png)`/.exec((await received(session))[0] ?? '')?.[1] ?? '';
  expect(await received(session)).toEqual([`What is this?\n\`${name}\``]);
  expect(readdirSync(path('.sessions', session, 'work', 'uploads'))).toEqual([name]);
  expect(readFileSync(path('.sessions', session, 'work', 'uploads', name)).toString('base64')).toBe(png);
  // With a history the session continues without sending its image again; another image is another conversation.
  const history: Messages = [...look(png), { role: 'assistant', content: 'I see.' }, ...userMessages('And now?')];
  expect((await ask(place, history)).session).toBe(session);
  expect(readdirSync(path('.sessions', session, 'work', 'uploads'))).toEqual([name]);
  const other = await openai.responses.create({
    model: 'agentd/other',
    input: [{ role: 'user', content: [{ type: 'input_image', image_url: url(png), detail: 'auto' }] }],
  });
  expect([other.output_text, await received('other')]).toEqual(['I see.', [`\`${name}\``]]);
  const changed = await ask(place, look(png.replace('YAAA', 'YAAB')));
  expect(changed.session).not.toBe(session);
});
