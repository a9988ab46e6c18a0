import { readdirSync, readFileSync } from 'node:fs';
import { gzipSync } from 'node:zlib';
import { expect, test } from 'vitest';

const MOST_BYTES = 60 * 1024;
const MOST_LINES = 6400;

test('the page has at most 6,400 lines, with its styles and both languages', () => {
  const names = readdirSync('src/frontends/web', { recursive: true, withFileTypes: true }).filter((one) =>
    one.isFile(),
  );
  const lines = names.map(
    ({ parentPath, name }) => readFileSync(`${parentPath}/${name}`, 'utf8').split('\n').length - 1,
  );
  expect(lines.reduce((sum, one) => sum + one, 0)).toBeLessThanOrEqual(MOST_LINES);
});

test('the page has at most 60 KB of compressed script, requests nothing from other servers, and no program contains it', () => {
  const script = readFileSync('dist/web/app.js', 'utf8');
  expect(gzipSync(script, { level: 9 }).length).toBeLessThanOrEqual(MOST_BYTES);
  expect(readdirSync('dist/web').sort().join(' ')).toBe(
    'app.css app.js app.webmanifest browser-remote.js chinese.js icon.svg index.html notification-worker.js',
  );
  const page = ['index.html', 'app.css'].map((name) => readFileSync(`dist/web/${name}`, 'utf8')).join('\n');
  expect(page).not.toMatch(/https?:|style=|<script>|@import|url\(/);
  const programs = readdirSync('dist', { recursive: true, encoding: 'utf8' }).filter((name) =>
    /^agent(?:d|ctl).*\.js$/.test(name),
  );
  expect(programs.length).toBeGreaterThan(5);
  expect(
    programs.filter((name) => /from ?["'](?:preact|marked|@preact\/)/.test(readFileSync(`dist/${name}`, 'utf8'))),
  ).toEqual([]);
});
