import { expect, test } from 'vitest';
import { openWorkspace, SessionInUse } from '../../src/store/index.ts';
import { at, opened, progressed, tempFolder } from './rig.ts';

async function workspace() {
  const made = openWorkspace(tempFolder(), { now: at });
  for (const name of ['demo', 'other']) await made.create(name);
  return made;
}

test('a session that is open is not opened a second time, and the first goes on', async () => {
  const { session } = await workspace();
  const store = session('demo');
  await store.journal.append([opened]);
  expect(() => session('demo')).toThrow(SessionInUse);
  expect(() => session('demo')).toThrow('The session demo is open already');
  expect(await store.journal.append([progressed(1)])).toHaveLength(1);
  await session('other').close();
  await store.close();
});

test('a session that was closed is opened again; what held it before writes nothing', async () => {
  const { session } = await workspace();
  const first = session('demo');
  await first.journal.append([opened]);
  await first.close();
  const second = session('demo');
  await expect(first.journal.append([progressed(1)])).rejects.toThrow('closed');
  await first.close();
  expect(() => session('demo')).toThrow(SessionInUse);
  expect(await second.journal.append([progressed(1)])).toMatchObject([{ seq: 2 }]);
  await second.close();
});

test('a session that could not be opened is open to the next try', async () => {
  const made = openWorkspace(tempFolder(), { now: at });
  expect(() => made.session('demo')).toThrow('No session');
  await made.create('demo');
  await made.session('demo').close();
});
