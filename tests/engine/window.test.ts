import { expect, test } from 'vitest';
import { countMessageTokens } from '../../src/core/prompt/context-window.ts';
import { type Move, rig } from '../support/rig.ts';

const LONG = 'word '.repeat(1500);
const sizeOf = (messages: Parameters<typeof countMessageTokens>[0][]) =>
  messages.reduce((sum, one) => sum + countMessageTokens(one), 0);

/** A model that takes `window` tokens by our count, whatever it says that it takes. */
async function narrow(window: number, reported: number | undefined, calls: number) {
  const on = await rig({
    config: { limits: { iterations: 100, repeats: 0 } },
    tool: (_call, n) => ({ ok: true, text: `${n} ${LONG}` }),
    script: (request, n): Move => {
      if (sizeOf(request.messages) > window)
        return { fault: ['too_long', 'longer than the window', { retry: true, window: reported }] };
      const done = on.toolRuns.length >= calls;
      return done ? { text: 'All read. [Done]' } : { text: 'reading', calls: [{ name: 'read', args: { n } }] };
    },
  });
  await on.say('1.md', 'Read the files, and never delete any of them.');
  await on.pass(10);
  return on;
}

test('a request that is too long for the model is made shorter and asked again, with the window as the endpoint tells it', async () => {
  const on = await narrow(6000, 6000, 8);
  expect(on.events().filter((event) => event.type === 'model.failed')).toMatchObject([{ kind: 'too_long' }]);
  expect(on.reply('1.md')).toContain('status: done');
});

test('an endpoint that does not say how long is too long is found out, and no call is without its result', async () => {
  const on = await narrow(6000, undefined, 12);
  expect(on.reply('1.md')).toContain('status: done');
  for (const { messages } of on.requests) {
    const asked = messages.flatMap((one) =>
      one.role === 'assistant' ? (one.tool_calls ?? []).map((it) => it.id) : [],
    );
    const answered = messages.flatMap((one) => (one.role === 'tool' ? [one.tool_call_id] : []));
    expect(answered).toEqual(asked);
  }
  const last = on.requests
    .at(-1)
    ?.messages.map((one) => one.content)
    .join('\n');
  expect(last).toContain('never delete any of them');
});

test('a window that nothing fits into ends the run with the words of the endpoint, and the plan can go on', async () => {
  const on = await narrow(10, 10, 1);
  expect(on.events().filter((event) => event.type === 'model.failed')).toHaveLength(5);
  expect(on.reply('1.md')).toContain('status: failed');
  expect(on.reply('1.md')).toContain('longer than the window');
});

test('what a window has shown to be is known after a crash', async () => {
  const on = await narrow(6000, 6000, 8);
  const before = on.requests.length;
  await on.restart();
  await on.say('2.md', 'And now?');
  expect(on.requests.length).toBe(before + 1);
  expect(sizeOf(on.requests.at(-1)?.messages ?? [])).toBeLessThan(6000);
});
