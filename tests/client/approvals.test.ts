import { setTimeout as sleep } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { opened, received, record, rig, started } from './rig.ts';

const spent = { iterations: 1, tokens: 0, cost: null };

test('a call that the log has is found by its number once its run is idle, and not listed before', async () => {
  const it = rig();
  const folder = it.session('demo');
  await it.client.send('demo', { text: 'x' });
  await record(folder, [
    ...[opened, received('1.md'), started('1.md')],
    {
      ...{ type: 'approval.asked', call: '6.0', name: 'shell', args: '{}', id: 1, hash: 'x', why: 'x', display: 'x' },
      ...{ always: null, expires_at: '2026-01-03T00:00:00.000Z' },
    },
  ]);
  expect(await it.client.approvalRequests('demo')).toEqual([]);
  const found = it.client.approvalRequest('demo', 1);
  let isFound = false;
  void found.then(() => {
    isFound = true;
  });
  await sleep(60);
  expect(isFound).toBe(false);
  await record(folder, [
    { type: 'run.ended', message: '1.md', status: 'waiting', reason: 'approval', text: 'x', spent },
  ]);
  expect(await found).toMatchObject({ session: 'demo', id: 1, tool: 'shell' });
  await expect(it.client.approvalRequest('demo', 2)).rejects.toThrow('Call 2 is not waiting');
});
