import * as fs from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { assessBlame, readCrashNote, readLosses, writeLosses } from '../../src/daemon/crashes/crash-blame.ts';
import type { CrashNote, CrashRecord } from '../../src/protocol/workspace/daemon-files.ts';
import { tempFolder } from '../store/rig.ts';

const NONE: CrashRecord = { in_a_row: 0, against: {} };
const note = (session?: string): CrashNote => ({
  owner_since: 'then',
  why: 'it stood still for 60 s',
  ...(session !== undefined && { session }),
});
const lost = (before: CrashRecord, left?: CrashNote) => assessBlame(before, 'lost', left);

test('a loss without a note blames nobody, also where it happens again and again', () => {
  let result = lost(NONE);
  for (let n = 0; n < 9; n++) result = lost(result.losses);
  expect(result).toEqual({ losses: { in_a_row: 10, against: {} }, blamed: null });
});

test('neither does an end of the machine, nor a note that names no session', () => {
  expect(assessBlame(NONE, 'with the machine', undefined)).toEqual({ losses: { ...NONE, in_a_row: 1 }, blamed: null });
  expect(lost(NONE, note())).toEqual({ losses: { ...NONE, in_a_row: 1 }, blamed: null });
});

test('a note that names a session counts against it alone, and explains the loss', () => {
  const first = lost({ in_a_row: 3, against: { b: 1 } }, note('a'));
  expect(first.losses).toEqual({ in_a_row: 0, against: { a: 1, b: 1 } });
  expect(lost(first.losses, note('a')).blamed).toEqual({ session: 'a', times: 2, why: 'it stood still for 60 s' });
});

test('an end in order ends the row, and forgets no evidence', () => {
  const before = { in_a_row: 4, against: { a: 2 } };
  expect(assessBlame(before, 'in order', note('a'))).toEqual({
    losses: { in_a_row: 0, against: { a: 2 } },
    blamed: null,
  });
});

test('any name may be blamed, also one that every object has', () => {
  expect(lost(NONE, note('constructor')).losses.against).toEqual({ constructor: 1 });
});

test('files that are missing or make no sense, and a note of another owner, blame nobody', async () => {
  const folder = tempFolder();
  const path = join(folder, 'losses.json');
  expect(readLosses(path)).toEqual(NONE);
  for (const text of ['{', '{"version":1,"in_a_row":2,"suspects":["a"]}', '{"in_a_row":0,"against":{"a":"many"}}']) {
    fs.writeFileSync(path, text);
    expect(readLosses(path)).toEqual(NONE);
  }
  await writeLosses(path, { in_a_row: 1, against: { a: 2 } });
  expect(readLosses(path)).toEqual({ in_a_row: 1, against: { a: 2 } });
  const left = join(folder, 'crash-note.json');
  expect(readCrashNote(left, 'then')).toBeUndefined();
  fs.writeFileSync(left, JSON.stringify(note('a')));
  expect(readCrashNote(left, 'then')).toEqual(note('a'));
  expect(readCrashNote(left, 'another time')).toBeUndefined();
  expect(readCrashNote(left, undefined)).toBeUndefined();
});
