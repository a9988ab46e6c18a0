import * as fs from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { MAX_INLINE_CHARS } from '../../src/protocol/session/log-entry.ts';
import { readPage } from '../../src/tools/files/read-file.ts';
import { openWorkPaths } from '../../src/tools/files/work-paths.ts';
import { writeWorkFile } from '../../src/tools/files/write-file.ts';
import { setup } from './tool-setup.ts';

const numbered = (count: number) => Array.from({ length: count }, (_, at) => `line ${at + 1}\n`).join('');

test('a short file is read as it is', async () => {
  const { use, work } = setup();
  fs.writeFileSync(join(work, 'a'), '\ufeffone\r\ntwo');
  expect(await use('read_file', { path: 'a' })).toEqual({ ok: true, text: '\ufeffone\r\ntwo' });
  fs.writeFileSync(join(work, 'empty'), '');
  expect(await use('read_file', { path: 'empty' })).toEqual({ ok: true, text: '(the file is empty)' });
});

test('a part of a file says which lines it has and where to continue', async () => {
  const { use, work } = setup();
  fs.writeFileSync(join(work, 'a'), numbered(10));
  expect((await use('read_file', { path: 'a', offset: 3, limit: 2 })).text).toBe(
    'lines 3-4 of 10; read on with offset 5\nline 3\nline 4\n',
  );
  expect((await use('read_file', { path: 'a', offset: 10 })).text).toBe('lines 10-10 of 10\nline 10\n');
  expect(await use('read_file', { path: 'a', offset: 11 })).toEqual({
    ok: false,
    text: '`a` has 10 lines; offset 11 is past its end.',
  });
});

test('a long file is read page by page, and every page is short enough to be shown whole', async () => {
  const { use, work } = setup();
  const whole = Array.from({ length: 5000 }, (_, at) => `${'漢'.repeat(at % 70)} ${at}\n`).join('');
  fs.writeFileSync(join(work, 'a'), whole);
  let read = '';
  for (let offset = 1; offset; ) {
    const { text } = await use('read_file', { path: 'a', offset });
    expect([...text].length).toBeLessThanOrEqual(MAX_INLINE_CHARS);
    const [header, ...rest] = text.split('\n');
    read += rest.join('\n');
    offset = Number(/offset (\d+)/.exec(header ?? '')?.[1] ?? 0);
  }
  expect(read).toBe(whole);
});

test('a page does not depend on the chunks in which a text arrives', async () => {
  const bytes = Buffer.from(`a\n漢字😀\n\nlong ${'x'.repeat(30)}\nend`);
  const ask = { first: 2, lines: 3, characters: 20 };
  const whole = await readPage([bytes], ask);
  expect(whole).toEqual({ text: '漢字😀\n\n', first: 2, last: 3, total: 5, cut: false });
  expect(
    await readPage(
      Array.from(bytes, (byte) => Buffer.from([byte])),
      ask,
    ),
  ).toEqual(whole);
  expect(await readPage([bytes], { ...ask, first: 4 })).toMatchObject({
    text: `long ${'x'.repeat(15)}`,
    last: 4,
    cut: true,
  });
});

test('a line that fills more than a page is cut and says so', async () => {
  const { use, work } = setup();
  fs.writeFileSync(join(work, 'a'), `${'😀'.repeat(50_000)}\nnext\n`);
  const { text } = await use('read_file', { path: 'a' });
  expect(text).toMatch(/^lines 1-1 of 2; line 1 is longer than shown; read on with offset 2\n(?:😀)+$/u);
});

test('an output in one long line can be read to its end', async () => {
  const output = `${'a'.repeat(20_000)}${'漢'.repeat(20_000)}\nlast`;
  const path = `blob:${'0'.repeat(64)}`;
  const { use } = setup({ blobs: { ['0'.repeat(64)]: output } });
  let read = '';
  let header = '';
  for (let offset: string | undefined = '1'; offset !== undefined; offset = /offset (\d+)$/.exec(header)?.[1]) {
    const { text } = await use('read_file', { path, offset: Number(offset) });
    header = text.slice(0, text.indexOf('\n'));
    read += text.slice(header.length + 1);
  }
  expect(header).toMatch(/^lines \d-4 of 4, where a line counts as several if it has more than \d+ characters$/);
  expect(read.replaceAll('\n', '')).toBe(output.replace('\n', ''));
});

