import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import type { PermissionRule, Permissions } from '../../src/protocol/settings/permissions.ts';
import { TOOL_NAMES } from '../../src/protocol/tool-calls/tool-names.ts';
import { openBrowsers } from '../../src/tools/handover/browsers.ts';
import { builtinTools, openJobStore, type Tool } from '../../src/tools/index.ts';
import { setup } from './tool-setup.ts';

const KEPT = 'secret/kept.txt';

type Row = [row: string, tool: string, args: object];

/** A call of each tool, and of each use of it that reaches something else, as in the table of docs/security.md. */
const ROWS: Row[] = [
  ['`shell`', 'shell', { command: 'true' }],
  ['`read_file`', 'read_file', { path: KEPT }],
  ['`search_files`', 'search_files', { pattern: 'x', path: KEPT }],
  ['`write_file`', 'write_file', { path: KEPT, content: 'x' }],
  ['`edit_file`', 'edit_file', { path: KEPT, old: 'a', new: 'b' }],
  ['`web_fetch`', 'web_fetch', { url: 'https://example.com/' }],
  ['`web_fetch` with `save_as`', 'web_fetch', { url: 'https://example.com/', save_as: KEPT }],
  ['`web_search`', 'web_search', { query: 'x' }],
  ['`browser`', 'browser', { action: 'navigate', url: 'https://example.com/' }],
  ['`check` with a file', 'check', { file: KEPT, matches: 'x' }],
  ['`check` with a command', 'check', { command: 'true' }],
  ['`check` with an address', 'check', { url: 'https://example.com/' }],
  ['`parts` with a file', 'parts', { file: KEPT, group: 1, from: 0 }],
  ['`remember`', 'remember', { text: 'x' }],
  ['`schedule` with `add`', 'schedule', { action: 'add' }],
  ['`jobs`', 'jobs', {}],
  ['`list_files`', 'list_files', { path: KEPT }],
  ['`parts` with a folder', 'parts', { folder: 'secret', from: 0 }],
  ['`recall`', 'recall', { query: 'x' }],
  ['`skill`', 'skill', { name: 'x' }],
];
/** Tools of the engine: what they begin is checked as a call of its own. */
const OF_THE_ENGINE = ['plan', 'ask_user', 'spawn'];

const ALL_TOOLS = allTools();

/** The tools of a session that has a search engine, jobs, notes and a browser. */
function allTools(): Tool[] {
  const folder = '/nowhere';
  const notes = {
    remember: async () => ({ line: '', known: false }),
    recall: async () => ({ found: [], sessions: 0, read: 0, whole: true }),
    skills: { folders: [folder], list: () => ({ skills: [] }) },
  };
  const schedules = { list: () => [], add: async () => '', remove: async () => {} };
  const search = { engine: 'searxng' as const, base_url: 'https://example.com/' };
  return [
    ...builtinTools({ readAlso: [], jobs: openJobStore(folder), notes, schedules, web: () => ({ search }) }),
    openBrowsers({ env: {}, log: () => {} }).toolFor(folder, () => ({})),
  ];
}

/** What a call reads, writes, runs and reaches, from its description, which is what rules are applied to. */
function effectsOf([, name, args]: Row): string[] {
  const described = ALL_TOOLS.find(({ spec }) => spec.name === name)?.describeCall(JSON.stringify(args));
  if (!described) throw new Error(`There is no tool ${name}.`);
  const all = [described, ...(described.also ?? [])];
  const touches = all.flatMap((one) => one.touches);
  if (described.kind === 'command') return ['', '', 'a command', 'what the sandbox lets it'];
  return [
    all.some(({ access }) => access === 'read') ? 'a file (`read_file`)' : '',
    all.some(({ access }) => access === 'write')
      ? 'a file (`write_file`)'
      : touches.includes('work')
        ? 'what the session keeps'
        : '',
    '',
    touches.includes('network') ? 'the network' : touches.includes('outside') ? 'the session, later' : '',
  ];
}

/** The calls that access the content of a file, and how. */
const CALLS = ROWS.flatMap((row) => {
  const [reads, writes] = effectsOf(row);
  const access = reads ? ('read' as const) : writes?.includes('write_file') ? ('write' as const) : undefined;
  return access ? [[...row, access] as const] : [];
});

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

test('every tool is in the table of what calls reach', () => {
  const listed = new Set([...ROWS.map(([, tool]) => tool), ...OF_THE_ENGINE]);
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

test('security.md says what a call of each tool reads, writes, runs and reaches', () => {
  const table = readFileSync('docs/security.md', 'utf8').split('<!-- effects -->')[1] ?? '';
  const shown = table
    .split('\n')
    .filter((line) => line.startsWith('| `'))
    .map((line) =>
      line
        .split('|')
        .slice(1, -1)
        .map((cell) => cell.trim()),
    );
  expect(shown).toEqual(ROWS.map((row) => [row[0], ...effectsOf(row)]));
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

test('a rule for a file of the work folder also holds for a call in a folder of it', async () => {
  const { box, work, root } = ruled([{ deny: 'read_file(secret/*)' }]);
  const context = { folder: join(root, 'call'), signal: new AbortController().signal, blob: async () => undefined };
  const inFolder = { ...context, work: join(work, 'secret'), top: work };
  const use = (name: string, args: object) => box.run({ name, args: JSON.stringify(args) }, inFolder);
  const found = await use('search_files', { pattern: 'x' });
  expect(found.text).not.toContain('a key');
  expect(found.text).toContain('not searched: kept.txt (a rule of the settings forbids it)');
  const edited = await use('edit_file', { path: 'kept.txt', old: 'a kex', new: 'b' });
  expect(edited.text).toContain('a rule of the settings forbids reading it');
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
