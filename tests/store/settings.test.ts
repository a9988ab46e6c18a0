import { describe, expect, test } from 'vitest';
import { z } from 'zod';
import { findJsonSyntaxError, positionOfJsonPath } from '../../src/base/json.ts';
import { errorText } from '../../src/base/user-error.ts';
import { modelSettingsFromFlags } from '../../src/frontends/command-line.ts';
import { Config, Settings } from '../../src/protocol/settings/config.ts';
import { resolveLimits } from '../../src/protocol/settings/run-options.ts';
import { findUnknownMcpServers } from '../../src/protocol/tool-calls/tool-names.ts';
import { checkConfig, checkSettings } from '../../src/store/index.ts';
import fc from '../support/property.ts';

function faultOf(text: string): string {
  try {
    checkSettings(text, 'session.json');
  } catch (error) {
    return errorText(error);
  }
  throw new Error(`it holds: ${text}`);
}

describe('settings', () => {
  test('that are not there are empty', () => {
    expect(checkConfig(undefined, 'agentd.json')).toEqual({ value: {}, warnings: [] });
  });

  test('that fit come back as they are, also after a byte order mark', () => {
    const value = {
      version: 1,
      model: { name: 'm', timeout_s: 30 },
      limits: { iterations: 9 },
      concurrency: { runs: 2 },
    };
    expect(checkConfig(`\uFEFF${JSON.stringify(value)}`, 'agentd.json')).toEqual({ value, warnings: [] });
  });

  test('with unknown keys are invalid; each is named with its line and the nearest known one', () => {
    const text =
      '{\n  "titel": "x",\n  "limits": {\n    "iterations": 3,\n    "iteratoins": 4\n  },\n  "zzzzzzzz": 1\n}';
    const lines = faultOf(text).split('\n');
    expect(lines.slice(0, -1).sort()).toEqual([
      'session.json, line 2, column 3: unknown key "titel"; did you mean "title"?',
      'session.json, line 5, column 5: unknown key "limits.iteratoins"; did you mean "iterations"?',
      expect.stringMatching(
        /^session.json, line 7, column 3: unknown key "zzzzzzzz"; known keys: \$schema, version, model, /,
      ),
    ]);
    expect(lines.at(-1)).toBe(
      'Correct or remove unknown keys. Keys for your own notes begin with "x-" or "$" and are ignored.',
    );
  });

  test.each([
    ['deny', 'permissions'],
    ['perms', 'permissions'],
    ['tools', 'permissions'],
    ['disallowed_tools', 'permissions'],
    ['disallowedTools', 'permissions'],
    ['allowed-senders', 'senders'],
    ['approval_mode', 'approvals'],
    ['sandboxMode', 'sandbox'],
    ['mcp_servers', 'mcpServers'],
  ])('a key that other programs use, %s, is answered with ours: %s', (key, ours) => {
    expect(faultOf(JSON.stringify({ [key]: ['shell'] }))).toContain(`unknown key "${key}"; did you mean "${ours}"?`);
  });

  test('with a repeated key are invalid, and both places are named', () => {
    expect(faultOf('{\n  "permissions": [{ "deny": "shell" }],\n  "permissions": []\n}')).toBe(
      'session.json, line 3, column 3: the key "permissions" is already in line 2, column 3\nA key may appear only once: merge the two, or remove one.',
    );
    expect(faultOf('{ "model": { "name": "a", "name": "b" } }')).toContain('the key "model.name" is already in line 1');
    expect(faultOf('{ "permissions": [{ "deny": "shell", "d\\u0065ny": "jobs" }] }')).toContain('"permissions.0.deny"');
    expect(faultOf('{ "mcpServers": { "a": { "command": "x", "env": { "K": "1", "K": "2" } } } }')).toContain(
      '.env.K"',
    );
    expect(faultOf('{ "x-note": 1, "x-note": 2 }')).toContain('"x-note" is already');
    expect(faultOf(`{ ${'"a": 1, '.repeat(1000)} "a": 1 }`).split('\n')).toHaveLength(11);
  });

  test('may have the same key in different objects', () => {
    const text = '{ "model": { "name": "a" }, "agents": { "name": { "model": "a" }, "b": { "model": "a" } } }';
    expect(checkSettings(text, 'session.json').warnings).toEqual([]);
  });

  test('may have keys for notes wherever keys have fixed names, and nothing is reported about them', () => {
    const permissions = [{ deny: 'shell' }];
    const text = JSON.stringify({
      'x-why': 'the audit wants it',
      $comment: ['a', 1],
      permissions: permissions.map((rule) => ({ ...rule, 'x-why': 'since March' })),
      limits: { iterations: 3, $note: null },
      mcpServers: { a: { command: 'x', 'x-owner': 'me' } },
      model: { 'x-a': { name: 'other' } },
    });
    expect(checkSettings(text, 'session.json')).toEqual({
      value: { permissions, limits: { iterations: 3 }, mcpServers: { a: { command: 'x' } }, model: {} },
      warnings: [],
    });
  });

  test('keep the keys people choose, such as the name of a header, also where they look like notes', () => {
    const mcpServers = { a: { url: 'http://127.0.0.1/', headers: { 'x-api-key': 'k' } } };
    expect(checkConfig(JSON.stringify({ mcpServers }), 'agentd.json').value).toEqual({ mcpServers });
  });

  test('nested without end are invalid, and the file is named', () => {
    expect(faultOf(`{"x-a": ${'['.repeat(5000)}${']'.repeat(5000)}}`)).toMatch(
      /^session.json, line 1, column \d+: expected at most/,
    );
  });

  test.each([
    [
      '{\n  "mode": "linear",\n}',
      'agentd.json is not JSON: line 3, column 1: expected a key in double quotes, got "}".',
    ],
    ['', 'agentd.json is not JSON: line 1, column 1: expected a value, got the end of the file.'],
    ['{"a": "输出\n"}', 'line 1, column 10: expected no line break or control character inside a string, got "\\n"'],
    [
      '{\n "limits": {\n  "iterations": "many" } }',
      'agentd.json, line 3, column 3: limits.iterations: expected number, got "many"',
    ],
    [
      '{\n "limits": { "iterations": 0 } }',
      'agentd.json, line 2, column 14: limits.iterations: expected number to be >=1, got 0',
    ],
    ['{ "mode": "fast" }', 'agentd.json, line 1, column 3: mode: expected '],
    [
      '{\n "model": { "prices": { "input": 1 } } }',
      'agentd.json, line 2, column 13: model.prices.output: expected number',
    ],
    ['{ "on_limit": "stop" }', 'on_limit: expected one of "pause"|"extend", got "stop"'],
    ['[]', 'agentd.json: expected object, got []'],
  ])('%j cannot be used, and the error says why and where', (text, why) => {
    expect(() => checkConfig(text, 'agentd.json')).toThrow(why);
  });

  test('with a wrong and an unknown key name both', () => {
    expect(() => checkConfig('{"mod": 1, "limits": 5}', 'agentd.json')).toThrow('unknown key "mod"');
    expect(() => checkConfig('{"mod": 1, "limits": 5}', 'agentd.json')).toThrow('limits: expected object, got 5');
  });

  test.each(['__proto__', 'constructor', 'toString'])('with %s as a key do not hold', (key) => {
    expect(() => checkConfig(`{"${key}": {"mode": "linear"}}`, 'agentd.json')).toThrow(`unknown key "${key}"`);
  });
});

