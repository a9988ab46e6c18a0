import * as fs from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { assessBlame, readCrashes, readCrashNote, writeCrashes } from '../../src/daemon/crashes/crash-notes.ts';
import type { CrashNote, CrashRecord } from '../../src/protocol/workspace/daemon-files.ts';
import { tempFolder } from '../store/rig.ts';

const NONE: CrashRecord = { unexplained: 0, by_session: {} };
const note = (session?: string): CrashNote => ({
  owner_since: 'then',
  why: 'it stood still for 60 s',
  ...(session !== undefined && { session }),
});
const lost = (before: CrashRecord, left?: CrashNote) => assessBlame(before, 'lost', left);

test('a loss without a note blames nobody, also where it happens again and again', () => {
  let result = lost(NONE);
  for (let n = 0; n < 9; n++) result = lost(result.crashes);
  expect(result).toEqual({ crashes: { unexplained: 10, by_session: {} }, blamed: null });
});

test('neither does an end of the machine, nor a note that names no session', () => {
  expect(assessBlame(NONE, 'with the machine', undefined)).toEqual({
    crashes: { ...NONE, unexplained: 1 },
    blamed: null,
  });
  expect(lost(NONE, note())).toEqual({ crashes: { ...NONE, unexplained: 1 }, blamed: null });
});

test('a note that names a session counts against it alone, and explains the loss', () => {
  const first = lost({ unexplained: 3, by_session: { b: 1 } }, note('a'));
  expect(first.crashes).toEqual({ unexplained: 0, by_session: { a: 1, b: 1 } });
  expect(lost(first.crashes, note('a')).blamed).toEqual({ session: 'a', times: 2, why: 'it stood still for 60 s' });
});

test('an end in order ends the row, and forgets no evidence', () => {
  const before = { unexplained: 4, by_session: { a: 2 } };
  expect(assessBlame(before, 'in order', note('a'))).toEqual({
    crashes: { unexplained: 0, by_session: { a: 2 } },
    blamed: null,
  });
});

test('any name may be blamed, also one that every object has', () => {
  expect(lost(NONE, note('constructor')).crashes.by_session).toEqual({ constructor: 1 });
});

test('files that are missing or make no sense, and a note of another owner, blame nobody', async () => {
  const folder = tempFolder();
  const path = join(folder, 'crashes.json');
  expect(readCrashes(path)).toEqual(NONE);
  for (const text of [
    '{',
    '{"version":1,"unexplained":2,"suspects":["a"]}',
    '{"unexplained":0,"by_session":{"a":"many"}}',
  ]) {
    fs.writeFileSync(path, text);
    expect(readCrashes(path)).toEqual(NONE);
  }
  await writeCrashes(path, { unexplained: 1, by_session: { a: 2 } });
  expect(readCrashes(path)).toEqual({ unexplained: 1, by_session: { a: 2 } });
  const left = join(folder, 'crash-note.json');
  expect(readCrashNote(left, 'then')).toBeUndefined();
  fs.writeFileSync(left, JSON.stringify(note('a')));
  expect(readCrashNote(left, 'then')).toEqual(note('a'));
  expect(readCrashNote(left, 'another time')).toBeUndefined();
  expect(readCrashNote(left, undefined)).toBeUndefined();
});
