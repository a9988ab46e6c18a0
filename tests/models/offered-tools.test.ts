import { expect, test } from 'vitest';
import { openEndpointModel } from '../../src/models/endpoint/openai-endpoint.ts';
import { toolBytes } from '../../src/models/request/offered-tools.ts';
import { ASK_USER_TOOL, PLAN_TOOL, SPAWN_TOOL } from '../../src/protocol/tool-calls/own-tools.ts';
import { builtinTools } from '../../src/tools/index.ts';
import { modelServer } from '../support/temporary.ts';
import { ask, tool, user } from './ask.ts';

const OWN = [PLAN_TOOL, ASK_USER_TOOL, SPAWN_TOOL, ...builtinTools({ readAlso: [], env: {} }).map(({ spec }) => spec)];
const written = (parameters: Record<string, unknown>, style: 'plain' | 'reduced') =>
  JSON.parse(toolBytes({ name: 't', description: 'd', parameters }, style).toString()).function.parameters;

/** All keywords of a schema with their values; names of properties are none. */
function keywords(schema: unknown, isMap = false): Array<[string, unknown]> {
  if (typeof schema !== 'object' || schema === null) return [];
  if (Array.isArray(schema)) return schema.flatMap((one) => keywords(one));
  return Object.entries(schema).flatMap(([key, value]) => [
    ...(isMap ? [] : [[key, value] satisfies [string, unknown]]),
    ...keywords(value, !isMap && (key === 'properties' || key === '$defs')),
  ]);
}

test('the schemas of our own tools have nothing that Gemini or the grammars of llama.cpp refuse', () => {
  const found = OWN.flatMap((spec) => keywords(JSON.parse(toolBytes(spec, 'plain').toString()).function.parameters));
  expect(found.length).toBeGreaterThan(100);
  const refused = [
    '$schema',
    'format',
    'exclusiveMinimum',
    'exclusiveMaximum',
    'additionalProperties',
    'const',
    'oneOf',
  ];
  expect(found.filter(([key]) => refused.includes(key))).toEqual([]);
  expect(found.filter(([key, value]) => key === 'type' && typeof value !== 'string')).toEqual([]);
  expect(found.filter(([key, value]) => /^m(?:in|ax)/.test(key) && Math.abs(Number(value)) > 999)).toEqual([]);
});

test('a schema of an MCP server keeps its meaning in plain words', () => {
  const schema = {
    $schema: 'http://json-schema.org/draft-07/schema#',
    type: 'object',
    properties: {
      format: { type: ['string', 'null'], format: 'uri', maxLength: 10_000, description: 'An address' },
      count: { type: 'integer', exclusiveMinimum: 0, maximum: 9_007_199_254_740_991 },
      either: { type: ['string', 'number'] },
      maybe: { anyOf: [{ type: 'string', enum: ['a'] }, { type: 'null' }], description: 'Perhaps' },
      fixed: { const: 'x' },
      list: { type: 'array', maxItems: 5, items: { oneOf: [{ type: 'string' }, { type: 'object', properties: {} }] } },
    },
    required: ['format'],
    additionalProperties: false,
  };
  expect(written(schema, 'plain')).toEqual({
    type: 'object',
    properties: {
      format: { type: 'string', description: 'An address' },
      count: { type: 'integer', minimum: 1 },
      either: { anyOf: [{ type: 'string' }, { type: 'number' }] },
      maybe: { type: 'string', enum: ['a'], description: 'Perhaps' },
      fixed: { enum: ['x'] },
      list: { type: 'array', items: { anyOf: [{ type: 'string' }, { type: 'object', properties: {} }] } },
    },
    required: ['format'],
  });
});

test('a reduced schema has types, names and descriptions only, and follows references', () => {
  const schema = {
    type: 'object',
    $defs: { place: { type: 'object', properties: { x: { type: 'number', minimum: 0 } }, required: ['x', 'gone'] } },
    properties: {
      at: { $ref: '#/$defs/place', description: 'Where' },
      either: { anyOf: [{ type: 'string' }, { type: 'number' }], default: 'a' },
      count: { type: 'integer', enum: [1, 2] },
    },
  };
  expect(written(schema, 'reduced')).toEqual({
    type: 'object',
    properties: {
      at: { type: 'object', description: 'Where', properties: { x: { type: 'number' } }, required: ['x'] },
      either: { type: 'string' },
      count: { type: 'integer' },
    },
  });
  const circle = { type: 'object', $defs: { a: { $ref: '#/$defs/a' } }, properties: { a: { $ref: '#/$defs/a' } } };
  expect(written(circle, 'reduced')).toMatchObject({ properties: { a: { type: 'string' } } });
  expect(written({ type: 'object', properties: {} }, 'reduced')).toBeUndefined();
});

test.each([
  '* GenerateContentRequest.tools[0].function_declarations[0].format: only enum and date-time are supported',
  'Failed to initialize samplers: failed to parse grammar',
  'Invalid JSON payload received. Unknown name "anyOf" at tools[0]',
])('an endpoint that refuses a schema (%s) gets reduced ones from then on', async (message) => {
  const parameters = { type: 'object', properties: { a: { anyOf: [{ type: 'string' }, { type: 'number' }] } } };
  const server = await modelServer((seen) =>
    JSON.stringify(seen.body.tools).includes('anyOf')
      ? { status: 400, body: [{ error: { message } }] }
      : { text: 'ok' },
  );
  const model = openEndpointModel({ baseUrl: server.url, apiKey: undefined, name: 'm', timeoutMs: 5000 });
  const tools = [{ name: 't', description: 'd', parameters }];
  expect((await ask(model, 'go', { tools })).text).toBe('ok');
  expect((await ask(model, [user('go'), tool('a', 'b')], { tools })).text).toBe('ok');
  expect(server.requests).toHaveLength(3);
});