test('a name in another Unicode form is reported so that it can be requested', async () => {
  const { use, work } = setup();
  fs.writeFileSync(join(work, 'cafe\u0301.txt'), 'from a Mac');
  expect(await use('read_file', { path: 'caf\u00e9.txt' })).toEqual({
    ok: false,
    text: '`café.txt` is not there, but a file whose name looks the same is, in another Unicode form: "cafe\\u0301.txt".',
  });
  expect((await use('read_file', '{"path": "cafe\\u0301.txt"}')).text).toBe('from a Mac');
});

test('a binary file is reported with its type', async () => {
  const { use, work } = setup();
  fs.writeFileSync(join(work, 'p.png'), Buffer.from('\x89PNG\r\n\x1a\nxxxx', 'latin1'));
  fs.writeFileSync(join(work, 'b'), Buffer.from([1, 0, 2]));
  expect(await use('read_file', { path: 'p.png' })).toEqual({
    ok: true,
    text: '`p.png` is a PNG image, 12 bytes; it is shown below, if you see images.',
    images: [{ path: 'p.png', type: 'image/png', bytes: 12, sha256: expect.stringMatching(/^[0-9a-f]{64}$/) }],
  });
  expect((await use('read_file', { path: 'b' })).text).toBe('`b` is binary: 3 bytes, of an unknown type.');
});

test('the rest of an output that was too long is read by its hash', async () => {
  const hash = 'a'.repeat(64);
  const { use } = setup({ blobs: { [hash]: numbered(3000) } });
  expect((await use('read_file', { path: `blob:${hash}`, offset: 2999 })).text).toBe(
    'lines 2999-3000 of 3000\nline 2999\nline 3000\n',
  );
  expect((await use('read_file', { path: `blob:${'b'.repeat(64)}` })).text).toContain('has no output');
  expect((await use('read_file', { path: 'blob:../x' })).text).toContain('64 hex digits');
});

test('files that cannot be read are reported with the reason', async () => {
  const { use, work } = setup();
  fs.mkdirSync(join(work, 'd'));
  fs.writeFileSync(join(work, 'f'), '');
  await use('shell', { command: 'mkfifo pipe' });
  const why = async (path: string) => (await use('read_file', { path })).text;
  expect(await why('gone')).toBe('`gone` is not there; list_files shows what is.');
  expect(await why('d')).toBe('`d` is a folder; list_files shows what is in it.');
  expect(await why('f/x')).toBe('`f/x` has a file in its path where a folder is needed.');
  expect(await why('pipe')).toBe('`pipe` is a device or a pipe, not a file.');
  expect(await why('x'.repeat(300))).toContain('is too long a name');
});

test('a file is written whole, with its folders, and a second time is the same as once', async () => {
  const { use, work } = setup();
  const args = { path: 'a/b/c.txt', content: 'größer\n' };
  expect(await use('write_file', args)).toMatchObject({ ok: true, text: 'created `a/b/c.txt`, 9 bytes' });
  expect(await use('write_file', args)).toMatchObject({ ok: true, text: 'replaced `a/b/c.txt`, 9 bytes' });
  expect(fs.readFileSync(join(work, 'a/b/c.txt'), 'utf8')).toBe('größer\n');
  expect(fs.readdirSync(join(work, 'a/b'))).toEqual(['c.txt']);
});

test('a file that is replaced or edited keeps its mode', async () => {
  const { use, work } = setup();
  fs.writeFileSync(join(work, 'run.sh'), 'echo 1\n');
  fs.chmodSync(join(work, 'run.sh'), 0o751);
  await use('write_file', { path: 'run.sh', content: 'echo 2\n' });
  await use('edit_file', { path: 'run.sh', old: '2', new: '3' });
  expect(fs.statSync(join(work, 'run.sh')).mode & 0o7777).toBe(0o751);
});

