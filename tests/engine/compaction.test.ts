import { expect, test } from 'vitest';
import { chatMessages } from '../../src/core/prompt/chat-messages.ts';
import { countTokens } from '../../src/core/prompt/context-window.ts';
import { reduceEvent } from '../../src/core/reducers/reduce-event.ts';
import type { ChatMessage } from '../../src/core/session/session-messages.ts';
import { emptySession, type Session } from '../../src/core/session/session-state.ts';
import type { EventBody } from '../../src/protocol/session/event.ts';
import type { Config } from '../../src/protocol/settings/config.ts';
import { everything } from '../support/all.ts';
import { type Move, type Rig, rig } from '../support/rig.ts';

const WINDOW = 16_000;
const config: Config = { model: { context_window: WINDOW }, limits: { iterations: 5000, step_iterations: 5000 } };
/** 150 windows full of output with AGENTD_TEST_ALL=1, 45 otherwise: what grows with each iteration is beyond all bounds by then. */
const ITERATIONS = everything ? 2000 : 400;
const TASK = 'Count every line of every file and write the sums down. Never touch the folder archive/.';
const OUTPUT = 'a line of output that says little\n'.repeat(124);

const chars = (messages: readonly ChatMessage[]) => JSON.stringify(messages).length;
const compactions = (it: Rig) => it.events().filter((event) => event.type === 'context.compacted');
const sessionOf = (it: Rig): Session => it.events().reduce(reduceEvent, emptySession('demo'));

/** As many iterations with one call each; then an answer. */
async function long(iterations: number, before: EventBody[] = []): Promise<Rig> {
  const it = await rig({
    before,
    config,
    script: (_, n): Move =>
      n < iterations
        ? { text: n === 0 ? '[Step] Count' : '', calls: [{ name: 'shell', args: { command: `wc ${n}` } }] }
        : { text: 'All of it is counted. [Done]' },
    tool: (call) => ({ ok: true, text: `exit 0 ${call.args}\n${OUTPUT}` }),
  });
  if (before.length === 0) it.store.hands.drop('1.md', TASK);
  it.worker.wake();
  for (let n = 0; n < iterations && !it.reply('1.md'); n++) await it.pass(300);
  return it;
}

/** Calls of the request without a result, and results without a call. */
function unpaired(messages: readonly ChatMessage[]): string[] {
  const calls = messages.flatMap((one) => (one.role === 'assistant' ? (one.tool_calls ?? []).map((it) => it.id) : []));
  const results = messages.flatMap((one) => (one.role === 'tool' ? [one.tool_call_id] : []));
  return [...calls.filter((id) => !results.includes(id)), ...results.filter((id) => !calls.includes(id))];
}

test(`a run of ${ITERATIONS} iterations with 4 KB of output each stays within its window, in the request and in memory`, async () => {
  const it = await long(ITERATIONS);
  expect(it.requests).toHaveLength(ITERATIONS + 1);
  expect(it.reply('1.md')).toContain('All of it is counted.');
  const sizes = it.requests.map((request) => chars(request.messages));
  expect(Math.max(...sizes)).toBeLessThan(WINDOW * 4);
  for (const { messages } of it.requests.filter((_, n) => n % 17 === 0)) {
    expect(unpaired(messages)).toEqual([]);
    const sent = messages.map((message) => message.content ?? '').join('\n');
    expect(sent).toContain('Count every line of every file');
    expect(sent).toContain('Never touch the folder archive/.');
  }
  expect(compactions(it).length).toBeGreaterThan(ITERATIONS / 40);
  expect(compactions(it).length).toBeLessThan(ITERATIONS / 10);
  expect(chars(chatMessages(sessionOf(it)))).toBeLessThan(WINDOW * 4 * 2);
}, 120_000);

test('between two foldings a request only grows at its end, apart from outputs that are left out', async () => {
  const it = await long(60);
  let rewritten = 0;
  for (const [n, { messages }] of it.requests.entries()) {
    const before = it.requests[n - 1]?.messages.slice(0, -1) ?? [];
    const bare = (list: readonly ChatMessage[]) => list.map((one) => (one.role === 'tool' ? one.tool_call_id : one));
    if (JSON.stringify(bare(messages.slice(0, before.length))) !== JSON.stringify(bare(before))) rewritten++;
  }
  expect(compactions(it).length).toBeGreaterThan(1);
  expect(rewritten).toBe(compactions(it).length);
});

