import * as fs from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { cachedRead, openChangeDetector } from '../../src/store/fs/file-reads.ts';
import { temporaryFolder } from '../support/temporary.ts';

/** A folder, and clocks that are `ahead` ms ahead of the real ones. */
function rig() {
  const folder = temporaryFolder('unchanged');
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
  const text = cachedRead(path, clocks, () => {
    reads += 1;
    return fs.readFileSync(path, 'utf8');
  });
  expect([text(), text(), text(), reads]).toEqual(['one', 'one', 'one', 1]);
  fs.writeFileSync(`${path}.new`, 'two');
  fs.renameSync(`${path}.new`, path);
  expect(text()).toBe('two');
});

test('a file written twice within one tick of the clock is read in its final state', () => {
  const { path, clocks } = rig();
  const text = cachedRead(path, clocks, () => fs.readFileSync(path, 'utf8'));
  for (let n = 0; n < 200; n++) {
    fs.writeFileSync(path, `same length ${n % 10}`);
    expect(text()).toBe(`same length ${n % 10}`);
  }
});

test('a read within a tick of a change is not cached: another change would have the same time', () => {
  const { path, clocks, pass } = rig();
  fs.writeFileSync(path, 'x');
  const file = openChangeDetector(path, clocks);
  file.beginRead()();
  expect(file.isUnchanged()).toBe(false);
  pass(200);
  file.beginRead()();
  expect(file.isUnchanged()).toBe(true);
});

test('a file that appears, or goes, is noticed', () => {
  const { path, clocks } = rig();
  const there = cachedRead(path, clocks, () => fs.existsSync(path));
  expect([there(), there()]).toEqual([false, false]);
  fs.writeFileSync(path, '');
  expect(there()).toBe(true);
  fs.rmSync(path);
  expect(there()).toBe(false);
});

test('an error of a read is thrown again by the next one', () => {
  const { path, clocks } = rig();
  const text = cachedRead(path, clocks, () => {
    throw new Error('not that');
  });
  expect(text).toThrow('not that');
  expect(text).toThrow('not that');
});

test('a new name in a folder that was empty for a while is noticed at once, and a look holds for five seconds at most', () => {
  const { folder, path, clocks, pass } = rig();
  pass(200);
  const empty = openChangeDetector(folder, clocks);
  expect(empty.isUnchanged()).toBe(false);
  empty.beginRead()();
  expect(empty.isUnchanged()).toBe(true);
  fs.writeFileSync(path, '');
  expect(empty.isUnchanged()).toBe(false);
  pass(200);
  empty.beginRead()();
  expect(empty.isUnchanged()).toBe(true);
  pass(5000);
  expect(empty.isUnchanged()).toBe(false);
});

test('a clock that was set back makes it read again', () => {
  const { folder, clocks, pass } = rig();
  pass(-60_000);
  const empty = openChangeDetector(folder, clocks);
  empty.beginRead()();
  expect(empty.isUnchanged()).toBe(false);
});
