import { expect, test } from 'vitest';
import { openWorkspace, SessionInUse } from '../../src/store/index.ts';
import { at, opened, progressed, tempFolder } from './rig.ts';

async function workspace() {
  const made = openWorkspace(tempFolder(), { now: at });
  for (const name of ['demo', 'other']) await made.create(name);
  return made;
}

test('a session that is open is not opened a second time, and the first goes on', async () => {
  const { openSession } = await workspace();
  const store = openSession('demo');
  await store.eventLog.append([opened]);
  expect(() => openSession('demo')).toThrow(SessionInUse);
  expect(() => openSession('demo')).toThrow('The session demo is already open');
  expect(await store.eventLog.append([progressed(1)])).toHaveLength(1);
  await openSession('other').close();
  await store.close();
});

test('a session that was closed is opened again; what held it before writes nothing', async () => {
  const { openSession } = await workspace();
  const first = openSession('demo');
  await first.eventLog.append([opened]);
  await first.close();
  const second = openSession('demo');
  await expect(first.eventLog.append([progressed(1)])).rejects.toThrow('closed');
  await first.close();
  expect(() => openSession('demo')).toThrow(SessionInUse);
  expect(await second.eventLog.append([progressed(1)])).toMatchObject([{ seq: 2 }]);
  await second.close();
});

test('a session that could not be opened is open to the next try', async () => {
  const made = openWorkspace(tempFolder(), { now: at });
  expect(() => made.openSession('demo')).toThrow('No session');
  await made.create('demo');
  await made.openSession('demo').close();
});
