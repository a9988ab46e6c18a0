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

test('what is not there is undefined, a folder that is not there has no names, and none of it is an error', () => {
  const missing = join(folder, 'missing');
  expect(statIfExists(missing)).toBeUndefined();
  expect(useIfExists(missing, fs.readFileSync)).toBeUndefined();
  expect(listNames(missing)).toEqual([]);
  expect(() => removeStaging(missing)).not.toThrow();
});

test('a link is what lies at a path, wherever it points', () => {
  const link = join(folder, 'link');
  fs.symlinkSync(join(folder, 'nowhere'), link);
  expect(statIfExists(link)?.isSymbolicLink()).toBe(true);
  expect(useIfExists(link, fs.readFileSync)).toBeUndefined();
});

test('a file that goes between the look and the job is not there', () => {
  const path = join(folder, 'file');
  fs.writeFileSync(path, 'text');
  const read = (gone: string) => {
    fs.rmSync(gone);
    return fs.readFileSync(gone);
  };
  expect(useIfExists(path, read)).toBeUndefined();
});

test('other complaints of the file system are thrown', () => {
  expect(() => useIfExists(folder, fs.readFileSync)).toThrow('EISDIR');
});
