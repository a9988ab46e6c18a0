import * as fs from 'node:fs';
import { expect, test } from 'vitest';
import { formatLocalTime } from '../../src/base/strings.ts';
import type { EventBody } from '../../src/protocol/session/event.ts';
import { sessionPaths } from '../../src/store/layout/layout.ts';
import { opened, received, record, started } from '../client/rig.ts';
import { bench } from '../support/agentctl-here.ts';

const call = (tokens: number, cost: number | null): EventBody => ({
  type: 'model.answered',
  ...{ text: 'x', calls: [], usage: { tokens, cost }, model: 'm', ms: 1, delivered: [], seen: 1 },
});

test('usage sums the calls of each session with its child sessions, and those of each day', async () => {
  const at = bench();
  const paths = (name: string) => sessionPaths(at.path('.sessions', name));
  for (const name of ['demo', 'small', 'torn']) await at.ctl('send', name, 'x');
  fs.mkdirSync(at.path('.sessions/demo~step_1'));
  const first = [opened, received('1.md'), started('1.md')];
  await record(paths('demo'), [...first, call(100, 0.25), call(50, null)]);
  await record(paths('demo~step_1'), [...first, call(1000, 0.5)]);
  await record(paths('small'), [...first, call(7, null)]);
  await record(paths('torn'), [...first, call(9, 9)]);
  const lines = fs.readFileSync(paths('torn').events, 'utf8').split('\n');
  fs.writeFileSync(paths('torn').events, [lines[0], ...lines.slice(2)].join('\n'));

  fs.mkdirSync(paths('odd').events, { recursive: true });

  const { code, out, err } = await at.ctl('usage');
  expect([code, err]).toEqual([1, expect.stringContaining('Not counted: torn: ')]);
  expect(err).toContain('Not counted: odd: ');
  const rows = out.split('\n').map((line) => line.split(/ {2,}/));
  expect(rows).toContainEqual(['demo', '3', '1150', '0', '0.7500 and 1 calls of unknown cost']);
  expect(rows).toContainEqual(['small', '1', '7', '0', 'unknown']);
  expect(rows).toContainEqual(['TOTAL', '4', '1157', '0', '0.7500 and 2 calls of unknown cost']);

  const reported = JSON.parse((await at.ctl('usage', 'demo', '--json')).out);
  const total = { calls: 3, tokens: 1150, cached: 0, cost: 0.75, unpriced: 1 };
  const last: { at: string } = JSON.parse(
    fs.readFileSync(paths('demo').events, 'utf8').trim().split('\n').at(-1) ?? '',
  );
  expect(reported).toMatchObject({ total, days: [{ day: formatLocalTime(last.at).slice(0, 10), ...total }] });
  expect(
    reported.sessions.map(({ session, tokens }: { session: string; tokens: number }) => [session, tokens]),
  ).toEqual([
    ['demo', 150],
    ['demo~step_1', 1000],
  ]);
});

test('usage says so where no model was called, and of a session that is not there', async () => {
  const at = bench();
  expect(await at.ctl('usage')).toEqual({ code: 0, out: '', err: 'No model has been called yet.\n' });
  expect((await at.ctl('usage', 'nobody')).code).toBe(4);
});

test('usage and status show what is spent of each budget, and calls by model, sender and schedule, also of sessions that are gone', async () => {
  const at = bench();
  const spent = { calls: 2, tokens: 100, cost: 4.5, unpriced: 0, ms: 60_000, unsettled: 0 };
  const entries = [
    { session: 'gone', sender: 'Ada', model: 'm', ...spent },
    { session: 'news', schedule: 'news', model: 'n', ...spent, estimated: true, cost: 0.25, unpriced: 1 },
  ];
  const day = formatLocalTime(new Date().toISOString()).slice(0, 10);
  at.write(`usage/${day}.json`, JSON.stringify({ version: 1, day, entries, open: [] }));
  at.write('agentd.json', JSON.stringify({ budgets: { day: { cost: 5 }, per_sender: { month: { cost: 4 } } } }));
  const { out } = await at.ctl('usage');
  expect(out.split('\n').map((line) => line.split(/ {2,}/).slice(0, 4))).toEqual([
    ['', ''].slice(1),
    ['BUDGET', 'SPENT', 'LIMIT', 'LEFT'],
    ['day.cost', '4.75 and more', '5', '0.25'],
    ['per_sender.month.cost Ada', '4.50', '4', '0.00'],
    [''],
  ]);
  expect((await at.ctl('usage', '--by', 'schedule')).out).toMatch(
    /SCHEDULE +CALLS.*\n- +2 +100 +0 +4\.5000\nnews +2 +~100 +0 +0\.2500/,
  );
  expect(JSON.parse((await at.ctl('usage', '--by', 'sender', '--json')).out)[0]).toMatchObject({
    name: 'Ada',
    cost: 4.5,
  });
  const { out: status } = await at.ctl('status');
  expect(status).toContain('Budget:    budgets.day.cost: 4.75 of 5, and 1 calls of unknown cost is spent until');
  expect(status).toContain('Budget:    budgets.per_sender.month.cost of Ada: 4.50 of 4 is spent; runs wait until');
});

test('a budget that is no amount is an error of settings', async () => {
  const at = bench();
  at.write(
    'agentd.json',
    JSON.stringify({ budgets: { day: { cost: -1 } }, model: { prices: { input: -1, output: 1 } } }),
  );
  const { code, out } = await at.ctl('config', 'validate');
  expect([code, out]).toEqual([
    1,
    expect.stringMatching(/budgets\.day\.cost: .*got -1[\s\S]*|prices\.input: .*got -1/),
  ]);
});
