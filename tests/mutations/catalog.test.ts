import { readdirSync, readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { GUARDED, patches, REDUNDANT, TESTS } from '../../scripts/mutations/catalog.ts';
import { discover } from '../../scripts/mutations/discover.ts';
import { patched } from '../../scripts/mutations/patched.ts';

const all = discover(process.cwd());

test('each sync of the store and each look at who owns the workspace is found by its form', () => {
  const inStore = all.filter(({ kind, file }) => kind === 'sync' && file.startsWith('src/store/'));
  expect(inStore.length).toBeGreaterThan(20);
  expect(all.filter(({ kind }) => kind === 'fence').length).toBeGreaterThan(1);
});

test('a mutation replaces just the code that it names', () => {
  for (const { file, start, length, code } of all.filter(({ kind }) => kind !== 'guard')) {
    const taken = readFileSync(file, 'utf8').slice(start, start + length);
    expect(taken.replace(/\s+/g, ' ').slice(0, 100)).toBe(code);
  }
});

test('every hand-made mutation still finds its code, exactly once', () => {
  expect(patched(process.cwd(), patches)).toHaveLength(patches.length);
});

test('every place that has tests of its own is a place in the sources, and the tests are there', () => {
  const beginsAPath = (folder: string, place: string) =>
    readdirSync(folder, { recursive: true, encoding: 'utf8' }).some((path) => `${folder}/${path}`.startsWith(place));
  const places = TESTS.map(([place]) => place).filter((place) => place !== 'src/');
  expect(places.filter((place) => !beginsAPath('src', place))).toEqual([]);
  const tests = TESTS.flatMap(([, lists]) => lists.flat());
  expect(tests.filter((place) => !beginsAPath('tests', place))).toEqual([]);
});

test('every file whose refusals are tried, and every call that is left out, is still there', () => {
  for (const place of GUARDED)
    expect(
      all.some(({ file }) => file.startsWith(place)),
      place,
    ).toBe(true);
  for (const { file, code } of REDUNDANT) expect(readFileSync(file, 'utf8')).toContain(code);
});
