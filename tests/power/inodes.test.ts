import * as fs from 'node:fs';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { forget, install, pretend } from '../../scripts/power/inodes.ts';
import { openSessionFolder, sessionPaths, sessionTokens } from '../../src/store/index.ts';
import { temporaryFolder } from '../support/temporary.ts';

test('a message whose inode number no double can hold leaves the inbox, once', async () => {
  const folder = temporaryFolder('inodes');
  onTestFinished(forget);
  const paths = sessionPaths(folder);
  const store = openSessionFolder(folder, sessionTokens().take('demo'), { now: () => new Date() });
  const path = join(paths.inbox, '1.msg.md');
  fs.writeFileSync(path, 'Hello');
  install();
  pretend(path, { ino: 2n ** 53n + 1n, mtimeNs: 1n });
  const { drops } = await store.inbox.listReady();
  for (const drop of drops) await store.inbox.moveToDone(drop, 2, []);
  expect(drops.map((drop) => drop.identity.ino)).toEqual(['9007199254740993']);
  expect(fs.readdirSync(paths.done)).toEqual(['2-1.msg.md']);
  expect((await store.inbox.listReady()).drops).toEqual([]);
  await store.close();
});
