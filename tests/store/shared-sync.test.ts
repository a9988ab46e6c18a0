import { expect, test } from 'vitest';
import { coalesceSyncs } from '../../src/store/fs/durable-write.ts';

/** Syncs that end when the test says so. */
function rig() {
  const begun: Array<{ path: string; end: () => void; fail: (error: Error) => void }> = [];
  const sync = coalesceSyncs(
    (path) => new Promise<void>((end, fail) => void begun.push({ path, end: () => end(), fail })),
  );
  return { begun, sync };
}

const turn = () => new Promise(setImmediate);

test('all requests during a sync are served by one that begins after it', async () => {
  const { begun, sync } = rig();
  const first = sync('a');
  const ended: string[] = [];
  const others = ['x', 'y', 'z'].map((who) => sync('a').then(() => ended.push(who)));
  expect(begun.length).toBe(1);
  begun[0]?.end();
  await first;
  await turn();
  expect([begun.length, ended]).toEqual([2, []]);
  begun[1]?.end();
  await Promise.all(others);
  await turn();
  expect([begun.length, ended]).toEqual([2, ['x', 'y', 'z']]);
});

test('a request after a shared sync has begun waits for the next one', async () => {
  const { begun, sync } = rig();
  void sync('a');
  void sync('a');
  begun[0]?.end();
  await turn();
  let served = false;
  const late = sync('a').then(() => {
    served = true;
  });
  begun[1]?.end();
  await turn();
  expect([begun.length, served]).toEqual([3, false]);
  begun[2]?.end();
  await late;
});

test('a failed sync is reported to those it was to serve, and the next one is tried', async () => {
  const { begun, sync } = rig();
  const first = sync('a');
  const second = sync('a');
  begun[0]?.fail(new Error('EIO'));
  await expect(first).rejects.toThrow('EIO');
  begun[1]?.end();
  await expect(second).resolves.toBeUndefined();
});

test('folders do not wait for each other', () => {
  const { begun, sync } = rig();
  void sync('a');
  void sync('b');
  expect(begun.map(({ path }) => path)).toEqual(['a', 'b']);
});
