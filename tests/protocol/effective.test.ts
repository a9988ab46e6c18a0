import { describe, expect, test } from 'vitest';
import { z } from 'zod';
import { propertyOf } from '../../src/base/collections.ts';
import { Config, Settings } from '../../src/protocol/settings/config.ts';
import { resolveSettings } from '../../src/protocol/settings/effective-settings.ts';

type Value = string | number | boolean | null | readonly unknown[] | object;

/** What becomes of a key that both files may have. */
type Way =
  /** the session's stands before the workspace's */
  | { wins: [workspace: Value, session: Value] }
  /** both together */
  | { unites: [workspace: Value, session: Value, both: Value] }
  /** only the session's stands here */
  | { own: Value }
  /** only `agentd.json` has it */
  | { workspace: Value };

/** Every key of both settings files. A key that is missing here fails the test below. */
const WAYS: Record<string, Way> = {
  $schema: { wins: ['a', 'b'] },
  version: { wins: [1, 1] },
  title: { own: 'Mine' },
  'model.base_url': { wins: ['http://127.0.0.1:1/v1', 'http://127.0.0.1:2/v1'] },
  'model.name': { wins: ['local', 'other'] },
  'model.api_key_env': { wins: ['ROOT_KEY', 'CHILD_KEY'] },
  'model.timeout_s': { wins: [10, 20] },
  'model.context_window': { wins: [8000, 9000] },
  'model.prices.input': { wins: [1, 2] },
  'model.prices.output': { wins: [1, 2] },
  'model.prices.cached': { wins: [1, 2] },
  'model.images': { wins: [true, false] },
  'model.body.*': { wins: [0.2, null] },
  'model.max_tokens': { wins: [1000, 2000] },
  'model.api': { wins: ['chat', 'responses'] },
  'model.api_version': { wins: ['1', '2'] },
  'model.tool_calls': { wins: ['native', 'text'] },
  ...Object.fromEntries(
    ['down', 'limit', 'context', 'refused'].flatMap((cause) => [
      [`model.fallback.${cause}`, { wins: [[], []] }],
      [`models.*.fallback.${cause}`, { workspace: [] }],
    ]),
  ),
  'models.*.base_url': { workspace: 'http://127.0.0.1:1/v1' },
  'models.*.name': { workspace: 'qwen3' },
  'models.*.api_key_env': { workspace: 'KEY' },
  'models.*.timeout_s': { workspace: 10 },
  'models.*.context_window': { workspace: 8000 },
  'models.*.prices.input': { workspace: 1 },
  'models.*.prices.output': { workspace: 1 },
  'models.*.prices.cached': { workspace: 1 },
  'models.*.images': { workspace: true },
  'models.*.body.*': { workspace: 0.2 },
  'models.*.headers.*': { workspace: 'a' },
  'models.*.max_tokens': { workspace: 1000 },
  'models.*.api': { workspace: 'chat' },
  'models.*.api_version': { workspace: '1' },
  'models.*.tool_calls': { workspace: 'text' },
  'model_for.planner': { wins: ['a', 'b'] },
  'model_for.worker': { wins: ['a', 'b'] },
  'model_for.summary': { wins: ['a', 'b'] },
  'model.headers.*': { wins: ['a', null] },
  mode: { wins: ['todo', 'dag'] },
  'limits.iterations': { wins: [40, 4] },
  'limits.step_iterations': { wins: [40, 4] },
  'limits.repeats': { wins: [0, 2] },
  'limits.tokens': { wins: [null, 1000] },
  'limits.cost': { wins: [null, 2] },
  'limits.minutes': { wins: [null, 2] },
  'limits.outage_minutes': { wins: [100, 0] },
  'limits.jobs': { wins: [4, 0] },
  'limits.steps': { wins: [4, 1] },
  'limits.step_minutes': { wins: [null, 2] },
  'limits.approval_minutes': { wins: [60, 0] },
  'agents.*.description': { wins: ['a', 'b'] },
  'agents.*.instructions': { wins: ['a', 'b'] },
  'agents.*.tools': { wins: [['shell', 'read_file'], ['read_file']] },
  'agents.*.model': { wins: ['a', 'b'] },
  'agents.*.mode': { wins: ['todo', 'dag'] },
  unknown_agent: { wins: ['self', 'fail'] },
  on_limit: { wins: ['extend', 'pause'] },
  sandbox: { wins: ['none', 'bwrap'] },
  approvals: { wins: ['auto', 'safe'] },
  // What comes of rules is tested in tests/tools/permissions.test.ts.
  permissions: { own: [{ allow: 'shell' }] },
  'network.shell': { wins: [true, false] },
  'network.allow_private': { workspace: ['10.0.0.0/8'] },
  language: { wins: ['en', 'zh'] },
  instructions: { unites: ['Be kind.', 'Be short.', 'Be kind.\n\nBe short.'] },
  read_also: { unites: [['/srv'], ['/data'], ['/srv', '/data']] },
  senders: { wins: [['ann', 'bob'], ['ann']] },
  secrets: { unites: [['A'], ['B'], ['A', 'B']] },
  'retention.log_days': { wins: [1, 2] },
  'retention.files_days': { wins: [1, 2] },
  'checkpoints.exclude': { wins: [['a'], ['b']] },
  'checkpoints.keep': { wins: [20, 0] },
  'checkpoints.max_files': { wins: [20, 10] },
  'checkpoints.max_file_mb': { wins: [20, 10] },
  'checkpoints.max_mb': { wins: [20, 10] },
  'checkpoints.max_workspace_mb': { workspace: 1 },
  'mcpServers.*.type': { wins: ['stdio', 'stdio'] },
  'mcpServers.*.command': { wins: ['a', 'b'] },
  'mcpServers.*.args': { wins: [['a'], ['b']] },
  'mcpServers.*.env.*': { wins: ['a', 'b'] },
  'mcpServers.*.cwd': { wins: ['/a', '/b'] },
  'mcpServers.*.sandbox': { wins: ['bwrap', 'none'] },
  'mcpServers.*.network': { wins: [false, true] },
  'mcpServers.*.read': { wins: [['/a'], ['/b']] },
  'mcpServers.*.write': { wins: [['/a'], ['/b']] },
  'mcpServers.*.oauth.callbackPort': { wins: [4000, 4001] },
  'mcpServers.*.oauth.clientId': { wins: ['a', 'b'] },
  'mcpServers.*.oauth.clientSecret': { wins: ['a', 'b'] },
  'mcpServers.*.oauth.scope': { wins: ['a', 'b'] },
  'mcpServers.*.url': { wins: ['http://a', 'http://b'] },
  'mcpServers.*.headers.*': { wins: ['a', 'b'] },
  'mcpServers.*.timeout_s': { wins: [1, 2] },
  'mcpServers.*.tools': { wins: [['a', 'b'], ['a']] },
  'mcpServers.*.trust_hints': { wins: [false, true] },
  'mcpServers.*.disabled': { wins: [false, true] },
  memory: { wins: ['workspace', 'off'] },
  recall: { wins: ['workspace', 'off'] },
  'disk.min_free_mb': { workspace: 1 },
  'disk.reserve_mb': { workspace: 1 },
  allow_network_fs: { workspace: true },
  'search.engine': { workspace: 'brave' },
  'search.base_url': { workspace: 'http://127.0.0.1:1' },
  'search.api_key_env': { workspace: 'A' },
  'browser.executable': { workspace: '/a' },
  'browser.idle_minutes': { workspace: 1 },
  'browser.max_open': { workspace: 1 },
  'browser.cookie_banners': { workspace: 'leave' },
  'concurrency.runs': { workspace: 1 },
  'budgets.day.tokens': { wins: [20, 10] },
  'budgets.day.cost': { wins: [20, 10] },
  'budgets.day.minutes': { wins: [20, 10] },
  'budgets.month.tokens': { wins: [20, 10] },
  'budgets.month.cost': { wins: [20, 10] },
  'budgets.month.minutes': { wins: [20, 10] },
  notify: { workspace: [{ webhook: 'https://hook.example' }] },
  public_url: { workspace: 'https://agent.example' },
  'channels.*': { workspace: { type: 'telegram', token_env: 'T' } },
  'budgets.per_session.day.tokens': { workspace: 1 },
  'budgets.per_session.day.cost': { workspace: 1 },
  'budgets.per_session.day.minutes': { workspace: 1 },
  'budgets.per_session.month.tokens': { workspace: 1 },
  'budgets.per_session.month.cost': { workspace: 1 },
  'budgets.per_session.month.minutes': { workspace: 1 },
  'budgets.per_sender.day.tokens': { workspace: 1 },
  'budgets.per_sender.day.cost': { workspace: 1 },
  'budgets.per_sender.day.minutes': { workspace: 1 },
  'budgets.per_sender.month.tokens': { workspace: 1 },
  'budgets.per_sender.month.cost': { workspace: 1 },
  'budgets.per_sender.month.minutes': { workspace: 1 },
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
  channels: { type: 'telegram', token_env: 'T' },
};

