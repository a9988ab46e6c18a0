import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { diskLog } from '../support/disk-log.ts';

// The log replaces functions of `fs`, which the tools capture when they are loaded; hence the late import.
const log = diskLog();
const { setup } = await import('./tool-setup.ts');

const withoutIds = (lines: string[]) => lines.map((line) => line.replace(/[0-9a-f-]{36}/, '*'));

test.each([
  ['write_file', { path: 'a.md', content: 'two' }],
  ['edit_file', { path: 'a.md', old: 'one', new: 'two' }],
])('what %s reports as written is on disk, with its name', async (tool, args) => {
  const { use, work } = setup();
  await use('write_file', { path: 'a.md', content: 'one' });
  const lines = await log.during(work, async () => expect(await use(tool, args)).toMatchObject({ ok: true }));
  expect(withoutIds(lines)).toEqual(['sync .*.tmp', 'rename a.md', 'sync .']);
  expect(readFileSync(join(work, 'a.md'), 'utf8')).toBe('two');
});
