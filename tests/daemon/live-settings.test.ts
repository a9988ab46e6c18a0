import { mkdirSync, mkdtempSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test, vi } from 'vitest';
import { openLiveSettings } from '../../src/main/live-settings.ts';
import { oncePerTurn } from '../../src/store/fs/file-reads.ts';
import { openWorkspace } from '../../src/store/index.ts';

/** The settings of a workspace whose clocks and timers a test moves; `config` is its agentd.json at the start. */
function setup(config?: string) {
  vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] });
  const root = mkdtempSync(join(tmpdir(), 'agentd-live-settings-'));
  const at = { ms: 0 };
  const clock = { now: () => new Date(), elapsed: () => at.ms };
  const workspace = openWorkspace(root, clock);
  if (config !== undefined) writeFileSync(join(root, 'agentd.json'), config);
  const woken: string[] = [];
  const logged: string[] = [];
  const learned: unknown[] = [];
  const settings = openLiveSettings({
    ...{ workspace, flags: {}, clock, configFile: 'agentd.json', learn: (one) => learned.push(one) },
    env: { DEPLOY_TOKEN: 'abcdefgh', HOME: '/home/ann' },
    log: (_, text) => logged.push(text),
    wake: (name) => woken.push(name),
    runGuarded: (_name, _what, run) => run(),
  });
  onTestFinished(() => {
    settings.close();
    vi.useRealTimers();
    rmSync(root, { recursive: true, force: true });
  });
  const save = (name: string, text: string) => {
    mkdirSync(join(root, '.sessions', name), { recursive: true });
    writeFileSync(join(root, '.sessions', name, 'session.json'), text);
  };
  const pass = (ms: number) => {
    at.ms += ms;
    vi.advanceTimersByTime(ms);
  };
  return {
    settings,
    save,
    pass,
    woken,
    logged,
    learned,
    root,
    config: (text: string) => writeFileSync(join(root, 'agentd.json'), text),
  };
}

test('a session that waits, and that nobody asks for, is woken when its file holds', () => {
  const { settings, save, pass, woken } = setup();
  save('demo', '{');
  expect(settings.forSession('demo')().waits).toContain('demo/session.json is not JSON: line 1, column 2');
  pass(120_000);
  expect(woken).toEqual([]);
  save('demo', '{}');
  pass(1000);
  expect(woken).toEqual(['demo']);
  pass(10_000);
  expect(woken).toEqual(['demo']);
});

test('within a turn of the event loop the files are looked at once, and an invalid one each time', async () => {
  const { settings, save } = setup();
  save('demo', '{ "mode": "dag" }');
  const now = oncePerTurn(settings.forSession('demo'), ({ waits }) => waits === null);
  const modes = () => [now(), now()].map(({ waits, rules }) => waits ?? rules.mode);
  expect(modes()).toEqual(['dag', 'dag']);
  save('demo', '{ "mode": "todo" }');
  expect(modes()).toEqual(['dag', 'dag']);
  await new Promise(setImmediate);
  expect(modes()).toEqual(['todo', 'todo']);
  const other = oncePerTurn(settings.forSession('other'), ({ waits }) => waits === null);
  save('other', '{');
  expect(other().waits).not.toBeNull();
  save('other', '{}');
  expect(other().waits).toBeNull();
});

test('reading wakes no session; the first read that finds the settings valid again wakes the session', () => {
  const { settings, save, pass, woken } = setup();
  save('demo', '{');
  const now = settings.forSession('demo');
  expect(now().waits).not.toBeNull();
  save('demo', '{}');
  expect(settings.forSession('demo')().waits).toBeNull();
  expect(now().waits).toBeNull();
  expect(woken).toEqual([]);
  pass(1000);
  expect(woken).toEqual(['demo']);
  pass(10_000);
  expect(woken).toEqual(['demo']);
});

test('a session is woken when its file breaks, although a child session saw it first', () => {
  const { settings, save, pass, woken, root: workspace } = setup();
  save('demo', '{}');
  mkdirSync(join(workspace, '.sessions', 'demo~step_1'), { recursive: true });
  const [root, child] = [settings.forSession('demo'), settings.forSession('demo~step_1')];
  expect(root().waits).toBeNull();
  save('demo', '{');
  expect(child().waits).toBeNull();
  pass(1000);
  expect(woken).toEqual(['demo']);
  pass(10_000);
  expect(woken).toEqual(['demo']);
});

test('where agentd.json is broken and never held, every session waits, and goes on when it holds', () => {
  const { settings, save, pass, woken, config } = setup();
  save('demo', '{}');
  save('other', '{}');
  const both = [settings.forSession('demo'), settings.forSession('other')];
  for (const now of both) expect(now().waits).toBeNull();
  config('{ "approvals": ');
  for (const now of both) expect(now()).toMatchObject({ waits: expect.stringContaining('agentd.json is not JSON') });
  expect(settings.status()).toMatchObject({ from: 'nothing', fault: expect.stringContaining('agentd.json') });
  config('{ "approvals": "safe" }');
  pass(1000);
  expect(woken.sort()).toEqual(['demo', 'other']);
  for (const now of both) expect(now()).toMatchObject({ waits: null, permissions: { mode: 'safe' } });
});

test('with an agentd.json that is invalid at the start, every session waits, and goes on once it is fixed', () => {
  const { settings, save, pass, woken, config, logged, learned } = setup('{ "approvals": ');
  save('demo', '{}');
  const now = settings.forSession('demo');
  expect(now().waits).toContain('agentd.json is not JSON');
  expect(logged).toEqual([expect.stringMatching(/agentd\.json is not JSON.*sessions that use it wait.*Fix the file/s)]);
  // Which secrets it names is not known.
  expect(learned).toContainEqual({ secrets: ['DEPLOY_TOKEN'] });
  pass(10_000);
  expect(woken).toEqual([]);
  config('{ "approvals": "safe" }');
  pass(1000);
  expect(woken).toEqual(['demo']);
  expect(now()).toMatchObject({ waits: null, permissions: { mode: 'safe' } });
});

