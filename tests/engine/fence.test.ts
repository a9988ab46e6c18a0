import { expect, test } from 'vitest';
import { rig } from '../support/rig.ts';

const lost = new Error('another daemon owns the workspace');

/** A run whose one call comes when the workspace is another's. */
async function withCall(replay: 'safe' | 'never') {
  const at = await rig({
    script: (_, n) => (n === 0 ? { calls: [{ name: 'shell', args: {} }] } : { text: 'Done.' }),
    replay: () => replay,
    owner: {
      check() {
        throw lost;
      },
    },
  });
  await at.say('1.md', 'do it');
  return at;
}

test('a command that may run only once is not started by a daemon that lost the workspace', async () => {
  const at = await withCall('never');
  expect([at.toolRuns, at.takeFaults()]).toEqual([[], [lost]]);
  expect(at.types()).not.toContain('tool.finished');
});

test('a call that may run twice needs no look at the owner', async () => {
  const at = await withCall('safe');
  expect([at.toolRuns.length, at.faults]).toEqual([1, []]);
});