test('a reader during a replacement sees the old file or the new one', async () => {
  const { use, work } = setup();
  const contents = ['a'.repeat(300_000), 'b'.repeat(300_000)];
  await use('write_file', { path: 'f', content: contents[0] });
  let writing = true;
  const writes = (async () => {
    for (let round = 0; round < 30; round++) await use('write_file', { path: 'f', content: contents[round % 2] });
    writing = false;
  })();
  while (writing) {
    expect(contents).toContain(fs.readFileSync(join(work, 'f'), 'utf8'));
    await new Promise(setImmediate);
  }
  await writes;
});

test('a write that fails leaves nothing behind', async () => {
  const { use, work } = setup();
  fs.mkdirSync(join(work, 'd'));
  fs.writeFileSync(join(work, 'f'), 'x');
  expect((await use('write_file', { path: 'd', content: '' })).text).toContain('is a folder');
  expect((await use('write_file', { path: 'd/', content: '' })).text).toContain('names a folder');
  expect((await use('write_file', { path: 'f/x', content: '' })).text).toContain('has a file in its path');
  expect(fs.readdirSync(work)).toEqual(['d', 'f']);
});

test('an edit replaces the exact text, dollars and all', async () => {
  const { use, work } = setup();
  fs.writeFileSync(join(work, 'a'), 'one\ntwo\nthree\n');
  expect(await use('edit_file', { path: 'a', old: 'two', new: "$&$1$'" })).toMatchObject({
    ok: true,
    text: 'replaced line 2 of `a`',
  });
  expect(fs.readFileSync(join(work, 'a'), 'utf8')).toBe("one\n$&$1$'\nthree\n");
});

test('an edit that fits several places asks which, or does all', async () => {
  const { use, work } = setup();
  fs.writeFileSync(join(work, 'a'), 'x\ny x\n\nx\n');
  expect(await use('edit_file', { path: 'a', old: 'x', new: 'z' })).toEqual({
    ok: false,
    text: '`old` is in `a` at 3 places (lines 1, 2, 4). Give more of the text around the one you mean, or all: true.',
  });
  expect((await use('edit_file', { path: 'a', old: 'x', new: 'z', all: true })).text).toBe(
    'replaced 3 places (lines 1, 2, 4) of `a`',
  );
  expect(fs.readFileSync(join(work, 'a'), 'utf8')).toBe('z\ny z\n\nz\n');
});

test('an edit that fits nowhere shows what is nearest', async () => {
  const { use, work } = setup();
  fs.writeFileSync(join(work, 'a'), 'import x\n\nfunction total(items) {\n\treturn sum(items)\n}\n');
  const miss = await use('edit_file', { path: 'a', old: 'function totals(items) {\n  return sum(items)', new: '' });
  expect(miss).toEqual({
    ok: false,
    text: '`old` is not in `a`. Nearest is:\n3: function total(items) {\n4: \treturn sum(items)\nCopy the text exactly.',
  });
  fs.writeFileSync(join(work, 'dos'), 'a\r\nb\r\n');
  expect((await use('edit_file', { path: 'dos', old: 'a\nb', new: '' })).text).toContain('end in \\r\\n');
});

test('an edit that differs far down, or at the end of the file, says where it first differs', async () => {
  const { use, work } = setup();
  const lines = Array.from({ length: 40 }, (_, index) => `line ${index + 1}`);
  fs.writeFileSync(join(work, 'a'), lines.join('\n'));
  const old = lines.with(29, 'line thirty').join('\n');
  const shown = (from: number) => lines.slice(from - 1, from + 11).map((line, index) => `${from + index}: ${line}`);
  expect((await use('edit_file', { path: 'a', old, new: '' })).text).toBe(
    `\`old\` is not in \`a\`. Nearest is:\n${shown(27).join('\n')}\nIt first differs in line 30. Copy the text exactly.`,
  );
  expect((await use('edit_file', { path: 'a', old: 'line 39\nline 40\n', new: '' })).text).toBe(
    '`old` is not in `a`. Nearest is:\n39: line 39\n40: line 40\n' +
      'It is the same up to the end of the file, which has no line end after line 40. Copy the text exactly.',
  );
});

