import { createServer } from 'node:http';
import { expect, test } from 'vitest';
import { isDaemonBlock } from '../../src/protocol/session/prompt-tags.ts';
import { ground } from '../support/daemon.ts';
import type { Answer, ScriptEntry } from '../support/openai-server.ts';
import { listen, modelServer } from '../support/temporary.ts';

async function endpoint(script: ScriptEntry[] | ScriptEntry) {
  const server = await modelServer(script);
  return server;
}

const flagsFor = (url: string) => ['--base-url', url, '--model', 'm'];
const append = (word: string) => JSON.stringify({ command: `echo ${word} >> log.txt` });
const steps = '[Step] Append one\n[Step] Append two\n[Step] Append three';
const first: Answer = { text: steps, calls: [{ id: 'c1', name: 'shell', args: append('one') }] };

test.each([
  ['<function=…>', (word: string) => `<function=shell>${append(word)}</function>`],
  ['JSON', (word: string) => JSON.stringify({ name: 'shell', arguments: JSON.parse(append(word)) })],
])('calls that a server passes on as text (%s) run, and the plan is done by what they did', async (_, written) => {
  const server = await endpoint([
    first,
    { text: `[Done: one is appended]\n${written('two')}` },
    { text: `[Done: two is appended]\n${written('three')}` },
    { text: '[Done: three is appended] All three are in log.txt.' },
  ]);
  const on = ground();
  await on.start(flagsFor(server.url));
  expect(await on.say('demo', '1.md', 'Append one, two and three to log.txt')).toMatch(
    /status: done[\s\S]*All three are in log\.txt/,
  );
  expect(on.sh('demo', 'cat work/log.txt')).toBe('one\ntwo\nthree\n');
});

test('the first request is at most 7 kB, tools included, and each is, byte for byte, the beginning of the next', async () => {
  const server = await endpoint([
    first,
    { text: '[Done: one is appended]', calls: [{ name: 'more_tools', args: '{"tool":"remember"}' }] },
    { text: '', calls: [{ name: 'shell', args: append('two') }] },
    { text: '[Done: two is appended]', calls: [{ name: 'shell', args: append('three') }] },
    { text: '[Done: three is appended] All three are in log.txt.' },
    { text: 'They were one, two and three.' },
  ]);
  const on = ground();
  await on.start(flagsFor(server.url));
  expect(await on.say('demo', '1.md', 'Append one, two and three to log.txt')).toContain('status: done');
  expect(await on.say('demo', '2.md', 'Which words were they?')).toContain('They were one, two and three.');
  const bodies = server.requests.map(({ body }) => body);
  expect(bodies).toHaveLength(6);
  expect(JSON.stringify(bodies[0]).length).toBeGreaterThan(5000);
  expect(JSON.stringify(bodies[0]).length).toBeLessThanOrEqual(7000);
  for (const [at, { tools, messages }] of bodies.slice(1).entries()) {
    const before = bodies[at];
    expect(JSON.stringify(tools)).toBe(JSON.stringify(before?.tools));
    // The daemon's block stands last and is written again in each request.
    const last = before?.messages.findLastIndex(({ content }) => !isDaemonBlock(content ?? '')) ?? 0;
    const kept = before?.messages.slice(0, last + 1);
    expect(JSON.stringify(messages.slice(0, last + 1))).toBe(JSON.stringify(kept));
  }
});

test('half an answer and a lost call close no step and are no reply that says done', async () => {
  const server = await endpoint([first, { text: 'Two is appended. [Done] And', finish: 'content_filter' }]);
  const on = ground();
  await on.start(flagsFor(server.url));
  expect(await on.say('demo', '1.md', 'Append one, two and three to log.txt')).toMatch(
    /status: paused[\s\S]*reason: unfinished[\s\S]*content_filter/,
  );
  const plan: { steps: Array<{ status: string }> } = JSON.parse(on.sh('demo', 'cat plan.json'));
  expect(plan.steps.filter(({ status }) => status === 'completed')).toEqual([]);
});

