import * as fs from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { longCommentLines, longFunctions, readSources } from './sources.ts';

/** What the sources came to when these were counted. A number here may be lowered, and is never raised. */
const CEILINGS = {
  filesPer1000Lines: 6.2,
  filesOver300Lines: 0,
  filesUnder20Lines: 4,
  functionsOver80Lines: 0,
  commentLinesOver120Columns: 0,
};

/**
 * Lines of code, and bytes of documentation, altogether. A new room raises its total by the budget that its decision
 * record states; nothing else does.
 */
const TOTALS = { src: 89_380, tests: 63_100, scripts: 7_830, docs: 396_000 };

const sources = readSources();
const report = (name: string, found: readonly string[]) => `${name}: ${found.length}\n${found.join('\n')}`;

test('there are not more files for their lines than there were', () => {
  const lines = sources.reduce((sum, source) => sum + source.lines.length, 0);
  expect(lines).toBeGreaterThan(20_000);
  expect((1000 * sources.length) / lines).toBeLessThanOrEqual(CEILINGS.filesPer1000Lines);
});

test('not more files have over 300 lines', () => {
  const found = sources.filter(({ lines }) => lines.length > 300).map(({ path }) => path);
  expect(found.length, report('over 300 lines', found)).toBeLessThanOrEqual(CEILINGS.filesOver300Lines);
});

test('not more files have under 20 lines', () => {
  const found = sources.filter(({ lines }) => lines.length < 20).map(({ path }) => path);
  expect(found.length, report('under 20 lines', found)).toBeLessThanOrEqual(CEILINGS.filesUnder20Lines);
});

test('no function has over 80 lines', () => {
  const found = sources.flatMap((source) => longFunctions(source, 80));
  expect(found.length, report('over 80 lines', found)).toBeLessThanOrEqual(CEILINGS.functionsOver80Lines);
});

test('not more lines of comments have over 120 columns', () => {
  const found = sources.flatMap((source) => {
    const count = longCommentLines(source, 120);
    return count > 0 ? [{ path: source.path, count }] : [];
  });
  const total = found.reduce((sum, { count }) => sum + count, 0);
  const where = found.map(({ path, count }) => `${path} ${count}`);
  expect(total, `${total} lines\n${where.join('\n')}`).toBeLessThanOrEqual(CEILINGS.commentLinesOver120Columns);
});

const CODE = /\.(?:tsx?|mjs|css|sh)$/;

/** Lines of the code below a folder, or bytes of its Markdown. */
function totalOf(folder: string, unit: 'lines' | 'bytes'): number {
  const names = fs.readdirSync(folder, { recursive: true, encoding: 'utf8' });
  const wanted = names.filter((name) => (unit === 'lines' ? CODE : /\.md$/).test(name));
  const texts = wanted.map((name) => fs.readFileSync(join(folder, name)));
  return texts.reduce(
    (sum, text) => sum + (unit === 'bytes' ? text.length : text.toString().split('\n').length - 1),
    0,
  );
}

test.each(['src', 'tests', 'scripts', 'docs'] as const)('the total of %s is not over its ceiling', (folder) => {
  expect(totalOf(folder, folder === 'docs' ? 'bytes' : 'lines')).toBeLessThanOrEqual(TOTALS[folder]);
});