test('a session whose file breaks after nobody used it for minutes keeps its last valid settings, until it is removed', () => {
  const { settings, save, pass, root } = setup();
  save('demo', '{ "approvals": "safe" }');
  settings.forSession('demo')();
  pass(300_000);
  save('demo', '{');
  expect(settings.forSession('demo')()).toMatchObject({ waits: null, permissions: { mode: 'safe' } });
  pass(300_000);
  rmSync(join(root, '.sessions', 'demo'), { recursive: true });
  pass(300_000);
  expect(settings.status().sessions).toEqual([]);
});

test('a session that waits may do nothing by what is asked in between, and nothing of it expires', () => {
  const { settings, save, config } = setup();
  config('{ "retention": { "log_days": 1, "files_days": 1 } }');
  save('demo', '{ "sandbox": "moat" }');
  expect(settings.forSession('demo~step_1')()).toMatchObject({
    waits: expect.stringContaining('demo/session.json, line 1'),
    permissions: { workspace: [{ deny: '*' }] },
    sandbox: { mode: 'bwrap', network: false },
    mcpServers: {},
    retention: { recordDays: 0, filesDays: 0 },
    rules: { settingsFault: expect.stringContaining('sandbox') },
  });
});

test('a session created again under an old name has none of the earlier settings', () => {
  const { settings, save, root } = setup();
  save('demo', '{ "approvals": "safe" }');
  expect(settings.forSession('demo')().permissions.mode).toBe('safe');
  rmSync(join(root, '.sessions', 'demo'), { recursive: true });
  mkdirSync(join(root, '.sessions', 'demo'));
  expect(settings.forSession('demo')()).toMatchObject({ waits: null, permissions: { mode: 'ask' } });
});

test('names of servers that are not there stand in log and status, once for a session and its children', () => {
  const { settings, save, logged } = setup();
  save('demo', '{ "permissions": [{ "deny": "mcp__mail__*" }] }');
  save('demo~step_1', '{}');
  for (const name of ['demo', 'demo~step_1']) settings.forSession(name)();
  const reported = settings.status().sessions.flatMap(({ warnings }) => warnings);
  for (const lines of [reported, logged.filter((line) => line.includes('mcp__'))])
    expect(lines).toEqual([
      expect.stringContaining('"mcp__mail__*" names a tool of an MCP server that is not configured'),
    ]);
});

test.each([
  ['would loosen them', '{ "approvals": "auto", "permissions": [{ "allow": "shell" }], "title": "Mine" }'],
  ['would tighten them', '{ "sandbox": "bwrap", "permissions": [{ "deny": "shell" }], "limits": { "iterations": 1 } }'],
  ['is broken', '{ "permissions": '],
])('a child goes by the settings of its root, and its session.json is ignored where it %s', (_, own) => {
  const { settings, save, pass, logged } = setup();
  save('demo', '{ "approvals": "safe", "permissions": [{ "ask": "shell" }], "model": { "name": "root" } }');
  save('demo~step_1', own);
  save('demo~step_1~step_2', own);
  const root = settings.forSession('demo')();
  for (const name of ['demo~step_1', 'demo~step_1~step_2', 'demo~step_1']) {
    const now = settings.forSession(name);
    expect(now()).toEqual(root);
    pass(2000);
    expect(now()).toMatchObject({ waits: null, permissions: { mode: 'safe' } });
  }
  expect(logged.filter((line) => line.includes('~'))).toEqual([
    'demo~step_1/session.json is ignored: child sessions use the settings of demo',
    'demo~step_1~step_2/session.json is ignored: child sessions use the settings of demo',
  ]);
  expect(settings.status().sessions).toEqual([]);
});

test('a child whose root is gone goes by its own session.json, as it has a work/ and a memory of its own then', () => {
  const { settings, save, logged } = setup();
  save('gone~step_1', '{ "approvals": "safe" }');
  expect(settings.forSession('gone~step_1')().permissions.mode).toBe('safe');
  expect(logged).toEqual([]);
});

test('while the last valid settings are in force, the rules of a session and its children say what is wrong with the file', () => {
  const { settings, save, config } = setup();
  save('demo', '{ "approvals": "safe" }');
  config('{ "language": "en" }');
  const now = settings.forSession('demo');
  expect(now().rules.settingsWarning).toBeNull();
  save('demo', '{ "approvals": ');
  config('{ "language": ');
  expect(now()).toMatchObject({ waits: null, permissions: { mode: 'safe' } });
  expect(now().rules.settingsWarning).toMatch(/agentd\.json is not JSON.*\n.*demo\/session\.json is not JSON/s);
  save('demo', '{}');
  config('{}');
  expect(now().rules.settingsWarning).toBeNull();
});

test('folders that cannot be looked at are logged once, and looked at again', () => {
  const { settings, save, pass, woken, logged, root } = setup();
  save('demo', '{');
  settings.forSession('demo')();
  renameSync(join(root, '.sessions'), join(root, 'away'));
  writeFileSync(join(root, '.sessions'), 'a file in its place');
  pass(1000);
  pass(1000);
  expect(logged.filter((text) => text.includes('ENOTDIR'))).toHaveLength(1);
  rmSync(join(root, '.sessions'));
  renameSync(join(root, 'away'), join(root, '.sessions'));
  save('demo', '{}');
  pass(1000);
  expect(woken).toEqual(['demo']);
});