describe('places in JSON', () => {
  test('a fault is found exactly where JSON.parse finds one', () => {
    const edit = fc.record({
      at: fc.nat(),
      cut: fc.nat({ max: 3 }),
      put: fc.constantFrom('', ',', '}', ']', '"', '\\', '0', '-', 'tru', '\n', ':'),
    });
    fc.assert(
      fc.property(fc.json({ depthSize: 'small' }), fc.option(edit), (json, change) => {
        const where = change ? change.at % (json.length + 1) : 0;
        const text = change ? json.slice(0, where) + change.put + json.slice(where + change.cut) : json;
        let isJson = true;
        try {
          JSON.parse(text);
        } catch {
          isJson = false;
        }
        expect(findJsonSyntaxError(text) === undefined).toBe(isJson);
      }),
      { numRuns: 2000 },
    );
  });

  test('columns count characters, not code units', () => {
    expect(findJsonSyntaxError('["😀" 1]')).toMatchObject({ line: 1, column: 6 });
  });

  test('of a repeated key the last one counts', () => {
    expect(positionOfJsonPath('{"a": 1,\n "a": {"b": [1,\n 2]}}', ['a'])).toEqual({ line: 2, column: 2 });
    expect(positionOfJsonPath('{"a": 1,\n "a": {"b": [1,\n 2]}}', ['a', 'b', 1])).toEqual({ line: 3, column: 2 });
    expect(positionOfJsonPath('{}', ['a'])).toBeUndefined();
  });

  test('nesting without end does not end the daemon', () => {
    expect(findJsonSyntaxError('['.repeat(100_000))).toMatchObject({
      column: 1001,
      expected: 'at most 1000 levels of nesting',
    });
  });
});

