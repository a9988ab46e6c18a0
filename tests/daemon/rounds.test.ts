import * as fs from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import type { FolderWatches } from '../../src/daemon/watch/folder-watches.ts';
import { openInboxSweep } from '../../src/daemon/watch/inbox-sweep.ts';
import type { SessionWatches } from '../../src/daemon/watch/session-watches.ts';
import { workspacePaths } from '../../src/store/layout/layout.ts';
import { temporaryFolder } from '../support/temporary.ts';

/** A sweep among so many sessions, each of which takes `ms`; then after how long the next one is due. */
async function pauseAfter(count: number, ms: number, local = true): Promise<number> {
  const root = temporaryFolder('rounds');
  const names = Array.from({ length: count }, (_, n) => `s${n}`);
  for (const name of names) fs.mkdirSync(join(root, '.sessions', name), { recursive: true });
  let time = 0;
  const sessions: SessionWatches = {
    awaitCopies: () => undefined,
    check: () => {
      time += ms;
    },
    has: () => true,
    names: () => names,
    count: () => count,
    polled: new Set(),
    nextPolled: () => undefined,
    close: () => {},
  };
  const watches: FolderWatches = {
    tryAgain: () => {},
    limit: null,
    watch: () => null,
    mayBeTried: false,
    withOneFree: () => {},
  };
  const rounds = openInboxSweep({
    paths: workspacePaths(root),
    sessions,
    watches,
    statFolder: () => ({ id: 'root', mtime: 0n, isRecent: false, born: 0 }),
    local,
    clock: { now: () => new Date(time), elapsed: () => time, after: () => () => {} },
    open: () => [],
    wake: () => {},
    onComplete: () => {},
    onFailed: () => {},
  });
  expect(rounds.isDue()).toBe(true);
  await rounds.sweep();
  const ended = time;
  while (!rounds.isDue()) time += 1000;
  return time - ended;
}

test('a sweep takes no more than a 200th of the time, and comes each five minutes at the least', async () => {
  expect(await pauseAfter(10, 0)).toBe(0);
  expect(await pauseAfter(20, 10)).toBe(40_000);
  expect(await pauseAfter(20, 100)).toBe(300_000);
});

test('where changes made elsewhere are not reported a sweep comes each time it can', async () => {
  expect(await pauseAfter(20, 100, false)).toBe(0);
});