function settingsWith(path: string, value: Value): Record<string, unknown> {
  const [top = '', second = '', third = ''] = path.split('.');
  let whole: unknown = value;
  for (const key of named(path).reverse()) whole = { [key]: whole };
  if (path === '$schema') return { $schema: value };
  const inner = propertyOf(whole, top);
  if (top === 'mcpServers') {
    const beside = ['url', 'headers', 'oauth'].includes(third) ? BESIDE['mcpServers.url'] : BESIDE[top];
    return { mcpServers: { one: { ...beside, ...Object(propertyOf(inner, 'one')) } } };
  }
  if (top === 'channels') return { channels: { one: { ...BESIDE[top], ...Object(propertyOf(inner, 'one')) } } };
  if (path.startsWith('models.*.prices'))
    return {
      models: { one: { prices: { ...BESIDE['prices'], ...Object(propertyOf(propertyOf(inner, 'one'), 'prices')) } } },
    };
  if (second === 'prices')
    return { model: { prices: { ...BESIDE['prices'], ...Object(propertyOf(inner, 'prices')) } } };
  return { [top]: typeof inner === 'object' && !Array.isArray(inner) ? { ...BESIDE[top], ...inner } : inner };
}

const at = (whole: unknown, path: string): unknown => named(path).reduce<unknown>(propertyOf, whole);
const holds = (path: string, workspace: Config, session: Settings) =>
  at(resolveSettings({ workspace, session }).settings, path);