test('private places are the workspace’s to name', () => {
  expect(Settings.safeParse({ network: { allow_private: ['::1'] } }).success).toBe(false);
});

describe('names in settings', () => {
  const fault = (settings: unknown) => () => checkSettings(JSON.stringify(settings, null, 1), 'session.json');

  test.each([
    [
      { agents: { reader: { tools: ['read_flie'] } } },
      'agents.reader.tools.0: there is no tool "read_flie"; did you mean "read_file"?',
    ],
    [
      { agents: { reader: { tools: ['shell', 'Bash'] } } },
      'line 6, column 5: agents.reader.tools.1: there is no tool "Bash"; did you mean "shell"?',
    ],
    [{ permissions: [{ deny: 'Bash(rm *)' }] }, 'permissions.0.deny: there is no tool "Bash"; did you mean "shell"?'],
    [{ permissions: [{ deny: 'Zzzzzzzzzzzz' }] }, 'known tools: shell, jobs'],
    [{ permissions: [{ deny: 'writ_*' }] }, 'there is no tool "writ_*"; known tools: shell'],
    [{ permissions: [{ deny: 'web_fetch(example.com)' }] }, '"web_fetch(example.com)" can never match'],
    [{ permissions: [{ allow: 'browser(example.com/*)' }] }, 'write one such as browser(https://example.com/*)'],
    [{ permisions: [{ deny: 'shell' }] }, 'unknown key "permisions"; did you mean "permissions"?'],
    [{ sandbx: 'bwrap' }, 'unknown key "sandbx"; did you mean "sandbox"?'],
    [{ agents: { a: { tool: ['shell'] } } }, 'unknown key "agents.a.tool"; did you mean "tools"?'],
    [{ model: { base_ulr: 'http://127.0.0.1:1/v1' } }, 'unknown key "model.base_ulr"'],
  ])('that can mean nothing are errors: %j', (settings, words) => {
    expect(fault(settings)).toThrow(words);
  });

  test.each([
    [
      {
        permissions: [
          { deny: '*' },
          { ask: 'shell' },
          { allow: 'shell(git *)' },
          { deny: '*(secret/*)' },
          { ask: 'spawn' },
        ],
      },
    ],
    [
      {
        permissions: [
          { allow: 'mcp__mail__*' },
          { deny: 'mcp__*' },
          { deny: 'm*' },
          { ask: '*_file' },
          { deny: 'web_*' },
        ],
      },
    ],
    [
      {
        permissions: [
          { deny: 'web_fetch(https://example.com/*)' },
          { deny: 'web_fetch(*example.com/*)' },
          { deny: 'web_fetch(h*)' },
        ],
      },
    ],
    [
      {
        permissions: [
          { deny: 'browser({"action":"type"*)' },
          { deny: 'web_fetch(HTTPS://a/*)' },
          { allow: 'web_fetch' },
        ],
      },
    ],
    [{ agents: { a: { tools: ['shell', 'plan', 'ask_user', 'spawn', 'mcp__mail__send'] } } }],
  ])('that can be meant are none: %j', (settings) => {
    expect(fault(settings)).not.toThrow();
  });

  test('of tools of MCP servers that are not configured are reported, since they may still come', () => {
    const naming = { agents: { a: { tools: ['mcp__mail__send'] } }, permissions: [{ deny: 'mcp__files__*' }] };
    expect(findUnknownMcpServers(naming, { files: { command: 'x' } })).toEqual([
      'agents.a.tools: "mcp__mail__send" names a tool of an MCP server that is not configured; configured are files',
    ]);
    expect(findUnknownMcpServers(naming, {})).toHaveLength(2);
    expect(findUnknownMcpServers({ permissions: [{ deny: 'mcp__*' }] }, { files: { command: 'x' } })).toEqual([]);
  });
});

