import { expect, test } from 'vitest';
import { memoryStore } from '../../src/store/index.ts';
import { storePromises } from './promises.ts';
import { eventsOf, memoryRig, opened, progressed } from './rig.ts';

storePromises('in memory', () => memoryRig());

test('a power cut in memory takes what was not synced, and nothing else', async () => {
  const store = memoryStore('demo');
  await store.journal.append([opened]);
  await store.journal.sync();
  await store.journal.append([progressed(1)]);
  const next = store.hands.restart({ powerCut: true });
  await store.journal.append([progressed(2)]);
  expect((await eventsOf(next)).map(({ type }) => type)).toEqual(['session.opened']);
  expect((await next.journal.append([progressed(3)])).map(({ seq }) => seq)).toEqual([2]);
});
