import { describe, expect, test } from 'vitest';
import { z } from 'zod';
import { propertyOf } from '../../src/base/dictionary.ts';
import { Config, Settings } from '../../src/protocol/settings/config.ts';
import { resolveSettings } from '../../src/protocol/settings/effective-settings.ts';

type Value = string | number | boolean | null | readonly unknown[] | object;

/** How a child session comes by a key: with a value of its root and one of its own. */
type Way =
  /** its own file alone says it */
  | { own: Value }
  /** that of its root, unless its own file says otherwise */
  | { inherits: [root: Value, child: Value] }
  /** the stricter of both: looser, then tighter */
  | { tightens: [loose: Value, tight: Value] }
  /** that of its root, whatever its own file says */
  | { fixed: [root: Value, child: Value] }
  /** both together */
  | { unites: [root: Value, child: Value, both: Value] }
  /** only `agentd.json` has it */
  | { workspace: Value };

/** Every key of both settings files. A key that is missing here fails the test below: say how a family inherits it. */
const WAYS: Record<string, Way> = {
  $schema: { inherits: ['a', 'b'] },
  version: { inherits: [1, 1] },
  title: { own: 'Mine' },
  'model.base_url': { inherits: ['http://127.0.0.1:1/v1', 'http://127.0.0.1:2/v1'] },
  'model.name': { inherits: ['local', 'other'] },
  'model.api_key_env': { inherits: ['ROOT_KEY', 'CHILD_KEY'] },
  'model.timeout_s': { inherits: [10, 20] },
  'model.context_window': { inherits: [8000, 9000] },
  'model.prices.input': { inherits: [1, 2] },
  'model.prices.output': { inherits: [1, 2] },
  'model.images': { inherits: [true, false] },
  mode: { inherits: ['todo', 'dag'] },
  modes: { inherits: [['todo'], ['dag']] },
  'limits.iterations': { tightens: [40, 4] },
  'limits.step_iterations': { tightens: [40, 4] },
  'limits.repeats': { tightens: [0, 2] },
  'limits.tokens': { tightens: [null, 1000] },
  'limits.cost': { tightens: [null, 2] },
  'limits.minutes': { tightens: [null, 2] },
  'limits.outage_minutes': { tightens: [100, 0] },
  'limits.jobs': { tightens: [4, 0] },
  'limits.steps': { tightens: [4, 1] },
  'limits.step_minutes': { tightens: [null, 2] },
  'limits.approval_minutes': { tightens: [60, 0] },
  'agents.*.description': { inherits: ['a', 'b'] },
  'agents.*.instructions': { inherits: ['a', 'b'] },
  'agents.*.tools': { tightens: [['shell', 'read_file'], ['read_file']] },
  'agents.*.model': { inherits: ['a', 'b'] },
  'agents.*.mode': { inherits: ['todo', 'dag'] },
  unknown_agent: { tightens: ['self', 'fail'] },
  on_limit: { tightens: ['extend', 'pause'] },
  sandbox: { tightens: ['none', 'bwrap'] },
  approvals: { tightens: ['auto', 'safe'] },
  // What comes of rules is tested in tests/tools/permissions.test.ts.
  permissions: { fixed: [[{ deny: 'shell' }], [{ allow: 'shell' }]] },
  'network.shell': { tightens: [true, false] },
  'network.allow_private': { workspace: ['10.0.0.0/8'] },
  language: { inherits: ['en', 'zh'] },
  instructions: { unites: ['Be kind.', 'Be short.', 'Be kind.\n\nBe short.'] },
  read_also: { tightens: [['/srv', '/data'], ['/data/public']] },
  senders: { tightens: [['ann', 'bob'], ['ann']] },
  secrets: { unites: [['A'], ['B'], ['A', 'B']] },
  'retention.record_days': { inherits: [1, 2] },
  'retention.files_days': { inherits: [1, 2] },
  'mcpServers.*.type': { fixed: ['stdio', 'stdio'] },
  'mcpServers.*.command': { fixed: ['a', 'b'] },
  'mcpServers.*.args': { fixed: [['a'], ['b']] },
  'mcpServers.*.env.*': { fixed: ['a', 'b'] },
  'mcpServers.*.cwd': { fixed: ['/a', '/b'] },
  'mcpServers.*.sandbox': { fixed: ['bwrap', 'none'] },
  'mcpServers.*.network': { fixed: [false, true] },
  'mcpServers.*.read': { fixed: [['/a'], ['/b']] },
  'mcpServers.*.write': { fixed: [['/a'], ['/b']] },
  'mcpServers.*.url': { fixed: ['http://a', 'http://b'] },
  'mcpServers.*.headers.*': { fixed: ['a', 'b'] },
  'mcpServers.*.timeout_s': { fixed: [1, 2] },
  'mcpServers.*.tools': { tightens: [['a', 'b'], ['a']] },
  'mcpServers.*.trust_hints': { fixed: [false, true] },
  'mcpServers.*.disabled': { tightens: [false, true] },
  memory: { tightens: ['workspace', 'off'] },
  recall: { tightens: ['workspace', 'off'] },
  'disk.floor_mb': { workspace: 1 },
  'disk.reserve_mb': { workspace: 1 },
  allow_network_fs: { workspace: true },
  'search.engine': { workspace: 'brave' },
  'search.base_url': { workspace: 'http://127.0.0.1:1' },
  'search.api_key_env': { workspace: 'A' },
  'browser.executable': { workspace: '/a' },
  'browser.idle_minutes': { workspace: 1 },
  'browser.most': { workspace: 1 },
  'browser.cookie_banners': { workspace: 'leave' },
  'concurrency.runs': { workspace: 1 },
};

