import { writeFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { openAiSetup, waitForFile } from './openai-setup.ts';

const LOOK = { text: 'Let me look.', calls: [{ name: 'shell', args: { command: 'echo found it' } }] };

test("a response has the agent's activity as a reasoning item and the reply as its text; retrieved, it is the same", async () => {
  const { openai, names } = await openAiSetup([LOOK, { text: 'Here it is.' }]);
  const made = await openai.responses.create({ model: 'agentd', input: 'Where is it?', metadata: { ticket: '7' } });
  expect(made).toMatchObject({
    status: 'completed',
    output_text: 'Here it is.',
    metadata: { ticket: '7' },
    output: [{ type: 'reasoning', summary: [{ text: 'shell: echo found it' }] }, { type: 'message' }],
  });
  expect(made.usage?.total_tokens).toBeGreaterThan(0);
  const again = await openai.responses.retrieve(made.id);
  expect(again).toMatchObject({ id: made.id, status: 'completed', output_text: 'Here it is.' });
  expect(again.model).toBe(`agentd/${names()[0]}`);
  await expect(openai.responses.retrieve('resp_unknown')).rejects.toMatchObject({ status: 404 });
});

test('a streamed response is a well-formed list of events whose items add up to it', async () => {
  const { openai } = await openAiSetup([
    { text: '[Step] Fetch\n[Step] Read', calls: [{ name: 'shell', args: { command: 'true' } }] },
    { text: '[Done: Fetch] Fetched.', calls: [{ name: 'shell', args: { command: 'true' } }] },
    { text: '[Done: Read] Read it all.' },
  ]);
  const stream = openai.responses.stream({ model: 'agentd', input: 'Do both' });
  const events: Array<{ type: string; sequence_number: number }> = [];
  for await (const event of stream) events.push(event);
  expect(events.map(({ sequence_number }) => sequence_number)).toEqual(events.map((_, at) => at));
  expect(events.at(0)?.type).toBe('response.created');
  expect(events.at(-1)?.type).toBe('response.completed');
  const { output, output_text } = await stream.finalResponse();
  expect(output_text).toMatch(/Read it all\.$/);
  const steps = output.flatMap((item) => (item.type === 'reasoning' ? item.summary.map(({ text }) => text) : []));
  expect(steps.filter((text) => text.startsWith('step: Fetch'))).toHaveLength(1);
  expect(steps.filter((text) => text.startsWith('step: Read'))).toHaveLength(1);
});

test('previous_response_id continues its session, and an unknown one is refused', async () => {
  const { openai, names, received } = await openAiSetup([{ text: 'One.' }, { text: 'Two.' }]);
  const first = await openai.responses.create({ model: 'agentd', input: 'Count', instructions: 'Be terse.' });
  const second = await openai.responses.create({ ...{ model: 'agentd', input: 'On', previous_response_id: first.id } });
  expect([first.output_text, second.output_text]).toEqual(['One.', 'Two.']);
  expect(second.previous_response_id).toBe(first.id);
  const [session = ''] = names();
  expect(names()).toHaveLength(1);
  expect(await received(session)).toEqual([expect.stringMatching(/^Count\n\n[\s\S]*> Be terse\.$/), 'On']);
  const unknown = openai.responses.create({ model: 'agentd', input: 'On', previous_response_id: 'resp_1' });
  await expect(unknown).rejects.toMatchObject({ status: 400, param: 'previous_response_id' });
});

test('a background response is retrieved later; a conversation names its session', async () => {
  const { openai, path, received } = await openAiSetup([
    { text: 'I wait.', calls: [waitForFile('go')] },
    { text: 'It is done.' },
  ]);
  const begun = await openai.responses.create({
    ...{ model: 'agentd', input: 'Get it done', conversation: 'demo', background: true },
  });
  expect(begun).toMatchObject({ status: 'in_progress', output_text: '' });
  expect((await openai.responses.retrieve(begun.id)).status).toBe('in_progress');
  while ((await received('demo')).length < 1);
  // It joins the run, and its answer is that of the run.
  const joined = await openai.responses.create({
    ...{ model: 'agentd', input: 'And tell me', conversation: 'demo', background: true },
  });
  while ((await received('demo')).length < 2);
  writeFileSync(path('.sessions', 'demo', 'work', 'go'), '');
  const final = async (id: string) => {
    for (;;) {
      const now = await openai.responses.retrieve(id);
      if (now.status !== 'in_progress') return now;
    }
  };
  expect(await final(begun.id)).toMatchObject({ status: 'completed', output_text: 'It is done.' });
  expect(await final(joined.id)).toMatchObject({ status: 'completed', output_text: 'It is done.' });
});