const inWorkspace = (path: string, value: Value) => Config.parse(settingsWith(path, value));
const inSession = (path: string, value: Value) => Settings.parse(settingsWith(path, value));

test('every key of the settings says what becomes of it', () => {
  const keys = [...new Set([...keysOf(Config), ...keysOf(Settings)])].sort();
  expect(keys.length).toBeGreaterThan(60);
  expect(Object.keys(WAYS).sort()).toEqual(keys);
});

test.each(Object.entries(WAYS))('%s holds for a session where its files say it', (path, way) => {
  if ('wins' in way) {
    const [workspace, session] = way.wins;
    expect(holds(path, inWorkspace(path, workspace), {})).toEqual(workspace);
    expect(holds(path, {}, inSession(path, session))).toEqual(session);
    expect(holds(path, inWorkspace(path, workspace), inSession(path, session))).toEqual(session);
  } else if ('unites' in way) {
    const [workspace, session, both] = way.unites;
    expect(holds(path, inWorkspace(path, workspace), {})).toEqual(workspace);
    expect(holds(path, inWorkspace(path, workspace), inSession(path, session))).toEqual(both);
  } else if ('own' in way) {
    expect(holds(path, {}, inSession(path, way.own))).toEqual(way.own);
    expect(holds(path, {}, {})).toBeUndefined();
  } else {
    expect(Settings.safeParse(settingsWith(path, way.workspace)).success).toBe(false);
    expect(holds(path, inWorkspace(path, way.workspace), {})).toEqual(way.workspace);
  }
});