test('what was asked is kept shortened, each condition as it was typed, and what was answered', async () => {
  const long = `Draw a chart of the sums. ${'It may be of any colour you like. '.repeat(30)}It must have a legend.`;
  const it = await rig({
    config: { ...config, model: { context_window: 4000 } },
    script: (_, n): Move =>
      n % 4 === 3 ? { text: `Chart ${n} is there.` } : { text: 'x'.repeat(8000), calls: [call(n)] },
    tool: () => ({ ok: true, text: 'exit 0' }),
  });
  it.drop('1.md', long);
  await it.pass(300);
  it.drop('2.md', 'Now another one, with at most 3 colours.');
  await it.pass(300);
  it.drop('3.md', 'And a last one.');
  await it.pass(300);
  const gist = compactions(it).at(-1);
  expect(gist).toMatchObject({ summary: expect.stringContaining('- person: Draw a chart of the sums.') });
  expect(gist).toMatchObject({ summary: expect.stringContaining('“It must have a legend.”') });
  expect(gist).toMatchObject({ summary: expect.stringContaining('- you: Chart 3 is there.') });
  expect(gist).toMatchObject({
    summary: expect.stringMatching(
      /\(left out: \d+ messages and answers, \d+ results of tools\. They are kept: recall/,
    ),
  });
  expect(gist?.type === 'context.compacted' && gist.summary.length).toBeLessThan(2500);
});

test('what people wrote for the model, and the tools, count against the window: a small one is not exceeded', async () => {
  const it = await rig({
    config: { model: { context_window: 8192 }, instructions: 'Write it down well. '.repeat(200) },
    script: (_, n): Move =>
      n < 40
        ? { text: n === 0 ? '[Step] Count' : '', calls: [{ name: 'shell', args: { n } }] }
        : { text: '[Done] all' },
    tool: (call) => ({ ok: true, text: `exit 0 ${call.args}\n${OUTPUT}` }),
  });
  await it.say('1.md', TASK);
  for (let n = 0; n < 40 && !it.reply('1.md'); n++) await it.pass(300);
  // The schemas of the tools take about 1,400 tokens.
  expect(Math.max(...it.requests.map(({ messages }) => countTokens(messages)))).toBeLessThan(0.9 * 8192 - 1400);
});

test('models that read their place off the whole conversation get all of it', async () => {
  const it = await rig({
    config: { ...config, model: { name: 'runbook', context_window: 1000 } },
    script: (_, n): Move => (n < 20 ? { text: 'x'.repeat(2000), calls: [call(n)] } : { text: 'Done.' }),
  });
  it.drop('1.md', 'Go');
  for (let n = 0; n < 20; n++) await it.pass(100);
  expect(compactions(it)).toEqual([]);
});

test('a power cut after any line around a folding changes nothing of what comes out', async () => {
  const whole = await long(34);
  const lines: EventBody[] = whole.events().map(({ v, seq, epoch, at, ...body }) => body);
  const place = lines.findIndex((line) => line.type === 'context.compacted');
  expect(place).toBeGreaterThan(0);
  const end = JSON.stringify(compactions(whole)[0]);
  for (let cut = place - 4; cut <= place + 4; cut++) {
    const half = await resumed(lines.slice(0, cut), 34);
    expect(half.faults, `cut after line ${cut}`).toEqual([]);
    expect(half.reply('1.md'), `cut after line ${cut}`).toContain('All of it is counted.');
    const first = compactions(half)[0];
    expect(first?.type === 'context.compacted' && end.includes(JSON.stringify(first.summary)), `${cut}`).toBe(true);
    for (const { messages } of half.requests) expect(unpaired(messages), `cut after line ${cut}`).toEqual([]);
  }
});

/** The same story from there on: what the model says next is told by how many answers are in the event log. */
async function resumed(before: EventBody[], iterations: number): Promise<Rig> {
  const answered = before.filter((line) => line.type === 'model.answered').length;
  const it = await rig({
    before,
    config,
    script: (_, n): Move =>
      n + answered < iterations
        ? { text: '', calls: [{ name: 'shell', args: { command: `wc ${n + answered}` } }] }
        : { text: 'All of it is counted. [Done]' },
    tool: (one) => ({ ok: true, text: `exit 0 ${one.args}\n${OUTPUT}` }),
  });
  it.worker.wake();
  for (let n = 0; n < iterations && !it.reply('1.md'); n++) await it.pass(300);
  return it;
}

function call(n: number) {
  return { name: 'shell', args: { command: `draw ${n}` } };
}
