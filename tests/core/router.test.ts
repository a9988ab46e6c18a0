import { expect, test } from 'vitest';
import { moves, type Rig, rig, shell } from '../support/rig.ts';

const TOOLS = ['web_search', 'fetch', 'shell'];
const search = (n: number) => ({ text: 'searching', calls: [{ name: 'web_search', args: { query: `${n}` } }] });
const hint = (on: Rig, n: number) =>
  String(on.requests[n]?.messages.at(-1)?.content)
    .split('\n')
    .find((line) => line.includes('failed'));

/** The tool fails at the calls whose places are given. */
const run = async (fails: number[], script = moves(search(1), search(2), search(3), { text: 'That is all.' })) => {
  const on = await rig({
    tools: TOOLS,
    script,
    tool: (_call, n) => (fails.includes(n) ? { ok: false, text: `no ${n}` } : { ok: true, text: `yes ${n}` }),
  });
  await on.say('1.md', 'Look it up');
  return on;
};

test('dag G15a: after two failures of a tool in a row the others are suggested, the failed one is not', async () => {
  const on = await run([0, 1]);
  expect(hint(on, 1)).toBeUndefined();
  expect(hint(on, 2)).toBe(
    'web_search has failed 2 times in a row in this step. Other tools: plan, ask_user, spawn, fetch, shell.',
  );
});

test('dag G15b: a success of the tool resets the count', async () => {
  const on = await run([0, 1, 3], moves(search(1), search(2), search(3), search(4), { text: 'That is all.' }));
  expect(hint(on, 2)).toBeDefined();
  expect(hint(on, 3)).toBeUndefined();
  expect(hint(on, 4)).toBeUndefined();
});

test('dag G15c: another step is not affected', async () => {
  const steps = '[Step] Find it\n[Step] Write it down';
  const on = await run(
    [0, 1],
    moves(
      { ...search(1), text: steps },
      search(2),
      { text: 'Found otherwise. [Done]', calls: [shell()] },
      { text: 'writing', calls: [shell()] },
      { text: 'Written. [Done]' },
    ),
  );
  expect(hint(on, 2)).toBeDefined();
  expect(on.plan()?.steps.map((step) => step.status)).toEqual(['completed', 'completed']);
  expect(hint(on, 3)).toBeUndefined();
});

test('dag G15d: nothing failed, nothing is suggested', async () => {
  const on = await run([]);
  expect([0, 1, 2, 3].map((n) => hint(on, n))).toEqual([undefined, undefined, undefined, undefined]);
});

test('what failed in one task is no hint for the next', async () => {
  const on = await run([0, 1], moves(search(1), search(2), { text: 'It cannot be found.' }));
  expect(hint(on, 2)).toBeDefined();
  await on.say('2.md', 'And now?');
  expect(on.requests).toHaveLength(4);
  expect(hint(on, 3)).toBeUndefined();
});