describe('what wins', () => {
  const workspace: Config = { model: { base_url: 'http://workspace/v1', name: 'workspace' } };
  const root: Settings = { model: { base_url: 'http://session/v1', name: 'session' } };
  const env = { OPENAI_BASE_URL: 'http://environment/v1', OPENAI_MODEL: 'environment' };
  const flags = { base_url: 'http://flag/v1', name: 'flag' };

  test.each([
    ['flag', { flags, env, workspace, session: root }],
    ['environment', { env, workspace, session: root }],
    ['session', { workspace, session: root }],
    ['workspace', { workspace, session: {} }],
  ])('is the %s', (who, sources) => {
    const { model, rules } = resolveSettings(sources);
    expect([model.base_url, model.name, rules.model]).toEqual([`http://${who}/v1`, who, who]);
  });

  test('is the file where a variable of the environment is empty', () => {
    const { model } = resolveSettings({ env: { OPENAI_BASE_URL: '', OPENAI_MODEL: '' }, workspace });
    expect(model).toEqual(workspace.model);
  });

  test('each other key of the session stands before that of the workspace', () => {
    const { settings } = resolveSettings({
      workspace: { sandbox: 'bwrap', network: { shell: true, allow_private: ['::1'] }, limits: { jobs: 1, steps: 2 } },
      session: { network: { shell: false }, limits: { jobs: 3 } },
    });
    expect(settings).toMatchObject({
      sandbox: 'bwrap',
      network: { shell: false, allow_private: ['::1'] },
      limits: { jobs: 3, steps: 2 },
    });
  });
});

test('a body and headers go only to the address that they were set for, and are merged key by key there', () => {
  const workspace: Config = {
    model: { base_url: 'https://cloud.example/v1', body: { a: 1, b: 1 }, headers: { 'X-A': '1' } },
    secrets: ['KEY'],
  };
  const model = (session: Settings) => resolveSettings({ workspace, session }).model;
  expect(model({ model: { body: { b: null }, headers: { 'X-B': '$KEY' } } })).toMatchObject({
    ...{ body: { a: 1, b: null }, headers: { 'X-A': '1', 'X-B': '$KEY' }, secrets: ['KEY'] },
  });
  const elsewhere = model({ model: { base_url: 'http://127.0.0.1:1/v1', body: { c: 1 } } });
  expect(elsewhere).toMatchObject({ body: { c: 1 } });
  expect(elsewhere.headers).toBeUndefined();
  const { model: flagged } = resolveSettings({ flags: { base_url: 'http://127.0.0.1:2/v1' }, workspace });
  expect([flagged.body, flagged.headers]).toEqual([undefined, undefined]);
});

test.each([
  { body: { messages: [] } },
  { body: { stream: false } },
  { headers: { 'X A': 'b' } },
  { headers: { 'X-A': 'a\r\nX-B: c' } },
  { headers: { 'Content-Length': '1' } },
])('a body or headers that would break each request are refused where they are written: %j', (model) => {
  expect(Config.safeParse({ model }).success).toBe(false);
});

test('an entry of `models` shares address, key, headers and body with the common model, unless it has another address', () => {
  const workspace: Config = {
    model: {
      base_url: 'http://here/v1',
      api_key_env: 'K',
      name: 'big',
      max_tokens: 5,
      body: { a: 1 },
      headers: { 'X-A': '1' },
    },
    models: { cheap: { name: 'small', body: { b: 2 } }, far: { base_url: 'http://far/v1' }, 'gpt-x': {} },
  };
  const { named } = resolveSettings({ workspace, session: { model: { base_url: 'http://session/v1' } } }).model;
  expect(named).toEqual({
    cheap: {
      base_url: 'http://here/v1',
      api_key_env: 'K',
      name: 'small',
      body: { a: 1, b: 2 },
      headers: { 'X-A': '1' },
    },
    far: { base_url: 'http://far/v1', name: 'far' },
    'gpt-x': { base_url: 'http://here/v1', api_key_env: 'K', name: 'gpt-x', body: { a: 1 }, headers: { 'X-A': '1' } },
  });
});

test.each([
  { models: { a: { fallback: { down: ['b'] } } } },
  { models: { a: { fallback: { down: ['a'] } } } },
  { model: { fallback: { limit: ['toString'] } }, models: {} },
  { models: { runbook: {} } },
])('a name that leads nowhere, or in a circle, is refused where it is written: %j', (config) => {
  expect(Config.safeParse(config).success).toBe(false);
});

