import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { globToRegExp } from '../../src/tools/files/pattern-thread.ts';
import { searchFilesTool } from '../../src/tools/files/search-files.ts';
import { setup } from './tool-setup.ts';

test('hits are named by path and line', async () => {
  const { use, work } = setup();
  mkdirSync(join(work, 'src'));
  writeFileSync(join(work, 'src/a.ts'), 'one\r\ntwo 漢字\r\n');
  writeFileSync(join(work, 'b.md'), 'two');
  expect(await use('search_files', { pattern: '^two' })).toEqual({
    ok: true,
    text: 'b.md:1: two\nsrc/a.ts:2: two 漢字',
  });
  expect((await use('search_files', { pattern: '^two', path: 'src' })).text).toBe('src/a.ts:2: two 漢字');
  expect((await use('search_files', { pattern: '^two', path: 'b.md' })).text).toBe('b.md:1: two');
  expect((await use('search_files', { pattern: '\\p{Script=Han}', glob: '*.ts' })).text).toBe('src/a.ts:2: two 漢字');
  expect((await use('search_files', { pattern: 'two', glob: '*.md' })).text).toBe('b.md:1: two');
  expect((await use('search_files', { pattern: 'three' })).text).toBe('no hits in 2 files');
  expect((await use('search_files', { pattern: 'x', path: 'gone' })).ok).toBe(false);
});

test('a byte order mark is not part of the first line', async () => {
  const { use, work } = setup();
  writeFileSync(join(work, 'a.cs'), '\ufeffusing System;\n');
  expect((await use('search_files', { pattern: '^using' })).text).toBe('a.cs:1: using System;');
});

test('a glob that matches no file is named, with what it is compared with', async () => {
  const { use, work } = setup();
  mkdirSync(join(work, 'src'));
  writeFileSync(join(work, 'src/a.ts'), 'one');
  const search = (glob: string) => use('search_files', { pattern: 'one', path: 'src', glob });
  expect((await search('lib/*.ts')).text).toMatch(
    /^no file there fits the glob `lib\/\*\.ts`\. .* the path from the work folder/,
  );
  expect((await search('src/*.ts')).text).toBe('src/a.ts:1: one');
});

test('an invalid pattern is refused with the reason, and a needless backslash is accepted', async () => {
  const { use, work } = setup();
  writeFileSync(join(work, 'a'), 'a-b');
  expect((await use('search_files', { pattern: '(a' })).text).toMatch(
    /not a JavaScript regular expression: .*Unterminated group/,
  );
  expect((await use('search_files', { pattern: 'a\\-b' })).text).toBe('a:1: a-b');
});

test('at most 200 hits are given, long lines are cut', async () => {
  const { use, work } = setup();
  writeFileSync(join(work, 'a'), `${'hit '.repeat(500)}\n${'hit\n'.repeat(300)}`);
  const lines = (await use('search_files', { pattern: 'hit' })).text.split('\n');
  expect(lines).toHaveLength(201);
  expect(lines[0]).toHaveLength('a:1: '.length + 200);
  expect(lines.at(-1)).toContain('stopped at 200 hits');
});

test('the part of a long line with the match is shown', async () => {
  const { use, work } = setup();
  writeFileSync(join(work, 'a.js'), `${'😀'.repeat(600)};const needle = 1;${' more'.repeat(300)}`);
  const { text } = await use('search_files', { pattern: 'needle' });
  expect(text).toMatch(/^a\.js:1: …😀.*const needle = 1; more.*…$/u);
  expect([...text].length).toBe('a.js:1: '.length + 200);
  expect(Buffer.from(text).toString()).toBe(text);
});

test('binary and large files are skipped and named; .git and node_modules are searched only by name', async () => {
  const { use, work } = setup();
  mkdirSync(join(work, 'node_modules/p'), { recursive: true });
  writeFileSync(join(work, 'node_modules/p/a'), 'hit');
  writeFileSync(join(work, 'big'), Buffer.alloc(3 * 1024 * 1024, 0x61));
  writeFileSync(join(work, 'bin'), Buffer.from('hit\0'));
  expect((await use('search_files', { pattern: 'hit' })).text).toBe(
    'no hits in 0 files\n[not searched: big (over 2 MiB), bin (binary)]',
  );
  expect((await use('search_files', { pattern: 'hit', path: 'node_modules' })).text).toBe('node_modules/p/a:1: hit');
});

test('an endlessly backtracking pattern is stopped without blocking the daemon, and earlier hits are kept', async () => {
  const { use, work } = setup({ tools: [searchFilesTool([], 1000)] });
  writeFileSync(join(work, 'a'), 'aaa');
  writeFileSync(join(work, 'b'), `${'a'.repeat(60)}!`);
  let turns = 0;
  const timer = setInterval(() => turns++, 20);
  const { ok, text } = await use('search_files', { pattern: '^(a+)+$' });
  clearInterval(timer);
  expect(ok).toBe(false);
  expect(text).toMatch(/^a:1: aaa\n\[stopped after 1 s, in b: not everything was searched/);
  expect(turns).toBeGreaterThan(0);
});

test('an endlessly backtracking glob is stopped too, and an abort stops any search', async () => {
  const { use, work } = setup({ tools: [searchFilesTool([], 1000)] });
  writeFileSync(join(work, 'a'.repeat(200)), `${'a'.repeat(60)}!`);
  expect((await use('search_files', { pattern: 'a', glob: `${'*a'.repeat(40)}b` })).text).toContain('stopped after');
  const stop = new AbortController();
  const call = use('search_files', { pattern: 'x' }, stop.signal);
  stop.abort('stop');
  await expect(call).rejects.toBe('stop');
});

test('a glob matches names, or paths if it has a slash', () => {
  const fits = (glob: string, path: string) => globToRegExp(glob).test(path);
  expect(fits('*.ts', 'src/a.ts')).toBe(true);
  expect(fits('*.ts', 'src/a.tsx')).toBe(false);
  expect(fits('src/*.ts', 'src/a.ts')).toBe(true);
  expect(fits('src/*.ts', 'src/b/a.ts')).toBe(false);
  expect(fits('src/**/*.ts', 'src/a.ts')).toBe(true);
  expect(fits('src/**', 'src/b/a.ts')).toBe(true);
  expect(fits('**/a.ts', 'a.ts')).toBe(true);
  expect(fits('*.{js,t?}', 'x/a.ts')).toBe(true);
  expect(fits('{a', '{a')).toBe(true);
  expect(fits('a+(b).[c]', 'a+(b).[c]')).toBe(true);
});
