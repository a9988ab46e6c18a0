import { execFileSync } from 'node:child_process';
import * as fs from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import type { RestoreOrder, SaveOrder } from '../../src/engine/ports/store-ports.ts';
import { type CheckpointLimits, resolveCheckpoints } from '../../src/protocol/settings/checkpoint-limits.ts';
import { openCheckpoints } from '../../src/store/checkpoints/checkpoint-store.ts';
import { readManifest } from '../../src/store/checkpoints/manifest-file.ts';
import { trimToShare } from '../../src/store/checkpoints/prune.ts';
import { TIMESTAMP_TICK_MS } from '../../src/store/fs/file-reads.ts';
import { sessionPaths } from '../../src/store/layout/layout.ts';

const signal = new AbortController().signal;
let folder: string;
let limits: CheckpointLimits;

beforeEach(() => {
  folder = fs.mkdtempSync(join(tmpdir(), 'agentd-checkpoints-'));
  fs.mkdirSync(join(folder, 'work'));
  limits = resolveCheckpoints({});
});
afterEach(() => {
  execFileSync('chmod', ['-R', 'u+rwX', folder]);
  fs.rmSync(folder, { recursive: true, force: true });
});

const paths = () => sessionPaths(folder);
const open = () => openCheckpoints(paths(), paths().work, () => limits);
const order = (more: Partial<SaveOrder> = {}): SaveOrder => ({
  ...{ why: 'step_ended', steps: ['step_1'], plan: 'plan_1', concurrent: false, last: 0, needed: [], ...more },
});
const restore = (checkpoint: number, chosen: string[] = []): RestoreOrder => ({
  ...{ checkpoint, paths: chosen, save: order({ why: 'rescue', steps: [] }) },
});
const write = (path: string, text: string): void => {
  fs.mkdirSync(join(folder, 'work', path, '..'), { recursive: true });
  fs.writeFileSync(join(folder, 'work', path), text);
};
const read = (path: string): string => fs.readFileSync(join(folder, 'work', path), 'utf8');
const work = (path = ''): string => join(folder, 'work', path);
const names = (): string[] => fs.readdirSync(paths().checkpoints).sort();
/** Until a file is older than the resolution of file times. */
async function toAge(path: string): Promise<void> {
  while (Date.now() - fs.statSync(path).ctimeMs <= 2 * TIMESTAMP_TICK_MS)
    await new Promise((later) => setTimeout(later, 10));
}
const state = async (number: number) => (await readManifest(paths(), number)).state;

test('contents of the manifest are plain files, and an unchanged folder writes no manifest', async () => {
  write('a.txt', 'one');
  write('sub/b.txt', 'two');
  const first = await open().save(order(), signal);
  expect(first).toMatchObject({ checkpoint: 1, counts: { added: 2, changed: 0, removed: 0 }, leftOut: 0 });
  const manifest = JSON.parse(fs.readFileSync(paths().checkpoint(1), 'utf8'));
  expect(manifest.entries.map((entry: { path: string }) => entry.path)).toEqual(['a.txt', 'sub', 'sub/b.txt']);
  expect(fs.readFileSync(join(paths().checkpointContents, manifest.entries[0].sha256), 'utf8')).toBe('one');
  expect((await open().save(order({ last: 1 }), signal)).checkpoint).toBe(1);
  expect(names()).toEqual(['1.json', 'contents']);
});

test('an empty folder needs no manifest', async () => {
  expect(await open().save(order(), signal)).toMatchObject({ checkpoint: 0, files: [] });
  expect(names()).toEqual(['contents']);
});

test('a restore brings back what was changed and deleted, removes what is new, and leaves the other files alone', async () => {
  const checkpoints = open();
  for (const name of ['same', 'changed', 'deleted/inner']) write(name, `${name} 1`);
  await checkpoints.save(order(), signal);
  const before = fs.statSync(work('same'), { bigint: true });
  write('changed', 'spoilt');
  write('new/file', 'only in the rescue');
  fs.rmSync(work('deleted'), { recursive: true });
  expect(await checkpoints.restore(restore(1), signal)).toEqual({ added: 1, changed: 1, removed: 1 });
  expect([read('changed'), read('deleted/inner'), fs.readdirSync(work()).sort()]).toEqual([
    ...['changed 1', 'deleted/inner 1'],
    ['changed', 'deleted', 'same'],
  ]);
  expect(fs.statSync(work('same'), { bigint: true })).toMatchObject({ ino: before.ino, mtimeNs: before.mtimeNs });
  // The rescue is the way back.
  await checkpoints.restore(restore(2), signal);
  expect([read('changed'), read('new/file'), fs.existsSync(work('deleted'))]).toEqual([
    ...['spoilt', 'only in the rescue'],
    false,
  ]);
});