test('a key that was named for one endpoint is not sent to another that somebody put in its place', () => {
  const workspace: Config = { model: { base_url: 'https://cloud.example/v1', api_key_env: 'CLOUD_KEY' } };
  const model = (base_url: string) => resolveSettings({ env: { OPENAI_BASE_URL: base_url }, workspace }).model;
  expect(model('http://127.0.0.1:9/v1')).toEqual({ base_url: 'http://127.0.0.1:9/v1' });
  expect(model('https://cloud.example/v2')).toMatchObject({ api_key_env: 'CLOUD_KEY' });
  const alone = resolveSettings({ flags: { base_url: 'http://a/v1' }, workspace: { model: { api_key_env: 'K' } } });
  expect(alone.model).toEqual({ base_url: 'http://a/v1', api_key_env: 'K' });
});

describe('a session.json that names an address', () => {
  const HERE = 'https://common.example/v1';
  const THERE = 'https://there.example/v1';
  const common: Config = { model: { base_url: HERE, api_key_env: 'K' } };
  const keyOf = (sources: Parameters<typeof resolveSettings>[0]) => {
    const { base_url, api_key_env = 'OPENAI_API_KEY', no_key } = resolveSettings(sources).model;
    return [base_url, no_key ?? api_key_env];
  };
  const at = (base_url: string, api_key_env?: string): Settings => ({
    model: { base_url, ...(api_key_env && { api_key_env }) },
  });

  test.each<[string, Parameters<typeof resolveSettings>[0]]>([
    ['agentd.json beside an address', { workspace: common }],
    ['agentd.json without an address', { workspace: { model: { api_key_env: 'K' } } }],
    ['the flags', { flags: { api_key_env: 'K' } }],
    ['nobody, which is OPENAI_API_KEY', {}],
    ['nobody, beside an address in agentd.json', { workspace: { model: { base_url: HERE } } }],
  ])('gets no key that is named by %s', (_, sources) => {
    expect(keyOf({ ...sources, session: at(THERE) })).toEqual([THERE, 'unnamed']);
    // Not by naming it once more either.
    for (const key of ['K', 'OPENAI_API_KEY', 'ANY'])
      expect(keyOf({ ...sources, session: at(THERE, key) })).toEqual([THERE, 'unlisted']);
  });

  test('gets the key that it names if `secrets` of agentd.json lists it; its own `secrets` do not count', () => {
    expect(keyOf({ workspace: { ...common, secrets: ['THERE_KEY'] }, session: at(THERE, 'THERE_KEY') })).toEqual([
      THERE,
      'THERE_KEY',
    ]);
    const session = { ...at(THERE, 'THERE_KEY'), secrets: ['THERE_KEY'] };
    expect(keyOf({ workspace: common, session })).toEqual([THERE, 'unlisted']);
  });

  test('gets the common key for another path of the same origin, by https as by http', () => {
    expect(keyOf({ workspace: common, session: at('https://common.example/v2') })).toEqual([
      'https://common.example/v2',
      'K',
    ]);
    expect(keyOf({ workspace: common, session: at('http://common.example/v1') })[1]).toBe('unnamed');
    expect(keyOf({ workspace: common, session: at(`${HERE}/x`, 'OTHER') })[1]).toBe('OTHER');
  });

  test('gets OPENAI_API_KEY for OpenAI itself', () => {
    for (const workspace of [{}, common])
      for (const key of [undefined, 'OPENAI_API_KEY'])
        expect(keyOf({ workspace, session: at('https://api.openai.com/v1', key) })[1]).toBe('OPENAI_API_KEY');
  });

  test('changes nothing about a key where flags or the environment name the address', () => {
    for (const beside of [{ flags: { base_url: HERE } }, { env: { OPENAI_BASE_URL: HERE } }])
      for (const session of [at(THERE), at(THERE, 'ANY')])
        expect(keyOf({ ...beside, workspace: { model: { api_key_env: 'K' } }, session })).toEqual([HERE, 'K']);
  });
});

