import * as fs from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { openSessionFolder, sessionPaths, sessionTokens } from '../../src/store/index.ts';
import { storePromises } from './promises.ts';
import { at, diskRig, tempFolder } from './rig.ts';

storePromises('on disk', () => diskRig());

test.each(['inbox', 'outbox', 'work', 'plans', 'blobs'])(
  'a link in the place of %s/ is refused, not followed',
  (name) => {
    const [folder, elsewhere] = [tempFolder(), tempFolder()];
    fs.symlinkSync(elsewhere, join(folder, name));
    expect(() => openSessionFolder(folder, sessionTokens().take('demo'), { now: at })).toThrow(/must be a folder/);
    expect(fs.readdirSync(elsewhere)).toEqual([]);
  },
);

test('unfinished files of an earlier daemon are removed, others are not', async () => {
  const rig = diskRig();
  const folder = join(await rig.store.work(), '..');
  const { blobs, outboxStaging, rejected } = sessionPaths(folder);
  for (const place of [folder, blobs, outboxStaging, rejected])
    fs.writeFileSync(join(place, '.tmp-0123456789abcdef'), 'half');
  fs.writeFileSync(join(blobs, 'kept'), 'whole');
  await rig.reopen();
  expect([blobs, outboxStaging, rejected].map((place) => fs.readdirSync(place))).toEqual([['kept'], [], []]);
  expect(fs.readdirSync(folder).filter((name) => name.startsWith('.tmp-'))).toEqual([]);
});

test('unfinished files of a sender are removed from the inbox after 36 hours, and not before', async () => {
  const rig = diskRig();
  const { inboxStaging } = sessionPaths(join(await rig.store.work(), '..'));
  const hoursOld = (name: string, hours: number) => {
    fs.writeFileSync(join(inboxStaging, name), 'half');
    const then = at().getTime() / 1000 - hours * 3600;
    fs.utimesSync(join(inboxStaging, name), then, then);
  };
  hoursOld('old', 37);
  hoursOld('fresh', 35);
  await rig.reopen();
  expect(fs.readdirSync(inboxStaging)).toEqual(['fresh']);
});

test('a blob whose bytes were changed is not handed out', async () => {
  const rig = diskRig();
  const hash = await rig.store.blobs.put('the truth');
  fs.writeFileSync(join(await rig.store.work(), '..', 'blobs', hash), 'a lie');
  await expect(rig.store.blobs.get(hash)).rejects.toThrow('not what its name says');
});

test('errors while writing the text of a call have no effect', async () => {
  const rig = diskRig();
  fs.mkdirSync(join(await rig.store.work(), '..', 'live'));
  rig.store.live.begin();
  rig.store.live.write('lost');
});
