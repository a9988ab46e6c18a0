import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { Settings } from '../../src/protocol/config.ts';
import { jsonFault, placeOf } from '../../src/protocol/json-position.ts';
import { checkConfig, checkSettings } from '../../src/store/index.ts';

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

  test('with unknown keys hold without them, and name the nearest known one and the line', () => {
    const text =
      '{\n  "titel": "x",\n  "limits": {\n    "iterations": 3,\n    "iteratoins": 4\n  },\n  "zzzzzzzz": 1\n}';
    const { value, warnings } = checkSettings(text, 'session.json');
    expect(value).toEqual({ limits: { iterations: 3 } });
    expect(warnings.sort()).toEqual([
      'session.json, line 2, column 3: unknown key "titel"; the nearest known one is "title"',
      'session.json, line 5, column 5: unknown key "limits.iteratoins"; the nearest known one is "iterations"',
      expect.stringMatching(
        /^session.json, line 7, column 3: unknown key "zzzzzzzz"; known are \$schema, version, model, /,
      ),
    ]);
  });

  test.each([
    [
      '{\n  "mode": "linear",\n}',
      'agentd.json is not JSON: line 3, column 1: wanted a key in double quotes, came "}".',
    ],
    ['', 'agentd.json is not JSON: line 1, column 1: wanted a value, came the end of the file.'],
    ['{"a": "输出\n"}', 'line 1, column 10: wanted no line break or control character inside a string, came "\\n"'],
    [
      '{\n "limits": {\n  "iterations": "many" } }',
      'agentd.json, line 3, column 3: limits.iterations: wanted number, came "many"',
    ],
    [
      '{\n "limits": { "iterations": 0 } }',
      'agentd.json, line 2, column 14: limits.iterations: wanted number to be >=1, came 0',
    ],
    ['{ "mode": "fast" }', 'agentd.json, line 1, column 3: mode: wanted '],
    [
      '{\n "model": { "prices": { "input": 1 } } }',
      'agentd.json, line 2, column 13: model.prices.output: wanted number',
    ],
    ['{ "on_limit": "stop" }', 'on_limit: wanted one of "pause"|"extend", came "stop"'],
    ['[]', 'agentd.json: wanted object, came []'],
  ])('%j cannot be used, and the error says why and where', (text, why) => {
    expect(() => checkConfig(text, 'agentd.json')).toThrow(why);
  });

  test('with a wrong and an unknown key name the wrong one as the error', () => {
    expect(() => checkConfig('{"mod": 1, "limits": 5}', 'agentd.json')).toThrow('limits: wanted object, came 5');
  });

  test('with __proto__ and the like as keys do no harm', () => {
    const { value } = checkConfig('{"__proto__": {"mode": "linear"}, "constructor": 1}', 'agentd.json');
    expect(value).toEqual({});
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
        expect(jsonFault(text) === undefined).toBe(isJson);
      }),
      { numRuns: 2000 },
    );
  });

  test('columns count characters, not code units', () => {
    expect(jsonFault('["😀" 1]')).toMatchObject({ line: 1, column: 6 });
  });

  test('of a key that is there twice the last one is meant', () => {
    expect(placeOf('{"a": 1,\n "a": {"b": [1,\n 2]}}', ['a'])).toEqual({ line: 2, column: 2 });
    expect(placeOf('{"a": 1,\n "a": {"b": [1,\n 2]}}', ['a', 'b', 1])).toEqual({ line: 3, column: 2 });
    expect(placeOf('{}', ['a'])).toBeUndefined();
  });

  test('nesting without end does not end the daemon', () => {
    expect(jsonFault('['.repeat(100_000))).toMatchObject({ column: 1001, wanted: 'at most 1000 levels of nesting' });
  });
});

test('private places are the workspace’s to name', () => {
  expect(Settings.safeParse({ network: { allow_private: ['::1'] } }).success).toBe(false);
});