/** The paths of all keys, `*` standing for a name that people give. */
function keysOf(schema: unknown, path: string[] = []): string[] {
  if (schema instanceof z.ZodOptional || schema instanceof z.ZodNullable) return keysOf(schema.unwrap(), path);
  if (schema instanceof z.ZodRecord) return keysOf(schema.valueType, [...path, '*']);
  if (schema instanceof z.ZodObject)
    return Object.entries(schema.shape).flatMap(([key, inner]) => keysOf(inner, [...path, key]));
  return [path.join('.')];
}

const named = (path: string) => path.split('.').map((key) => (key === '*' ? 'one' : key));

/** What a settings file has to have besides for this key to hold. */
const BESIDE: Record<string, object> = {
  mcpServers: { command: 'server' },
  'mcpServers.url': { url: 'http://server' },
  prices: { input: 0, output: 0 },
  search: { engine: 'brave' },
};

function settingsWith(path: string, value: Value): Record<string, unknown> {
  const [top = '', second = '', third = ''] = path.split('.');
  let whole: unknown = value;
  for (const key of named(path).reverse()) whole = { [key]: whole };
  if (path === '$schema') return { $schema: value };
  const inner = propertyOf(whole, top);
  if (top === 'mcpServers') {
    const beside = third === 'url' || third === 'headers' ? BESIDE['mcpServers.url'] : BESIDE[top];
    return { mcpServers: { one: { ...beside, ...Object(propertyOf(inner, 'one')) } } };
  }
  if (second === 'prices')
    return { model: { prices: { ...BESIDE['prices'], ...Object(propertyOf(inner, 'prices')) } } };
  return { [top]: typeof inner === 'object' && !Array.isArray(inner) ? { ...BESIDE[top], ...inner } : inner };
}

const at = (whole: unknown, path: string): unknown => named(path).reduce<unknown>(propertyOf, whole);
const session = (path: string, value: Value) => Settings.parse(settingsWith(path, value));
const settings = (path: string, sessions: Settings[]) => at(resolveSettings({ sessions }).settings, path);

test('every key of the settings says how a family inherits it', () => {
  const keys = [...new Set([...keysOf(Config), ...keysOf(Settings)])].sort();
  expect(keys.length).toBeGreaterThan(60);
  expect(Object.keys(WAYS).sort()).toEqual(keys);
});

describe.each(Object.entries(WAYS))('%s', (path, way) => {
  if ('own' in way) {
    test('is a session’s own', () => {
      expect(settings(path, [session(path, way.own)])).toEqual(way.own);
      expect(settings(path, [session(path, way.own), {}])).toBeUndefined();
      expect(settings(path, [{}, session(path, way.own)])).toEqual(way.own);
    });
  } else if ('inherits' in way) {
    const [root, child] = way.inherits;
    test('is that of the root, unless the child says otherwise; a grandchild has it too', () => {
      expect(settings(path, [session(path, root), {}])).toEqual(root);
      expect(settings(path, [session(path, root), {}, {}])).toEqual(root);
      expect(settings(path, [session(path, root), session(path, child)])).toEqual(child);
      expect(settings(path, [session(path, root), session(path, child), {}])).toEqual(child);
    });
  } else if ('tightens' in way) {
    const [loose, tight] = way.tightens;
    test('is tightened by a child, and never loosened', () => {
      expect(settings(path, [session(path, tight), {}])).toEqual(tight);
      expect(settings(path, [session(path, tight), {}, {}])).toEqual(tight);
      expect(settings(path, [session(path, loose), session(path, tight)])).toEqual(tight);
      expect(settings(path, [session(path, loose), session(path, tight), session(path, loose)])).toEqual(
        Array.isArray(tight) ? tight.filter((one) => Array.isArray(loose) && loose.includes(one)) : tight,
      );
    });
    test('is left out of a child’s file where it would loosen its root’s, and that is said', () => {
      const { settings: holds, leftOut } = resolveSettings({
        sessions: [session(path, tight), session(path, loose)],
      });
      const isList = Array.isArray(tight) && path === 'read_also';
      expect(at(holds, path)).toEqual(isList ? [] : tight);
      expect(leftOut).toContain(path.startsWith('mcpServers') ? 'mcpServers.one' : named(path).join('.'));
    });
  } else if ('fixed' in way) {
    const [root, child] = way.fixed;
    test('is that of the root, whatever the child says', () => {
      expect(settings(path, [session(path, root), {}])).toEqual(root);
      expect(settings(path, [session(path, root), session(path, child)])).toEqual(root);
    });
  } else if ('unites' in way) {
    const [root, child, both] = way.unites;
    test('is that of the root and the child’s own', () => {
      expect(settings(path, [session(path, root), {}])).toEqual(root);
      expect(settings(path, [session(path, root), session(path, child)])).toEqual(both);
    });
  } else {
    test('is the workspace’s, for roots and children alike', () => {
      expect(Settings.safeParse(settingsWith(path, way.workspace)).success).toBe(false);
      const workspace = Config.parse(settingsWith(path, way.workspace));
      expect(at(resolveSettings({ workspace }).settings, path)).toEqual(way.workspace);
      expect(at(resolveSettings({ workspace, sessions: [{}, {}] }).settings, path)).toEqual(way.workspace);
    });
  }
});