/** An endpoint that wants ids of nine letters and digits, and words in each message, as Mistral's does. */
const strictEndpoint = (answer: (calls: number) => Answer) =>
  endpoint(({ body: { messages } }) => {
    const calls = messages.flatMap(({ tool_calls: list }) => list ?? []);
    if (calls.some(({ id }) => !/^[A-Za-z0-9]{9}$/.test(id)))
      return {
        status: 400,
        body: { message: 'Tool call id was call_0_0 but must be a-z, A-Z, 0-9, with a length of 9.' },
      };
    if (messages.some(({ content }) => content === null))
      return { status: 400, body: { error: { message: 'Input should be a valid string' } } };
    return answer(calls.length);
  });

test('a session goes on with another endpoint, whose rules its history breaks', async () => {
  const local = await endpoint([
    { text: '', calls: [{ id: 'call_0_0', name: 'functions.shell', args: append('one') }] },
    { text: 'One is appended.' },
  ]);
  const strict = await strictEndpoint((calls) =>
    calls === 1
      ? { text: '', calls: [{ id: 'abcdefghi', name: 'shell', args: append('two') }] }
      : { text: 'Two is appended.' },
  );
  const on = ground();
  const daemon = await on.start(flagsFor(local.url));
  expect(await on.say('demo', '1.md', 'Append one')).toContain('One is appended.');
  await daemon.kill('SIGTERM');
  await on.start(flagsFor(strict.url));
  expect(await on.say('demo', '2.md', 'Append two')).toContain('Two is appended.');
  expect(on.sh('demo', 'cat work/log.txt')).toBe('one\ntwo\n');
});

test('when an endpoint fails in the middle of a run, another with rules of its own ends it, and the plan holds', async () => {
  const local = await endpoint([
    { text: steps, calls: [{ id: 'call_0_0', name: 'shell', args: append('one') }] },
    { status: 502, body: 'bad gateway' },
  ]);
  const rest: Answer[] = [
    { text: '[Done: one is appended]', calls: [{ id: 'abcdefghi', name: 'shell', args: append('two') }] },
    { text: '[Done: two is appended]', calls: [{ id: 'jklmnopqr', name: 'shell', args: append('three') }] },
    { text: '[Done: three is appended] All three are in log.txt.' },
  ];
  const strict = await strictEndpoint((calls) => rest[calls - 1] ?? { text: 'Too many.' });
  const on = ground();
  on.config({
    model: { base_url: local.url, name: 'm', fallback: { down: ['spare'] } },
    models: { spare: { base_url: strict.url } },
  });
  await on.serve();
  expect(await on.say('demo', '1.md', 'Append one, two and three to log.txt')).toMatch(
    /status: done[\s\S]*All three are in log\.txt/,
  );
  expect(on.sh('demo', 'cat work/log.txt')).toBe('one\ntwo\nthree\n');
  expect(on.plan('demo')?.steps.map(({ status }) => status)).toEqual(['completed', 'completed', 'completed']);
  const answered = on.events('demo').filter((event) => event.type === 'model.answered');
  expect(answered.map(({ model }) => model)).toEqual(['m', 'spare', 'spare', 'spare']);
  expect(answered[1]).toMatchObject({ instead_of: { model: 'm', why: 'down' } });
});

test('an endpoint that resets a used connection in the middle of an answer is asked again, and the daemon lives', async () => {
  let asked = 0;
  const piece = (delta: object, finish_reason: string | null = null) =>
    `data: ${JSON.stringify({ choices: [{ index: 0, delta, finish_reason }] })}\n\n`;
  const call = { index: 0, id: 'a', type: 'function', function: { name: 'list_files', arguments: '{}' } };
  const server = createServer((request, response) => {
    request.resume().on('end', () => {
      asked++;
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      if (asked === 2) {
        response.write(piece({ content: 'Hel' }));
        setTimeout(() => response.socket?.resetAndDestroy(), 50);
      } else if (asked === 1)
        response.end(`${piece({ content: 'Looking.', tool_calls: [call] }, 'tool_calls')}data: [DONE]\n\n`);
      else response.end(`${piece({ content: 'Hello.' }, 'stop')}data: [DONE]\n\n`);
    });
  });
  const on = ground();
  const daemon = await on.start(flagsFor(`http://127.0.0.1:${await listen(server)}/v1`));
  expect(await on.say('demo', '1.md', 'Say hello')).toContain('Hello.');
  expect([asked, daemon.process.exitCode]).toEqual([3, null]);
});
