import { expect, test } from 'vitest';
import { reduceEvent } from '../../src/core/reducers/reduce-event.ts';
import { runWait } from '../../src/core/session/session-queries.ts';
import { emptySession } from '../../src/core/session/session-state.ts';
import { moves, type Rig, rig, shell } from '../support/rig.ts';

const HOUR = 3_600_000;
const limited = (waitMs: number) => ({
  fault: ['overloaded', 'the quota is used up', { retry: true, waitMs }] as [
    'overloaded',
    string,
    { retry: true; waitMs: number },
  ],
});

const sessionOf = (it: Rig) => it.events().reduce(reduceEvent, emptySession('demo'));

test('a run that waits for a limit with a known end does not end, says until when, and goes on by itself', async () => {
  const it = await rig({ script: moves(limited(HOUR / 2), { text: 'All done.' }) });
  await it.say('1.md', 'go');
  const failed = it.events().find((event) => event.type === 'model.failed');
  expect(failed).toMatchObject({ kind: 'overloaded' });
  expect(runWait(sessionOf(it))).toEqual({
    what: 'model limit',
    until: failed?.type === 'model.failed' && failed.retry_at,
  });
  await it.pass(HOUR / 4);
  expect([it.requests.length, it.reply('1.md')]).toEqual([1, undefined]);
  await it.pass(HOUR / 4 + 1000);
  expect(it.reply('1.md')).toContain('All done.');
  expect(runWait(sessionOf(it))).toBeNull();
});

test.each(['continue', '/continue', '{"command":"continue"}'])(
  '%j while the model is waited for has it tried at once',
  async (text) => {
    const it = await rig({ script: moves(limited(5 * HOUR), limited(5 * HOUR), { text: 'All done.' }) });
    await it.say('1.md', 'go');
    it.drop(text.startsWith('{') ? '2.json' : '2.md', text);
    await it.settle();
    expect(it.requests).toHaveLength(2);
    await it.pass(1000);
    expect(it.requests).toHaveLength(2);
    it.drop(text.startsWith('{') ? '3.json' : '3.md', text);
    await it.settle();
    expect(it.reply('1.md')).toContain('All done.');
  },
);

test('other words than "continue" wait with the run', async () => {
  const it = await rig({ script: moves(limited(5 * HOUR), { text: 'All done.' }) });
  await it.say('1.md', 'go');
  await it.say('2.md', 'and be quick');
  expect(it.requests).toHaveLength(1);
});

test('a wait is bounded by limits.outage_minutes, counted as it was waited', async () => {
  const it = await rig({ script: () => limited(5 * HOUR), config: { limits: { outage_minutes: 90 } } });
  await it.say('1.md', 'go');
  for (let hours = 0; hours < 3; hours += 1) await it.pass(HOUR + 1000);
  expect(it.reply('1.md')).toContain('status: paused');
  expect(it.requests.length).toBeLessThan(5);
});

test('the model is told when two thirds, and when nine tenths of a limit of its run are used', async () => {
  let calls = 0;
  const it = await rig({
    script: () => ({ text: `Part ${++calls}.`, calls: [shell()] }),
    tool: (_, runs) => ({ ok: true, text: `out ${runs}` }),
    config: { limits: { iterations: 10 } },
  });
  await it.say('1.md', 'go');
  const told = it.requests.map(({ messages }) =>
    /This run has used (\d+ of 10 iterations)(.*)/.exec(messages.at(-1)?.content ?? ''),
  );
  expect(told.map((found) => found?.[1]).filter(Boolean)).toEqual([
    '7 of 10 iterations',
    '8 of 10 iterations',
    '9 of 10 iterations',
  ]);
  expect(told.at(-1)?.[2]).toContain('about to be paused');
});

test.each([
  ['Order the receipts', 'Progress: no steps: the model declared none ("[Step] …"). /mode plan-act'],
  ['整理收据', '没有步骤：模型没有声明任何步骤'],
])('a run that used tools without a step says at its pause that none was declared: %s', async (task, words) => {
  const script = () => ({ text: '1. Look', calls: [shell()] });
  const on = await rig({ config: { limits: { iterations: 2 } }, script });
  on.drop('1.md', task);
  await on.settle();
  expect(on.reply('1.md')).toContain(words);
});
