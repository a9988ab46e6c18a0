import * as fs from 'node:fs';
import { join } from 'node:path';
import { expect, test, vi } from 'vitest';
import { createFolderId, type FolderStat, watchFolderIdentity } from '../../src/store/fs/open-folder.ts';
import { tempFolder } from './rig.ts';

vi.mock('node:fs', async (original) => ({ ...(await original<typeof fs>()) }));

const folder = (birthtimeNs: bigint): FolderStat => ({ dev: 1n, ino: 7n, birthtimeNs, ctimeNs: 99n });

/** Folder ids on a simulated file system, on which `change` modifies the real stat of folders. */
function ids(used: Partial<FolderStat>) {
  const path = tempFolder();
  const stat = Object.assign(fs.lstatSync(path, { bigint: true }), used);
  const spy = vi.spyOn(fs, 'lstatSync').mockReturnValue(stat);
  const idOf = createFolderId(path);
  spy.mockRestore();
  return idOf;
}

/** Timestamps do not change within a tick of the kernel. */
const tick = () => new Promise((done) => setTimeout(done, 20));

test('a folder is the same while files come and go in it, and one made under its name is another', async () => {
  const path = join(tempFolder(), 'demo');
  fs.mkdirSync(path);
  const isSame = watchFolderIdentity(path);
  await tick();
  fs.writeFileSync(join(path, 'x'), 'x');
  fs.chmodSync(path, 0o700);
  expect(isSame()).toBe(true);
  fs.rmSync(path, { recursive: true });
  expect(isSame()).toBe(false);
  fs.mkdirSync(path);
  expect(isSame()).toBe(false);
});

test('a reused inode number is another folder if birth times are reported', () => {
  const idOf = ids({ birthtimeNs: 5n, ctimeNs: 6n });
  expect(idOf(folder(5n))).not.toBe(idOf(folder(8n)));
});

test.each([
  ['0 stands', { birthtimeNs: 0n, ctimeNs: 6n }],
  ['the last change stands', { birthtimeNs: 6n, ctimeNs: 6n }],
])('where %s in place of the time of birth, a folder that was changed stays the same', (_, used) => {
  const idOf = ids(used);
  expect(idOf(folder(5n))).toBe(idOf(folder(8n)));
});
