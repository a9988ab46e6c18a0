import * as fs from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { removeStaging } from '../../src/store/fs/durable-write.ts';
import { listNames, statIfExists, useIfExists } from '../../src/store/fs/file-reads.ts';

let folder = '';
beforeEach(() => {
  folder = fs.mkdtempSync(join(tmpdir(), 'there-'));
});
afterEach(() => fs.rmSync(folder, { recursive: true, force: true }));

test('a missing file is undefined, a missing folder has no names, and neither is an error', () => {
  const missing = join(folder, 'missing');
  expect(statIfExists(missing)).toBeUndefined();
  expect(useIfExists(missing, fs.readFileSync)).toBeUndefined();
  expect(listNames(missing)).toEqual([]);
  expect(() => removeStaging(missing)).not.toThrow();
});

test('a path with a link exists, wherever it points', () => {
  const link = join(folder, 'link');
  fs.symlinkSync(join(folder, 'nowhere'), link);
  expect(statIfExists(link)?.isSymbolicLink()).toBe(true);
  expect(useIfExists(link, fs.readFileSync)).toBeUndefined();
});

test('a file that disappears between check and job counts as missing', () => {
  const path = join(folder, 'file');
  fs.writeFileSync(path, 'text');
  const read = (gone: string) => {
    fs.rmSync(gone);
    return fs.readFileSync(gone);
  };
  expect(useIfExists(path, read)).toBeUndefined();
});

test('other file system errors are thrown', () => {
  expect(() => useIfExists(folder, fs.readFileSync)).toThrow('EISDIR');
});