describe('a key that was pasted where its name is wanted', () => {
  const KEYS = [
    'sk-proj-4fQ8hT2mZx71LkPqVb',
    'gsk_Ab3dEf6hIj9kLm2nOpQrStUv',
    'AIzaSyD4x8Qm2Zk7Lp0Vb3Rt6Wn1',
    '9f86d081884c7d659a2feaa0c55ad015',
    'a9f86d081884c7d659a2feaa0c55ad01',
    'BSAabcdefghijklmnopqrstuvwxyz',
  ];

  test.each(
    KEYS.flatMap((key) => [
      [{ model: { api_key_env: key } }],
      [{ model: { api_key_env: [key] } }],
      [{ search: { engine: 'brave', api_key_env: key } }],
      [{ secrets: [key] }],
      [{ secrets: key }],
      [{ model: key }],
      [{ mode: key }],
      [{ mcpServers: { a: { command: 'x', env: { [key]: 1 }, headers: key } } }],
    ]),
  )('stands in no complaint, whether it could be a name or not: %j', (settings) => {
    let output = '';
    try {
      output = checkConfig(JSON.stringify(settings), 'agentd.json').warnings.join('\n');
    } catch (error) {
      output = String(error);
    }
    for (const key of KEYS) expect(output).not.toContain(key.slice(3));
  });

  test.each(['OPENAI_API_KEY', 'OPENROUTER_API_KEY_2', 'my_key', 'MyKey', '_K', 'LLM1_KEY'])('is not %s', (name) => {
    expect(checkSettings(JSON.stringify({ model: { api_key_env: name } }), 'session.json').warnings).toEqual([]);
  });

  test.each([{ secrets: 'hunter2' }, { secrets: [{ value: 'hunter2' }] }, { model: { api_key_env: ['hunter2'] } }])(
    'is not repeated where it is short, either: %j',
    (settings) => {
      expect(() => checkSettings(JSON.stringify(settings), 'session.json')).toThrow('is not shown');
      expect(() => checkSettings(JSON.stringify(settings), 'session.json')).not.toThrow('hunter2');
    },
  );

  test('is not repeated where it is given as a flag', () => {
    for (const key of KEYS.filter((one) => !/^\w+$/.test(one) || /^\d/.test(one))) {
      expect(() => modelSettingsFromFlags({ apiKeyEnv: key })).toThrow(
        /--api-key-env: expected the name of an environment variable/,
      );
      expect(() => modelSettingsFromFlags({ apiKeyEnv: key })).not.toThrow(key);
    }
  });

  test.each(['q7w8e9r0t1y2', 'correcthorsebattery', 'gsk_Ab3dEf6hIj9kLm2nOpQrStUv', 'Azure_Key2'])(
    'is taken for a name where it could be one: %s',
    (name) => {
      expect(checkSettings(JSON.stringify({ model: { api_key_env: name } }), 'session.json').warnings).toEqual([]);
    },
  );
});

/** The paths of all keys whose values are numbers. */
function numbersIn(schema: unknown, path: string[] = []): string[] {
  if (schema instanceof z.ZodOptional || schema instanceof z.ZodNullable) return numbersIn(schema.unwrap(), path);
  if (schema instanceof z.ZodObject)
    return Object.entries(schema.shape).flatMap(([key, inner]) => numbersIn(inner, [...path, key]));
  return schema instanceof z.ZodNumber ? [path.join('.')] : [];
}

test.each([...new Set([...numbersIn(Config), ...numbersIn(Settings)])])('%s has a bound, and says it', (path) => {
  const nested = (value: number) => path.split('.').reduceRight<unknown>((inner, key) => ({ [key]: inner }), value);
  for (const value of [1e13, 1e300]) {
    expect(() => checkConfig(JSON.stringify(nested(value)), 'agentd.json')).toThrow(
      new RegExp(`line 1, column \\d+: ${path}: expected .*(at most|<=|int)`),
    );
  }
});

test('limits in the event log have the same bounds', () => {
  expect(resolveLimits({ approval_minutes: 1e12, tokens: null, iterations: 3 })).toMatchObject({
    approval_minutes: 527_040,
    tokens: null,
    iterations: 3,
  });
});

test.each(['papers', './papers', '', '~ann/papers'])(
  'read_also wants absolute folders, or ones in the home: not %j',
  (folder) => {
    expect(() => checkSettings(JSON.stringify({ read_also: [folder] }), 'session.json')).toThrow(
      /line 1, column \d+: read_also\.0: expected an absolute folder, such as \/srv\/papers or ~\/papers/,
    );
    expect(checkSettings('{ "read_also": ["~/papers", "/srv"] }', 'session.json').warnings).toEqual([]);
  },
);
