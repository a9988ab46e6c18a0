import { mkdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import {
  MAX_ITEMS_PER_PART,
  MAX_PARTS,
  PARTS_TOOL,
  type PartsArgs,
  PartsPage,
} from '../../src/protocol/tool-calls/own-tools.ts';
import { everything } from '../support/all.ts';
import { setup } from './tool-setup.ts';

type At = ReturnType<typeof setup>;

const page = async (at: At, args: PartsArgs): Promise<PartsPage> =>
  PartsPage.parse(JSON.parse((await at.use(PARTS_TOOL, args)).text));

/** All pages, requested as the daemon does; `between` runs before each page except the first. */
async function all(at: At, args: Omit<PartsArgs, 'from'>, between: () => void = () => {}) {
  const pages: PartsPage[] = [];
  for (let more = true; more; more = pages.at(-1)?.more ?? false) {
    if (pages.length > 0) between();
    const before = pages.flatMap((one) => one.parts).flat();
    const after = args.folder === undefined ? undefined : before.at(-1);
    const group = pages[0]?.group;
    const went = { from: before.length, ...(after !== undefined && { after }), ...(group !== undefined && { group }) };
    pages.push(await page(at, { ...args, ...went }));
  }
  return { pages, parts: pages.flatMap((one) => one.parts) };
}

function files(at: At, count: number): string[] {
  mkdirSync(join(at.work, 'in'));
  const names = Array.from({ length: count }, (_, n) => `in/file-${String(n).padStart(6, '0')}.md`);
  for (const name of names) writeFileSync(join(at.work, name), '');
  return names;
}

test('each file in a folder and below is a part, in the order of their names; hidden files and links are counted', async () => {
  const at = setup();
  mkdirSync(join(at.work, 'in/sub/.git'), { recursive: true });
  for (const name of ['b.md', 'a.md', 'A.md', 'sub/c.md', 'new\nline.md', '.hidden', 'sub/.git/config', '中文.md'])
    writeFileSync(join(at.work, 'in', name), 'x');
  symlinkSync('a.md', join(at.work, 'in/link.md'));
  symlinkSync(at.outside, join(at.work, 'in/out'));
  const { parts, left_out, total, more } = await page(at, { folder: 'work/in', from: 0 });
  expect(parts).toEqual([['in/A.md'], ['in/a.md'], ['in/b.md'], ['in/new\nline.md'], ['in/sub/c.md'], ['in/中文.md']]);
  expect({ left_out, total, more }).toEqual({ left_out: 4, total: 6, more: false });
});

test('a match is about the name, or with a slash about the path within the folder', async () => {
  const at = setup();
  mkdirSync(join(at.work, 'in/2024'), { recursive: true });
  for (const name of ['a.md', 'a.csv', '2024/b.md']) writeFileSync(join(at.work, 'in', name), 'x');
  const list = async (match: string) => (await page(at, { folder: 'in', match, from: 0 })).parts.flat();
  expect(await list('*.md')).toEqual(['in/2024/b.md', 'in/a.md']);
  expect(await list('2024/*')).toEqual(['in/2024/b.md']);
});

test('each line of a file that is not empty is a part', async () => {
  const at = setup();
  writeFileSync(join(at.work, 'list.txt'), 'one\r\n\n  two  \nthree');
  expect((await page(at, { file: 'work/list.txt', from: 0 })).parts).toEqual([['one'], ['two'], ['three']]);
});

test('a thousand files come in pages that a line of the event log holds, each once', async () => {
  const at = setup();
  const names = files(at, 1000);
  const { pages, parts } = await all(at, { folder: 'in' });
  expect(pages.length).toBeGreaterThan(1);
  expect(parts).toEqual(names.map((name) => [name]));
});

test('thousands of files are a thousand parts, and none is lost', async () => {
  const at = setup();
  const names = files(at, everything ? 10_000 : 3000);
  const { parts } = await all(at, { folder: 'in' });
  expect(parts).toHaveLength(MAX_PARTS);
  expect(parts.flat()).toEqual(names);
});

test('files that come and go between two pages neither double nor hide the others', async () => {
  const at = setup();
  const names = files(at, 900);
  let n = 0;
  const { parts } = await all(at, { folder: 'in' }, () => {
    writeFileSync(join(at.work, `in/0-new-${n++}.md`), '');
    rmSync(join(at.work, names[n] ?? ''));
  });
  expect(parts.flat()).toEqual(names);
});

test('too many items are refused with their number and what to do', async () => {
  const at = setup();
  const lines = MAX_PARTS * MAX_ITEMS_PER_PART + 1;
  writeFileSync(join(at.work, 'list.txt'), 'x\n'.repeat(lines));
  const { ok, text } = await at.use(PARTS_TOOL, { file: 'list.txt', from: 0 });
  expect(ok).toBe(false);
  expect(text).toContain(`${lines} lines; 20000 are the most`);
});

test('a folder that is not there, is a file or lies outside is reported in words; an empty one is an empty list', async () => {
  const at = setup();
  mkdirSync(join(at.work, 'empty'));
  writeFileSync(join(at.work, 'file'), '');
  expect((await at.use(PARTS_TOOL, { folder: 'nowhere', from: 0 })).text).toContain('`nowhere` is not there');
  expect((await at.use(PARTS_TOOL, { folder: 'file', from: 0 })).text).toContain('is not a folder');
  expect((await at.use(PARTS_TOOL, { folder: '../outside', from: 0 })).text).toContain('leads out');
  expect((await page(at, { folder: 'empty', from: 0 })).parts).toEqual([]);
});

test('the model is not offered to look up parts', () => {
  expect(setup().box.specs.map((spec) => spec.name)).not.toContain(PARTS_TOOL);
});

test('a child with its own folder reads what is beside it, and writes nothing there', async () => {
  const family = setup();
  mkdirSync(join(family.work, 'map.1'));
  mkdirSync(join(family.work, 'in'));
  writeFileSync(join(family.work, 'in/a.md'), 'the text');
  const { builtinTools, createToolbox } = await import('../../src/tools/index.ts');
  const box = createToolbox(builtinTools({ readAlso: [family.work] }));
  const context = {
    work: join(family.work, 'map.1'),
    folder: family.folder(),
    signal: new AbortController().signal,
    blob: async () => undefined,
  };
  const use = (name: string, args: object) => box.run({ name, args: JSON.stringify(args) }, context);
  expect(await use('read_file', { path: '../in/a.md' })).toEqual({ ok: true, text: 'the text' });
  expect((await use('write_file', { path: '../in/a.md', content: 'x' })).ok).toBe(false);
  expect((await use('read_file', { path: '../../outside/secret' })).ok).toBe(false);
});
