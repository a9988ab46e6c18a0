import { expect, test } from 'vitest';
import type { UsageFile } from '../../src/protocol/workspace/usage-file.ts';
import { allBudgets, budgetsOfCall, judgeBudgets, periodEnd } from '../../src/store/usage/budget-state.ts';
import { addToEntries, NOTHING_SPENT, settleAbandoned } from '../../src/store/usage/usage-files.ts';

const NOW = new Date(2026, 10, 28, 12);
const call = (session: string, cost: number, sender?: string) => ({
  ...{ session, model: 'm', ...NOTHING_SPENT, calls: 1, cost, tokens: 100 },
  ...(sender !== undefined && { sender }),
});
const day = (name: string, entries: UsageFile['entries'], open: UsageFile['open'] = []): UsageFile => ({
  ...{ version: 1, day: name, entries, open },
});

test('a call counts towards the day, the month, its session and its sender, and towards no other', () => {
  const month = [
    day('2026-11-01', [call('a', 3, 'Ada')]),
    day('2026-11-28', [call('a', 1, 'Ada'), call('b', 2, 'Bob')]),
  ];
  const budgets = {
    ...{ day: { cost: 5 }, month: { cost: 50 } },
    per_session: { month: { cost: 4 } },
    per_sender: { day: { cost: 2, tokens: 1000 } },
  };
  const states = budgetsOfCall({ session: 'a', sender: 'Ada', model: 'm' }, budgets, { day: { cost: 1 } }, month, NOW);
  expect(states.map(({ setting, spent, limit }) => [setting, spent, limit])).toEqual([
    ['budgets.day.cost', 3, 5],
    ['budgets.month.cost', 6, 50],
    ['budgets.per_session.month.cost', 4, 4],
    ['session.json: budgets.day.cost', 1, 1],
    ['budgets.per_sender.day.tokens', 100, 1000],
    ['budgets.per_sender.day.cost', 1, 2],
  ]);
  // Of two that are used up, the one that lasts longer says when work goes on.
  expect(judgeBudgets(states)).toMatchObject({ is: 'used up', state: { setting: 'budgets.per_session.month.cost' } });
  expect(allBudgets(budgets, month, NOW).map(({ setting, of }) => `${setting} ${of}`)).toContain(
    'budgets.per_sender.day.cost Bob',
  );
});

test('what calls in flight may cost is held back, and a cost that is not known holds back all', () => {
  const open = { session: 'a', model: 'm', id: '1', tokens: 50, at: NOW.toISOString() };
  const judge = (cost: number | null, limit: number) => {
    const month = [day('2026-11-28', [call('a', 1)], [{ ...open, cost }])];
    return judgeBudgets(budgetsOfCall({ session: 'b', model: 'm' }, { day: { cost: limit } }, undefined, month, NOW))
      .is;
  };
  expect([judge(1, 3), judge(1, 2), judge(null, 1e6), judge(0, 1)]).toEqual(['room', 'busy', 'busy', 'used up']);
});

test('a call that an ended daemon left open counts with the most it could cost', () => {
  const open = { session: 'a', model: 'm', id: '1', tokens: 50, at: NOW.toISOString() };
  const file = settleAbandoned(
    day(
      '2026-11-28',
      [call('a', 1)],
      [
        { ...open, cost: 2 },
        { ...open, id: '2', cost: null },
      ],
    ),
  );
  expect(file).toMatchObject({ open: [], entries: [{ calls: 3, cost: 3, unpriced: 1, unsettled: 2, tokens: 200 }] });
});

test('calls of one source are one entry, and a budget ends with its day or month', () => {
  const one = addToEntries([], { session: 'a', model: 'm' }, call('a', 1));
  expect(addToEntries(one, { session: 'a', model: 'm' }, call('a', 2))).toMatchObject([{ calls: 2, cost: 3 }]);
  expect(addToEntries(one, { session: 'a', model: 'm', sender: 'Ada' }, call('a', 2))).toHaveLength(2);
  expect(periodEnd(NOW, 'day')).toEqual(new Date(2026, 10, 29));
  expect(periodEnd(NOW, 'month')).toEqual(new Date(2026, 11, 1));
});
