import { expect, test } from 'vitest';
import { z } from 'zod';
import { isSessionFolder, readableName, sessionFolder } from '../../src/protocol/workspace/session-names.ts';
import fc, { anyCharacter } from '../support/property.ts';
import { casesOf } from './case-file.ts';

const Input = z.strictObject({ keys: z.tuple([z.string(), z.string()]) });
const Expected = z.strictObject({ distinct: z.literal(true), safe: z.literal(true) });

/** What a file system that ignores case and normal form compares. */
const seen = (name: string): string => name.normalize('NFKD').toLowerCase();
const isSafe = (name: string): boolean =>
  /^[^./~\s-][^/~\\:*?"<>|\s]*$/u.test(name) &&
  !/\p{Cc}|[. ]$/u.test(name) &&
  !/^(?:con|prn|aux|nul|com\d|lpt\d)(?:\.|$)/i.test(name) &&
  Buffer.byteLength(name) <= 255 &&
  isSessionFolder(name);

for (const one of casesOf('folder-names', Input, Expected)) {
  test(one.fact, () => {
    const [first, second] = one.input.keys.map(sessionFolder);
    expect(seen(first ?? '')).not.toBe(seen(second ?? ''));
    expect(one.input.keys.map(sessionFolder).every(isSafe)).toBe(true);
  });
}

const key = fc.oneof(
  fc.string({ unit: anyCharacter, maxLength: 300 }),
  fc.string({ unit: fc.constantFrom(...'aA=~:./\\ -_eu61hか\u3099がéé用户\uD800\u{1F469}'), maxLength: 12 }),
  fc.constantFrom('con', 'CON', 'nul.txt', 'com1', '=empty', '', 'Demo', 'demo'),
);

test('two different keys never meet in one folder, whatever the file system ignores', () => {
  fc.assert(
    fc.property(key, key, (one, other) => {
      expect(seen(sessionFolder(one)) === seen(sessionFolder(other))).toBe(one === other);
    }),
    { numRuns: 3000 },
  );
});

test('the folder of any key is one harmless segment', () => {
  fc.assert(
    fc.property(key, (one) => {
      expect(isSafe(sessionFolder(one)), sessionFolder(one)).toBe(true);
    }),
    { numRuns: 2000 },
  );
});

test('the name that people read leads to the same folder, and hides nothing', () => {
  for (const name of ['Büro', '🚀', 'Straße 5', 'telegram:anna@example.org', 'Demo', '50%', '用户1'])
    expect(readableName(sessionFolder(name))).toBe(name);
  expect(readableName(`demo~${sessionFolder('Prüfen')}+2`)).toBe('demo~Prüfen+2');
  fc.assert(
    fc.property(key, (one) => {
      const folder = sessionFolder(one);
      const read = readableName(folder);
      expect([one, folder]).toContain(read);
      expect(sessionFolder(read) === folder || read === folder).toBe(true);
      expect(read).not.toMatch(/[\p{C}\u2028\u2029/\\]/u);
    }),
    { numRuns: 2000 },
  );
});

test('simple names and Chinese names stay readable', () => {
  for (const name of ['demo', 'my-notes2', 'a.b_c', '用户1']) expect(sessionFolder(name)).toBe(name);
});

test('people may name a folder almost as they like; what hides, escapes, or belongs to a disk or NAS is refused', () => {
  for (const name of ['Demo', 'my notes', 'demo~step_1', 'Büro', '-x', 'a'.repeat(255), '长'.repeat(85)])
    expect(isSessionFolder(name), name).toBe(true);
  for (const name of [
    '',
    '.',
    '..',
    '.agentd',
    'a/b',
    'a\nb',
    'a\0b',
    'a'.repeat(256),
    '长'.repeat(86),
    '@eaDir',
    'lost+found',
  ])
    expect(isSessionFolder(name), name).toBe(false);
});

test('two code points for one Chinese character are two sessions', () => {
  expect(sessionFolder('\uF900').normalize('NFC')).not.toBe(sessionFolder('\u8C48').normalize('NFC'));
});