test('an edit does not put other line ends into a file with \\r\\n', async () => {
  const { use, work } = setup();
  fs.writeFileSync(join(work, 'dos'), 'a\r\nb\r\n');
  expect(await use('edit_file', { path: 'dos', old: 'b', new: 'b\nc' })).toEqual({
    ok: false,
    text: 'The lines of `dos` end in \\r\\n, those of `new` in \\n. Write the line ends so; nothing was replaced.',
  });
  expect((await use('edit_file', { path: 'dos', old: 'b', new: 'b\r\nc' })).ok).toBe(true);
  expect(fs.readFileSync(join(work, 'dos'), 'utf8')).toBe('a\r\nb\r\nc\r\n');
  // The line ends of `old` are typed out: this one means it.
  expect((await use('edit_file', { path: 'dos', old: '\r\n', new: '\n', all: true })).ok).toBe(true);
  expect((await use('edit_file', { path: 'dos', old: 'c', new: 'c\nd' })).ok).toBe(true);
});

test('binary, too large or unchanged files are not edited', async () => {
  const { use, work } = setup();
  fs.writeFileSync(join(work, 'latin'), Buffer.from([0x61, 0xe9]));
  fs.writeFileSync(join(work, 'big'), Buffer.alloc(9 * 1024 * 1024, 0x61));
  fs.writeFileSync(join(work, 'a'), 'a');
  const why = async (path: string) => (await use('edit_file', { path, old: 'a', new: 'a' })).text;
  expect(await why('latin')).toContain('is not UTF-8 text');
  expect(await why('big')).toContain('9437184 bytes, more than');
  expect(await why('a')).toContain('nothing to do');
  expect(await why('gone')).toBe('`gone` is not there; list_files shows what is.');
});

test('a listing is sorted, with sizes, two levels deep, and does not follow links', async () => {
  const { use, work } = setup();
  fs.mkdirSync(join(work, 'src/deep/er'), { recursive: true });
  for (const file of ['b.txt', 'a.txt', 'src/x', 'src/deep/y']) fs.writeFileSync(join(work, file), 'abc');
  fs.writeFileSync(join(work, 'new\nline'), '');
  fs.symlinkSync('src', join(work, 'to-src'));
  expect((await use('list_files', {})).text.split('\n')).toEqual([
    'a.txt  3 bytes',
    'b.txt  3 bytes',
    'new\\nline  0 bytes',
    'src/',
    'src/deep/',
    'src/x  3 bytes',
    'to-src -> src',
  ]);
  expect((await use('list_files', { path: 'src', depth: 1 })).text).toBe('src/deep/\nsrc/x  3 bytes');
  expect((await use('list_files', { path: 'a.txt' })).text).toBe('a.txt  3 bytes');
  expect((await use('list_files', { path: 'src/deep/er' })).text).toBe('(the folder is empty)');
  expect(await use('list_files', { path: 'gone' })).toMatchObject({ ok: false });
});

test('reading makes no folder, and writing makes each that is missing', async () => {
  const { use, work } = setup();
  expect((await use('read_file', { path: 'a/b/c.txt' })).text).toBe(
    '`a/b/c.txt` is not there; list_files shows what is.',
  );
  expect(await use('edit_file', { path: 'a/b/c.txt', old: 'x', new: 'y' })).toMatchObject({ ok: false });
  expect(fs.readdirSync(work)).toEqual([]);
  expect(await use('write_file', { path: 'a/b/c.txt', content: 'x' })).toMatchObject({ ok: true });
  expect((await use('read_file', { path: 'a/b/c.txt' })).text).toBe('x');
});

test('a long listing says how many are not shown', async () => {
  const { use, work } = setup();
  for (let at = 0; at < 520; at++) fs.writeFileSync(join(work, `f${at}`), '');
  const lines = (await use('list_files', {})).text.split('\n');
  expect(lines).toHaveLength(501);
  expect(lines.at(-1)).toContain('and 20 more');
});

test('content that cannot be read fails the write, also if that is known before it is read', async () => {
  const { work } = setup();
  fs.mkdirSync(work, { recursive: true });
  const paths = await openWorkPaths(work, []);
  const content = fs.createReadStream(join(work, 'missing'));
  await expect(writeWorkFile(await paths.resolveForWrite('copy'), content, paths)).rejects.toThrow();
  expect(fs.readdirSync(work)).toEqual([]);
});
