import { expect, test } from 'vitest';
import { memoryStore } from '../support/memory-store.ts';
import { storePromises } from './promises.ts';
import { eventsOf, memoryRig, opened, progressed } from './rig.ts';

storePromises('in memory', () => memoryRig());

test('a power cut of the in-memory store loses only what was not synced', async () => {
  const store = memoryStore('demo');
  await store.eventLog.append([opened]);
  await store.eventLog.sync();
  await store.eventLog.append([progressed(1)]);
  const next = store.hands.restart({ powerCut: true });
  await store.eventLog.append([progressed(2)]);
  expect((await eventsOf(next)).map(({ type }) => type)).toEqual(['session.opened']);
  expect((await next.eventLog.append([progressed(3)])).map(({ seq }) => seq)).toEqual([2]);
});