test('names like those of Object.prototype find no agent and no server', () => {
  for (const session of [{}, { agents: { a: {} } }]) {
    const { rules, mcpServers } = resolveSettings({ workspace: { agents: { c: {} } }, session });
    expect([rules.agents['constructor'], rules.agents['toString'], mcpServers['valueOf']]).toEqual([
      undefined,
      undefined,
      undefined,
    ]);
  }
});

test('~ in read_also is the home folder', () => {
  const { readAlso } = resolveSettings({
    env: { HOME: '/home/ann' },
    workspace: { read_also: ['~/papers', '~', '/a/~'] },
  });
  expect(readAlso).toEqual(['/home/ann/papers', '/home/ann', '/a/~']);
});

test('the rules of a session and of the workspace hold apart', () => {
  const [session, workspace] = [[{ deny: 'shell' }], [{ allow: 'shell' }]];
  const { permissions } = resolveSettings({
    session: { permissions: session },
    workspace: { approvals: 'auto', permissions: workspace },
  });
  expect(permissions).toEqual({ mode: 'auto', session, workspace });
});

test('where nothing is said, the defaults hold', () => {
  expect(resolveSettings({})).toMatchObject({
    sandbox: { mode: 'auto', network: false },
    permissions: { mode: 'ask', session: [], workspace: [] },
    retention: { recordDays: 90, filesDays: 30 },
  });
});

test('the environment sets model and language before files, and lowers limits but raises none that a file sets', () => {
  const env = {
    AGENTD_MODEL_NAME: 'small',
    AGENTD_MODEL_MAX_TOKENS: '500',
    AGENTD_MODEL_IMAGES: 'false',
    AGENTD_MODEL_BODY: '{"temperature":0}',
    AGENTD_LIMITS_ITERATIONS: '20',
    AGENTD_LIMITS_TOKENS: 'null',
    AGENTD_LIMITS_REPEATS: '0',
    AGENTD_LIMITS_MINUTES: '5',
    AGENTD_LANGUAGE: 'zh',
    AGENTD_SESSION: 'outer',
    OPENAI_MODEL: 'other',
  };
  const { model, settings, rules } = resolveSettings({
    ...{ env, workspace: { limits: { iterations: 30, tokens: 1000, repeats: 4 }, model: { body: { top_p: 1 } } } },
    session: { language: 'en', model: { name: 'large' } },
  });
  expect(model).toEqual({ name: 'small', max_tokens: 500, images: false, body: { top_p: 1, temperature: 0 } });
  expect(settings.limits).toEqual({ iterations: 20, tokens: 1000, repeats: 4, minutes: 5 });
  expect(rules.language).toBe('zh');
});

test.each([
  ['AGENTD_MODEL_NAME', '', 'AGENTD_MODEL_NAME is empty'],
  ['AGENTD_MODEL_NAMES', 'x', 'Expected a name such as AGENTD_MODEL_NAME'],
  ['AGENTD_MODEL', 'x', 'AGENTD_MODEL is no setting'],
  ['AGENTD_MODEL_PRICES', '{}', 'AGENTD_MODEL_PRICES is not read: `model.prices`'],
  ['AGENTD_LIMITS_ITERATIONS', 'many', 'AGENTD_LIMITS_ITERATIONS: '],
  ['AGENTD_LIMITS_ITERATIONS', '9000000', 'AGENTD_LIMITS_ITERATIONS: expected at most 1000000'],
  ['AGENTD_MODEL_API_KEY_ENV', 'sk-1234567890abcdef', 'expected the name of an environment variable'],
  ['AGENTD_MODEL_HEADERS', '{"X":"a\\nb"}', 'AGENTD_MODEL_HEADERS: expected one line'],
  ['AGENTD_SANDBOX', 'none', 'AGENTD_SANDBOX is not read: `sandbox` is set in agentd.json'],
  ['AGENTD_APPROVALS', 'auto', 'AGENTD_APPROVALS is not read'],
  ['AGENTD_BUDGETS', '{}', 'AGENTD_BUDGETS is not read'],
])('the environment with %s=%s is refused in words that repeat no value', (name, text, words) => {
  const refused = () => resolveSettings({ env: { [name]: text } });
  expect(refused).toThrow(words);
  if (name.endsWith('KEY_ENV')) expect(refused).not.toThrow(text);
});