describe('what wins', () => {
  const workspace: Config = { model: { base_url: 'http://workspace/v1', name: 'workspace' } };
  const root: Settings = { model: { base_url: 'http://session/v1', name: 'session' } };
  const env = { OPENAI_BASE_URL: 'http://environment/v1', OPENAI_MODEL: 'environment' };
  const flags = { base_url: 'http://flag/v1', name: 'flag' };

  test.each([
    ['flag', { flags, env, workspace, sessions: [root] }],
    ['environment', { env, workspace, sessions: [root] }],
    ['session', { workspace, sessions: [root] }],
    ['session', { workspace, sessions: [root, {}] }],
    ['workspace', { workspace, sessions: [{}] }],
  ])('is the %s', (who, sources) => {
    const { model, rules } = resolveSettings(sources);
    expect([model.base_url, model.name, rules.model]).toEqual([`http://${who}/v1`, who, who]);
  });

  test('is the file where a variable of the environment is empty', () => {
    const { model } = resolveSettings({ env: { OPENAI_BASE_URL: '', OPENAI_MODEL: '' }, workspace });
    expect(model).toEqual(workspace.model);
  });

  test('each other key of the session stands before that of the workspace', () => {
    const { settings: holds } = resolveSettings({
      workspace: { sandbox: 'bwrap', network: { shell: true, allow_private: ['::1'] }, limits: { jobs: 1, steps: 2 } },
      sessions: [{ network: { shell: false }, limits: { jobs: 3 } }],
    });
    expect(holds).toMatchObject({
      sandbox: 'bwrap',
      network: { shell: false, allow_private: ['::1'] },
      limits: { jobs: 3, steps: 2 },
    });
  });
});

test('a key that was named for one endpoint is not sent to another that somebody put in its place', () => {
  const workspace: Config = { model: { base_url: 'https://cloud.example/v1', api_key_env: 'CLOUD_KEY' } };
  const model = (base_url: string) => resolveSettings({ env: { OPENAI_BASE_URL: base_url }, workspace }).model;
  expect(model('http://127.0.0.1:9/v1')).toEqual({ base_url: 'http://127.0.0.1:9/v1' });
  expect(model('https://cloud.example/v2')).toMatchObject({ api_key_env: 'CLOUD_KEY' });
  const alone = resolveSettings({ flags: { base_url: 'http://a/v1' }, workspace: { model: { api_key_env: 'K' } } });
  expect(alone.model).toEqual({ base_url: 'http://a/v1', api_key_env: 'K' });
});

test('names like those of Object.prototype find no agent and no server', () => {
  for (const sessions of [[{}], [{}, {}], [{ agents: { a: {} } }, { agents: { b: {} } }]]) {
    const { rules, mcpServers } = resolveSettings({ workspace: { agents: { c: {} } }, sessions });
    expect([rules.agents['constructor'], rules.agents['toString'], mcpServers['valueOf']]).toEqual([
      undefined,
      undefined,
      undefined,
    ]);
  }
});

test('a child that names no MCP server of its family starts none of its own', () => {
  const sessions: Settings[] = [{ mcpServers: { a: { command: 'a' } } }, { mcpServers: { b: { command: 'b' } } }];
  const { mcpServers, leftOut } = resolveSettings({ sessions });
  expect(mcpServers).toEqual({ a: { command: 'a' } });
  expect(leftOut).toEqual(['mcpServers.b']);
});

test('~ in read_also is the home folder', () => {
  const { readAlso } = resolveSettings({
    env: { HOME: '/home/ann' },
    workspace: { read_also: ['~/papers', '~', '/a/~'] },
  });
  expect(readAlso).toEqual(['/home/ann/papers', '/home/ann', '/a/~']);
});

test('where nothing is said, the defaults hold', () => {
  expect(resolveSettings({})).toMatchObject({
    sandbox: { mode: 'auto', network: false },
    permissions: { mode: 'ask', session: [], workspace: [] },
    retention: { recordDays: 90, filesDays: 30 },
    leftOut: [],
  });
});