test('only the named paths are restored, with the folders around them', async () => {
  const checkpoints = open();
  write('a/b/c.txt', 'then');
  write('other.txt', 'then');
  await checkpoints.save(order(), signal);
  fs.rmSync(work('a'), { recursive: true });
  write('other.txt', 'now');
  await checkpoints.restore(restore(1, ['a/b/c.txt']), signal);
  expect([read('a/b/c.txt'), read('other.txt')]).toEqual(['then', 'now']);
  await expect(checkpoints.restore(restore(1, ['missing']), signal)).rejects.toThrow('There is no "missing" in work/');
});

test('modes, empty folders, links, hard links and names that are no UTF-8 come back', async () => {
  const checkpoints = open();
  write('run.sh', '#!/bin/sh');
  fs.chmodSync(work('run.sh'), 0o751);
  fs.mkdirSync(work('empty'), { mode: 0o700 });
  fs.symlinkSync('/etc/passwd', work('outside'));
  write('one', 'shared');
  fs.linkSync(work('one'), work('two'));
  const raw = Buffer.concat([Buffer.from(`${work()}/`), Buffer.from([0x66, 0xff, 0x6f])]);
  fs.writeFileSync(raw, 'bytes');
  write('é'.normalize('NFC'), 'composed');
  write('é'.normalize('NFD'), 'decomposed');
  await checkpoints.save(order(), signal);
  for (const name of fs.readdirSync(work(), { encoding: 'buffer' }))
    fs.rmSync(Buffer.concat([Buffer.from(`${work()}/`), name]), { recursive: true });
  await checkpoints.restore(restore(1), signal);
  expect(fs.statSync(work('run.sh')).mode & 0o7777).toBe(0o751);
  expect(fs.statSync(work('empty')).mode & 0o7777).toBe(0o700);
  expect(fs.readlinkSync(work('outside'))).toBe('/etc/passwd');
  expect(fs.statSync(work('one')).ino).toBe(fs.statSync(work('two')).ino);
  expect(fs.readFileSync(raw, 'utf8')).toBe('bytes');
  expect([read('é'.normalize('NFC')), read('é'.normalize('NFD'))]).toEqual(['composed', 'decomposed']);
});

test('what is left out is named, and links are not followed', async () => {
  fs.mkdirSync(work('node_modules'));
  write('node_modules/x', 'dependency');
  write('repo/.git/HEAD', 'ref');
  write('big.bin', 'x'.repeat(2000));
  write('kept', 'kept');
  execFileSync('mkfifo', [work('pipe')]);
  fs.symlinkSync('/etc', work('etc'));
  limits = { ...limits, maxFileBytes: 1000 };
  expect((await open().save(order(), signal)).leftOut).toBe(4);
  const { entries, leftOut } = await state(1);
  expect([...entries.keys()]).toEqual(['etc', 'kept', 'repo']);
  expect(leftOut).toEqual([
    { path: 'big.bin', why: 'too_large' },
    { path: 'node_modules', why: 'excluded' },
    { path: 'pipe', why: 'special' },
    { path: 'repo/.git', why: 'excluded' },
  ]);
});

test('a restore neither overwrites nor removes what no checkpoint can keep', async () => {
  const checkpoints = open();
  write('data', 'small');
  write('doc', 'then');
  await checkpoints.save(order(), signal);
  limits = { ...limits, maxFileBytes: 10 };
  write('data', 'too large for a checkpoint');
  write('doc', 'now');
  write('other', 'too large as well, and new');
  write('node_modules/dep', 'x');
  await expect(checkpoints.restore(restore(1), signal)).rejects.toThrow('Nothing was changed: no checkpoint can keep');
  expect([read('data'), read('doc')]).toEqual(['too large for a checkpoint', 'now']);
  await checkpoints.restore(restore(1, ['doc']), signal);
  expect([read('doc'), read('data'), read('other')]).toEqual([
    'then',
    'too large for a checkpoint',
    'too large as well, and new',
  ]);
  fs.rmSync(work('data'));
  await checkpoints.restore(restore(1), signal);
  expect([read('data'), read('other'), read('node_modules/dep')]).toEqual(['small', 'too large as well, and new', 'x']);
});

