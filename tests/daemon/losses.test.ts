import * as fs from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import {
  assessBlame,
  holdUntil,
  openActivityFile,
  readActivityFile,
  readLosses,
  writeLosses,
} from '../../src/daemon/crashes/crash-blame.ts';
import { realClock } from '../../src/daemon/host/clock.ts';
import type { CrashRecord, StallReport } from '../../src/protocol/workspace/daemon-files.ts';
import { tempFolder } from '../store/rig.ts';

const NOW = new Date('2026-01-05T08:00:00.000Z');
const NONE: CrashRecord = { version: 1, in_a_row: 0, ran_ms: 0, suspects: [], culprits: [] };
const found = (...names: string[]) => ({
  ownerSince: 'then',
  aliveMs: 5000,
  atWork: names.map((session, n) => ({ session, since_ms: 1000 * n })),
});
const lost = (before: CrashRecord, names: string[], still?: StallReport) =>
  assessBlame(before, { ended: 'lost', found: found(...names), still, now: NOW });

test('with several at work nobody is blamed, and all of them are suspects', () => {
  const { losses, verdict } = lost(NONE, ['a', 'b']);
  expect(losses).toMatchObject({ in_a_row: 1, suspects: ['a', 'b'], culprits: [], ran_ms: 4000 });
  expect(verdict('a')).toEqual({ after: 'crash' });
});

test('a session that was alone is counted, and no other', () => {
  const first = lost(NONE, ['a']);
  const second = lost(first.losses, ['a']);
  expect(second.losses.culprits).toMatchObject([{ session: 'a', times: 2, how: 'alone' }]);
  expect(second.verdict('a')).toEqual({ after: 'crash', alone: 2 });
  expect(second.verdict('b')).toEqual({ after: 'crash' });
});

test.each([
  ['with nothing at work', () => lost({ ...lost(NONE, ['a']).losses, suspects: ['b'] }, [])],
  [
    'with the machine',
    () =>
      assessBlame(lost(NONE, ['a']).losses, {
        ended: 'with the machine',
        found: found('a'),
        still: undefined,
        now: NOW,
      }),
  ],
])('a daemon that is lost %s takes back what was counted', (_how, look) => {
  const { losses, verdict } = look();
  expect(losses).toMatchObject({ in_a_row: 0, suspects: [], culprits: [] });
  expect(verdict('a')).toEqual({ after: 'crash', alone: 0 });
});

test('the session in whose step a daemon stood still is blamed, whoever else was at work', () => {
  const still = { version: 1 as const, owner_since: 'then', seconds: 60, session: 'b', what: 'merging plan.json' };
  const { losses, verdict } = lost(NONE, ['a', 'b', 'c'], still);
  expect(losses).toMatchObject({ suspects: [], culprits: [{ session: 'b', times: 1, how: 'stood still' }] });
  expect(verdict('b')).toMatchObject({ alone: 1, error: expect.stringContaining('merging plan.json') });
  expect(verdict('a')).toEqual({ after: 'crash' });
  const kept = lost(losses, []);
  expect(kept.losses.culprits).toMatchObject([{ session: 'b', times: 1 }]);
});

test('the one that was being tried comes first where it was not quite alone', () => {
  const { losses } = lost({ ...NONE, in_a_row: 2, suspects: ['a', 'b', 'c'], trying: 'c' }, ['a', 'c']);
  expect(losses.suspects[0]).toBe('c');
  expect(losses.trying).toBeUndefined();
});

test('an end in order begins the row anew, and forgets no proof', () => {
  const before = lost(lost(NONE, ['a']).losses, ['a']).losses;
  const { losses } = assessBlame(before, { ended: 'in order', found: undefined, still: undefined, now: NOW });
  expect(losses).toMatchObject({ in_a_row: 0, culprits: [{ session: 'a', times: 2 }] });
});

test('from the fourth loss on it is held, twice as long after each, a day at most', () => {
  let losses = NONE;
  for (let n = 0; n < 3; n++) losses = lost(losses, ['a']).losses;
  expect(losses.culprits[0]?.until).toBeUndefined();
  losses = lost(losses, ['a']).losses;
  expect(losses.culprits[0]?.until).toBe('2026-01-05T08:02:00.000Z');
  expect(holdUntil(NOW, 5)).toBe('2026-01-05T08:04:00.000Z');
  expect(holdUntil(NOW, 500)).toBe('2026-01-06T08:00:00.000Z');
});

test('who is at work is in a file that a killed daemon leaves as it was', () => {
  const path = join(tempFolder(), 'at-work');
  const file = openActivityFile(path, 'now', realClock);
  for (const name of ['a', 'b "c"', 'd']) file.markBusy(name);
  file.markBusy('a');
  file.markIdle('a');
  file.markBusy('ä'.repeat(120));
  file.markIdle('nobody');
  expect(readActivityFile(path)?.atWork.map(({ session }) => session)).toEqual(['ä'.repeat(120), 'b "c"', 'd']);
  expect(readActivityFile(path)?.ownerSince).toBe('now');
  file.close();
});

test('files that are missing or make no sense blame nobody', async () => {
  const folder = tempFolder();
  const path = join(folder, 'losses.json');
  expect(readLosses(path)).toEqual(NONE);
  fs.writeFileSync(path, '{"version":1,"in_a_row":"many"}');
  expect(readLosses(path)).toEqual(NONE);
  const some = lost(NONE, ['a', 'b']).losses;
  await writeLosses(path, some);
  expect(readLosses(path)).toEqual(some);
  expect(readActivityFile(join(folder, 'none'))).toBeUndefined();
  fs.writeFileSync(path, 'no lines of ours\n{"session":"a","since_ms":1}\n');
  expect(readActivityFile(path)).toBeUndefined();
});
