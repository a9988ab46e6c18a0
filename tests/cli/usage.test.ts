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
  expect(rows).toContainEqual(['demo', '3', '1150', '0.7500 and 1 calls of unknown cost']);
  expect(rows).toContainEqual(['small', '1', '7', 'unknown']);
  expect(rows).toContainEqual(['TOTAL', '4', '1157', '0.7500 and 2 calls of unknown cost']);

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
