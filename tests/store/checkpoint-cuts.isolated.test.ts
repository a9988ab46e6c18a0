import * as fs from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, expect, test } from 'vitest';
import { sha256 } from '../../src/base/sha256.ts';
import type { SaveOrder } from '../../src/engine/ports/store-ports.ts';
import { resolveCheckpoints } from '../../src/protocol/settings/checkpoint-limits.ts';
import { openCheckpoints } from '../../src/store/checkpoints/checkpoint-store.ts';
import { listCheckpoints, readManifest } from '../../src/store/checkpoints/manifest-file.ts';
import { sessionPaths } from '../../src/store/layout/layout.ts';
import { dieAt, picture, revive } from '../support/dying-disk.ts';

const signal = new AbortController().signal;
const folders: string[] = [];

afterEach(() => {
  revive();
  for (const folder of folders.splice(0)) fs.rmSync(folder, { recursive: true, force: true });
});

function newFolder(): string {
  const folder = fs.mkdtempSync(join(tmpdir(), 'agentd-cuts-'));
  folders.push(folder);
  return folder;
}

const openAt = (folder: string) =>
  openCheckpoints(sessionPaths(folder), join(folder, 'work'), () => resolveCheckpoints({}));
const order = (last: number): SaveOrder => ({
  ...{ why: 'step_ended', steps: ['step_1'], plan: null, concurrent: false, last, needed: [] },
});

/** Before: two files, a folder and a link. After: each is changed, replaced by another kind or gone, and some are new. */
async function changedFolder(): Promise<{ folder: string; before: object; after: object }> {
  const folder = newFolder();
  const work = join(folder, 'work');
  fs.mkdirSync(join(work, 'kept/inner'), { recursive: true });
  fs.mkdirSync(join(work, 'becomes-file'));
  fs.writeFileSync(join(work, 'a.txt'), 'a one');
  fs.writeFileSync(join(work, 'kept/inner/b.txt'), 'b one', { mode: 0o640 });
  fs.writeFileSync(join(work, 'gone.bin'), 'x'.repeat(1_200_000));
  fs.symlinkSync('a.txt', join(work, 'link'));
  await openAt(folder).save(order(0), signal);
  const before = picture(work);
  fs.writeFileSync(join(work, 'a.txt'), 'a two');
  fs.chmodSync(join(work, 'kept/inner/b.txt'), 0o600);
  fs.rmSync(join(work, 'gone.bin'));
  fs.rmdirSync(join(work, 'becomes-file'));
  fs.writeFileSync(join(work, 'becomes-file'), 'now a file');
  fs.rmSync(join(work, 'link'));
  fs.symlinkSync('kept', join(work, 'link'));
  fs.mkdirSync(join(work, 'new'));
  fs.writeFileSync(join(work, 'new/c.txt'), 'c');
  return { folder, before, after: picture(work) };
}

/** All manifests can be read, and the contents that they name are there. */
async function expectWhole(folder: string): Promise<void> {
  const paths = sessionPaths(folder);
  for (const number of listCheckpoints(paths)) {
    const { state } = await readManifest(paths, number);
    for (const entry of state.entries.values())
      if (entry.kind === 'file')
        expect(sha256(fs.readFileSync(join(paths.checkpointContents, entry.sha256)))).toBe(entry.sha256);
  }
}

test('a checkpoint that is cut off before any of its writes is not there, and the next one is whole', async () => {
  const { folder: template, after } = await changedFolder();
  for (let at = 1; ; at++) {
    const folder = newFolder();
    fs.cpSync(template, folder, { recursive: true, verbatimSymlinks: true });
    const count = dieAt(at);
    const died = await openAt(folder)
      .save(order(1), signal)
      .then(
        () => false,
        () => true,
      );
    revive();
    if (!died) {
      expect(at).toBeGreaterThan(8);
      expect(count()).toBeLessThan(at);
      return;
    }
    await expectWhole(folder);
    expect(picture(join(folder, 'work'))).toEqual(after);
    const next = await openAt(folder).save(order(1), signal);
    await expectWhole(folder);
    expect(next.files.length, `cut at ${at}`).toBeGreaterThan(4);
    expect(fs.readdirSync(join(folder, 'checkpoints')).filter((name) => name.startsWith('.'))).toEqual([]);
  }
}, 60_000);

test('a restore that is cut off before any of its changes is completed by the same restore, and undone by its rescue', async () => {
  const { folder: template, before, after } = await changedFolder();
  const restore = { checkpoint: 1, paths: [], save: { ...order(1), why: 'rescue' as const, needed: [] } };
  for (let at = 1; ; at++) {
    const folder = newFolder();
    fs.cpSync(template, folder, { recursive: true, verbatimSymlinks: true });
    const work = join(folder, 'work');
    const { checkpoint: rescue } = await openAt(folder).save({ ...order(1), why: 'rescue' }, signal);
    dieAt(at);
    const died = await openAt(folder)
      .restore(restore, signal)
      .then(
        () => false,
        () => true,
      );
    revive();
    await expectWhole(folder);
    for (const [path, content] of Object.entries(picture(work)))
      if (!content.startsWith('folder'))
        expect([Reflect.get(before, path), Reflect.get(after, path)], `${path}, cut at ${at}`).toContain(content);
    await openAt(folder).restore({ ...restore, save: { ...restore.save, needed: [rescue] } }, signal);
    expect(picture(work), `cut at ${at}`).toEqual(before);
    await openAt(folder).restore({ ...restore, checkpoint: rescue }, signal);
    expect(picture(work), `cut at ${at}`).toEqual(after);
    if (!died) return expect(at).toBeGreaterThan(15);
  }
}, 60_000);
