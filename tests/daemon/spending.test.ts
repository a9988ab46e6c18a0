import * as fs from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { openSpendingBook, type SpendingCall } from '../../src/daemon/host/spending.ts';
import type { Budgets } from '../../src/protocol/settings/budgets.ts';
import { UsageFile } from '../../src/protocol/workspace/usage-file.ts';
import { temporaryFolder } from '../support/temporary.ts';

const NEVER = new AbortController().signal;

function bench(budgets: Budgets | undefined) {
  const folder = temporaryFolder('spending');
  const at = { now: new Date(2026, 10, 28, 12), budgets };
  const logged: string[] = [];
  const open = () =>
    openSpendingBook({
      ...{ folder, budgets: () => at.budgets, log: (_, text) => logged.push(text) },
      clock: { now: () => at.now, elapsed: () => performance.now(), after: () => () => {} },
    });
  const files = () =>
    fs
      .readdirSync(folder)
      .filter((name) => name.endsWith('.json'))
      .map((name) => UsageFile.parse(JSON.parse(fs.readFileSync(join(folder, name), 'utf8'))));
  const total = () =>
    files()
      .flatMap(({ entries }) => entries)
      .reduce((sum, { cost }) => sum + cost, 0);
  return { folder, at, logged, open, files, total };
}

const callOf = (session: string, cost: number | null = 1): SpendingCall => ({
  ...{ tokens: 100, cost, source: { session, model: 'm' }, own: undefined },
});

test('20 sessions at once, and a kill in between, spend no more of a month than one call beyond it', async () => {
  const on = bench({ month: { cost: 30 } });
  const sessions = Array.from({ length: 20 }, (_, place) => `s${place}`);
  /** Calls until the budget is used up, or until the daemon dies after so many of them: then with calls in flight. */
  const spendAll = async (callsUntilKill: number) => {
    const book = on.open();
    const death = new AbortController();
    let left = callsUntilKill;
    const spend = async (session: string): Promise<string> => {
      for (;;) {
        const reserved = await book.reserve(callOf(session), AbortSignal.any([death.signal]));
        if ('why' in reserved) return reserved.why;
        await new Promise(setImmediate);
        if (left-- <= 0) death.abort(new Error('killed'));
        death.signal.throwIfAborted();
        await reserved.settle({ tokens: 90, cost: 0.9, ms: 10, isAnswered: true });
      }
    };
    return Promise.allSettled(sessions.map(spend));
  };
  expect((await spendAll(10)).filter(({ status }) => status === 'rejected')).toHaveLength(20);
  expect(on.files().flatMap(({ open }) => open).length).toBeGreaterThan(5);
  const ended = await spendAll(1000);
  expect(ended).toEqual(
    sessions.map(() => ({ status: 'fulfilled', value: expect.stringContaining('budgets.month.cost') })),
  );
  expect(on.total()).toBeGreaterThanOrEqual(30);
  expect(on.total()).toBeLessThan(31);
});

test('the call of a model whose place another one took counts as one of the other', async () => {
  const on = bench({ day: { cost: 9 } });
  const book = on.open();
  const reserved = await book.reserve(callOf('a', null), NEVER);
  if ('why' in reserved) throw new Error(reserved.why);
  await reserved.settle({ model: 'local', tokens: 90, estimated: true, cost: null, ms: 10, isAnswered: true });
  expect(on.files()[0]?.entries).toMatchObject([{ model: 'local', calls: 1, estimated: true, unpriced: 1 }]);
  expect(await book.reserve(callOf('a', null), NEVER)).toHaveProperty('settle');
});

test('a budget that is used up says until when, and the next period begins with all of it', async () => {
  const on = bench({ day: { cost: 1 } });
  const book = on.open();
  const reserved = await book.reserve(callOf('a'), NEVER);
  if ('why' in reserved) throw new Error(reserved.why);
  await reserved.settle({ tokens: 90, cost: 1.5, ms: 10, isAnswered: true });
  expect(await book.reserve(callOf('a'), NEVER)).toEqual({
    until: new Date(2026, 10, 29).toISOString(),
    why: 'The budget budgets.day.cost: 1.50 of 1 is used up.',
  });
  expect(on.logged).toEqual([expect.stringContaining('budgets.day.cost: 1.50 of 1 is spent until')]);
  on.at.now = new Date(2026, 10, 29, 0, 0, 1);
  expect(await book.reserve(callOf('a'), NEVER)).toHaveProperty('settle');
  on.at.now = new Date(2026, 10, 28, 13);
  on.at.budgets = { day: { cost: 2 } };
  expect(await book.reserve(callOf('a'), NEVER)).toHaveProperty('settle');
});

test('a call waits for one in flight that may use the budget up, and can be aborted then', async () => {
  const on = bench({ day: { cost: 1.5 } });
  const book = on.open();
  const first = await book.reserve(callOf('a'), NEVER);
  await book.reserve(callOf('b'), NEVER);
  const stop = new AbortController();
  const aborted = book.reserve(callOf('c'), stop.signal);
  stop.abort(new Error('stopped'));
  await expect(aborted).rejects.toThrow('stopped');
  const third = book.reserve(callOf('c'), NEVER);
  if ('why' in first) throw new Error(first.why);
  await first.settle({ tokens: 0, cost: 0, ms: 1, isAnswered: false });
  expect(await third).toHaveProperty('settle');
});

test('a limit on cost is an error where nobody says what a call costs', async () => {
  const on = bench({ month: { cost: 10 } });
  const book = on.open();
  const reserved = await book.reserve(callOf('a', null), NEVER);
  if ('why' in reserved) throw new Error(reserved.why);
  await reserved.settle({ tokens: 90, cost: null, ms: 1, isAnswered: true });
  expect(await book.reserve(callOf('a', null), NEVER)).toMatchObject({
    until: null,
    why: expect.stringContaining('Set model.prices'),
  });
  expect(await book.reserve(callOf('a', 0.1), NEVER)).toHaveProperty('settle');
});

test('a file that cannot be understood is put aside and said, and calls go on', async () => {
  const on = bench({ month: { cost: 10 } });
  fs.writeFileSync(join(on.folder, '2026-11-28.json'), '{"version": 1, "day": "2026-1');
  expect(await on.open().reserve(callOf('a'), NEVER)).toHaveProperty('settle');
  expect(on.logged).toEqual([expect.stringContaining('2026-11-28.json.damaged')]);
});

test('calls without a budget are on disk when the daemon has ended, however fast they followed one another', async () => {
  const on = bench(undefined);
  const book = on.open();
  for (let call = 0; call < 5; call++) {
    const reserved = await book.reserve(callOf('a'), NEVER);
    if ('why' in reserved) throw new Error(reserved.why);
    await reserved.settle({ tokens: 90, cost: 1, ms: 1, isAnswered: true });
  }
  await book.close();
  expect(on.total()).toBe(5);
});

test('a daemon whose usage cannot be written at its end says so, and ends', async () => {
  const on = bench({ day: { cost: 100 } });
  const book = on.open();
  await book.reserve(callOf('a'), NEVER);
  fs.rmSync(on.folder, { recursive: true });
  fs.writeFileSync(on.folder, 'no folder');
  await book.close();
  expect(on.logged).toEqual([expect.stringContaining('could not be written')]);
});