test('a change within the resolution of file times is seen', async () => {
  const checkpoints = open();
  write('a', 'one');
  const times = fs.statSync(work('a'));
  await checkpoints.save(order(), signal);
  // The same size and time, in place: only reading it shows the change.
  fs.writeFileSync(work('a'), 'two');
  fs.utimesSync(work('a'), times.atime, times.mtime);
  expect(await checkpoints.save(order({ last: 1 }), signal)).toMatchObject({ checkpoint: 2, counts: { changed: 1 } });
});

test('a manifest that was edited and a content that is missing are said, and nothing is changed', async () => {
  write('a', 'one');
  write('b', 'one as well');
  await open().save(order(), signal);
  write('a', 'two');
  write('b', 'two');
  const text = fs.readFileSync(paths().checkpoint(1), 'utf8');
  fs.writeFileSync(paths().checkpoint(1), text.replace('"path":"a"', '"path":"aa"'));
  await expect(open().restore(restore(1), signal)).rejects.toThrow('its checksum does not match its entries');
  fs.writeFileSync(paths().checkpoint(1), text.replace('"path":"a"', '"path":"../a"'));
  await expect(open().restore(restore(1), signal)).rejects.toThrow('is none: {"path":"../a"');
  fs.writeFileSync(paths().checkpoint(1), text.replace('"version": 1', '"version": 2'));
  await expect(open().restore(restore(1), signal)).rejects.toThrow('Update agentd');
  await expect(open().restore(restore(7), signal)).rejects.toThrow('There is no checkpoint 7; kept are 1, 2.');
  fs.writeFileSync(paths().checkpoint(1), text);
  const [, sha256 = ''] = /"path":"b".*"sha256":"(\w+)"/.exec(text) ?? [];
  fs.rmSync(join(paths().checkpointContents, sha256));
  await expect(open().restore(restore(1), signal)).rejects.toThrow('is missing');
  expect([read('a'), read('b'), names().filter((name) => name.startsWith('.'))]).toEqual(['two', 'two', []]);
});

test('checkpoints between step ends are removed first, those of the open plan last, and contents with the last of them', async () => {
  limits = { ...limits, keep: 3 };
  const checkpoints = open();
  const orders = [
    ...[order({ plan: 'old' }), order({ why: 'run_ended', steps: [], plan: null }), order({ plan: 'open' })],
    ...[order({ plan: 'open' }), order({ plan: 'open' })],
  ];
  for (const [n, one] of orders.entries()) {
    write('file', `version ${n + 1}`);
    await checkpoints.save({ ...one, last: n }, signal);
  }
  expect(names()).toEqual(['3.json', '4.json', '5.json', 'contents']);
  expect(fs.readdirSync(paths().checkpointContents)).toHaveLength(3);
});

test('what a crash left behind is removed with the next checkpoint', async () => {
  write('a', 'one');
  await open().save(order(), signal);
  fs.writeFileSync(join(paths().checkpoints, '.tmp-0123'), 'half a manifest');
  fs.writeFileSync(join(paths().checkpointContents, '.tmp-4567'), 'half a content');
  fs.writeFileSync(join(paths().checkpointContents, 'a'.repeat(64)), 'a content without a manifest');
  write('a', 'two');
  await open().save(order({ last: 1 }), signal);
  expect(names()).toEqual(['1.json', '2.json', 'contents']);
  expect(fs.readdirSync(paths().checkpointContents)).toHaveLength(2);
});

test('sessions that together keep more than a workspace may are cut to a share each, and keep their newest checkpoint', async () => {
  const other = fs.mkdtempSync(join(tmpdir(), 'agentd-checkpoints-'));
  fs.mkdirSync(join(other, 'work'));
  fs.writeFileSync(join(other, 'work/small'), 'x');
  await openCheckpoints(sessionPaths(other), join(other, 'work'), () => limits).save(order(), signal);
  const checkpoints = open();
  for (let n = 0; n < 4; n++) {
    write('file', String(n).repeat(10_000));
    await checkpoints.save(order({ last: n }), signal);
  }
  for (const name of fs.readdirSync(paths().checkpointContents)) await toAge(join(paths().checkpointContents, name));
  const all = [paths(), sessionPaths(other)];
  expect(await trimToShare(paths(), all, 1e6)).toBe(false);
  expect(await trimToShare(paths(), all, 30_000)).toBe(true);
  expect(names()).toEqual(['4.json', 'contents']);
  expect(await trimToShare(sessionPaths(other), all, 30_000)).toBe(false);
  expect(await state(4)).toMatchObject({ leftOut: [] });
  expect(fs.readdirSync(paths().checkpointContents)).toHaveLength(1);
  fs.rmSync(other, { recursive: true });
});
