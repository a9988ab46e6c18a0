import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import type { PermissionRule, Permissions } from '../../src/protocol/settings/permissions.ts';
import { TOOL_NAMES } from '../../src/protocol/tool-calls/tool-names.ts';
import { setup } from './tool-setup.ts';

const KEPT = 'secret/kept.txt';

/** A call of each tool that accesses the content of a file, as in docs/security.md, and its kind of access. */
const CALLS: Array<[row: string, tool: string, args: object, access: 'read' | 'write']> = [
  ['`read_file`', 'read_file', { path: KEPT }, 'read'],
  ['`search_files`', 'search_files', { pattern: 'x', path: KEPT }, 'read'],
  ['`write_file`', 'write_file', { path: KEPT, content: 'x' }, 'write'],
  ['`edit_file`', 'edit_file', { path: KEPT, old: 'a', new: 'b' }, 'write'],
  ['`web_fetch` with `save_as`', 'web_fetch', { url: 'https://example.com/', save_as: KEPT }, 'write'],
  ['`check` with a file', 'check', { file: KEPT, matches: 'x' }, 'read'],
  ['`parts` with a file', 'parts', { file: KEPT, group: 1, from: 0 }, 'read'],
];
/** Tools without file paths, or that only list names. `browser` writes to two folders of its own. */
const WITHOUT_CONTENT = [
  ...['shell', 'jobs', 'list_files', 'web_search', 'browser', 'remember', 'recall', 'skill'],
  ...['plan', 'ask_user', 'spawn'],
];

const withRules = (session: PermissionRule[]): Permissions => ({ mode: 'auto', session, workspace: [] });

function ruled(rules: PermissionRule[]) {
  const at = setup({ permissions: withRules(rules) });
  mkdirSync(join(at.work, 'secret'));
  writeFileSync(join(at.work, KEPT), 'a key: x\n');
  writeFileSync(join(at.work, 'open.txt'), 'a word: x\n');
  const { signal } = new AbortController();
  const permit = async (name: string, args: object) =>
    (await at.box.checkPermission({ name, args: JSON.stringify(args) }, { work: async () => at.work, signal })).is;
  return { ...at, permit };
}

test('every tool is in the table of file access, or is known not to access the content of files', () => {
  const listed = new Set([...CALLS.map(([, tool]) => tool), ...WITHOUT_CONTENT]);
  expect([...listed].sort()).toEqual([...TOOL_NAMES].sort());
});

test.each(CALLS)('a rule for a file restricts %s by what it does, not by its name', async (_, tool, args, access) => {
  const toolName = { read: 'read_file', write: 'write_file' }[access];
  const other = { read: 'write_file', write: 'read_file' }[access];
  for (const word of ['deny', 'ask'] as const) {
    const { permit } = ruled([{ [word]: `${toolName}(secret/*)` } as PermissionRule, { allow: '*' }]);
    expect(await permit(tool, args)).toBe(word);
  }
  const { permit } = ruled([{ deny: `${other}(secret/*)` }, { allow: '*' }]);
  expect(await permit(tool, args)).toBe('allow');
});

test('security.md says which rules apply to which tool', () => {
  const table = readFileSync('docs/security.md', 'utf8').split('<!-- file tools -->')[1] ?? '';
  const rows = [...table.split('<!-- /file tools -->')[0]!.matchAll(/^\| (`.*?) *\| `(\w+)` *\|$/gm)];
  expect(rows.map(([, row, rule]) => [row, rule])).toEqual(
    CALLS.map(([row, , , access]) => [row, access === 'read' ? 'read_file' : 'write_file']),
  );
});

test('a search leaves out a file that a rule forbids to read, and says so', async () => {
  for (const word of ['deny', 'ask'] as const) {
    const { use } = ruled([{ [word]: 'read_file(secret/*)' } as PermissionRule]);
    const { ok, text } = await use('search_files', { pattern: 'x' });
    expect(ok).toBe(true);
    expect(text).toContain('open.txt:1: a word: x');
    expect(text).not.toContain('a key');
    expect(text).toContain('not searched: secret/kept.txt (a rule of the settings forbids it)');
  }
});

test('an edit of a file that a rule forbids to read is made, but shows nothing of it if its text is not found', async () => {
  const edit = { path: KEPT, old: 'a kex', new: 'b' };
  for (const word of ['deny', 'ask'] as const) {
    const { use } = ruled([{ [word]: 'read_file(secret/*)' } as PermissionRule]);
    const { ok, text } = await use('edit_file', edit);
    expect(ok).toBe(false);
    expect(text).toContain('a rule of the settings forbids reading it');
    expect(text).not.toContain('a key');
    expect((await use('edit_file', { ...edit, old: 'a key' })).ok).toBe(true);
  }
  const safe = ruled([{ ask: 'write_file' }]);
  expect((await safe.use('edit_file', edit)).text).toContain('1: a key: x');
});

test('a rule that allows a tool for a file allows no other tool', async () => {
  const at = setup({ permissions: { ...withRules([{ allow: 'write_file(secret/*)' }]), mode: 'safe' } });
  const caller = { work: async () => at.work, signal: new AbortController().signal };
  const edit = { name: 'edit_file', args: JSON.stringify({ path: KEPT, old: 'a', new: 'b' }) };
  expect((await at.box.checkPermission(edit, caller)).is).toBe('ask');
});
