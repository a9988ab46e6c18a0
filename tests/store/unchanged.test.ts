import * as fs from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { openUnchanged, rereading } from '../../src/store/unchanged.ts';

/** A folder, and clocks that stand `ahead` ms before the real ones. */
function rig() {
  const folder = fs.mkdtempSync(join(tmpdir(), 'agentd-unchanged-'));
  onTestFinished(() => fs.rmSync(folder, { recursive: true, force: true }));
  let ahead = 0;
  return {
    path: join(folder, 'a.json'),
    folder,
    clocks: { now: () => new Date(Date.now() + ahead), elapsed: () => performance.now() + ahead },
    pass: (ms: number) => {
      ahead += ms;
    },
  };
}

test('a file that did not change for a while is read once, until it does', () => {
  const { path, clocks, pass } = rig();
  fs.writeFileSync(path, 'one');
  pass(200);
  let reads = 0;
  const text = rereading(path, clocks, () => {
    reads += 1;
    return fs.readFileSync(path, 'utf8');
  });
  expect([text(), text(), text(), reads]).toEqual(['one', 'one', 'one', 1]);
  fs.writeFileSync(`${path}.new`, 'two');
  fs.renameSync(`${path}.new`, path);
  expect(text()).toBe('two');
});

test('a file written twice within one tick of the clock is read as it is in the end', () => {
  const { path, clocks } = rig();
  const text = rereading(path, clocks, () => fs.readFileSync(path, 'utf8'));
  for (let n = 0; n < 200; n++) {
    fs.writeFileSync(path, `same length ${n % 10}`);
    expect(text()).toBe(`same length ${n % 10}`);
  }
});

test('a look within a tick of a change is not kept: another change would have the same time', () => {
  const { path, clocks, pass } = rig();
  fs.writeFileSync(path, 'x');
  const file = openUnchanged(path, clocks);
  file.look()();
  expect(file.holds()).toBe(false);
  pass(200);
  file.look()();
  expect(file.holds()).toBe(true);
});

test('a file that appears, or goes, is noticed', () => {
  const { path, clocks } = rig();
  const there = rereading(path, clocks, () => fs.existsSync(path));
  expect([there(), there()]).toEqual([false, false]);
  fs.writeFileSync(path, '');
  expect(there()).toBe(true);
  fs.rmSync(path);
  expect(there()).toBe(false);
});

test('what a read throws is thrown again by the next one', () => {
  const { path, clocks } = rig();
  const text = rereading(path, clocks, () => {
    throw new Error('not that');
  });
  expect(text).toThrow('not that');
  expect(text).toThrow('not that');
});

test('a new name in a folder that was empty for a while is noticed at once, and a look holds for five seconds at most', () => {
  const { folder, path, clocks, pass } = rig();
  pass(200);
  const empty = openUnchanged(folder, clocks);
  expect(empty.holds()).toBe(false);
  empty.look()();
  expect(empty.holds()).toBe(true);
  fs.writeFileSync(path, '');
  expect(empty.holds()).toBe(false);
  pass(200);
  empty.look()();
  expect(empty.holds()).toBe(true);
  pass(5000);
  expect(empty.holds()).toBe(false);
});

test('a clock that was set back makes it look, not trust', () => {
  const { folder, clocks, pass } = rig();
  pass(-60_000);
  const empty = openUnchanged(folder, clocks);
  empty.look()();
  expect(empty.holds()).toBe(false);
});
