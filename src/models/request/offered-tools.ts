import { isRecord } from '../../base/collections.ts';
import type { ChatMessage } from '../../engine/ports/session-ports.ts';
import type { ToolSpec } from '../../engine/ports/tool-ports.ts';
import type { RequestStyle } from './request-style.ts';
import { flatMessage } from './wire-messages.ts';

/**
 * How much of JSON Schema the tools of a request use: `plain` leaves out what Gemini or the grammars of llama.cpp
 * refuse, `reduced` everything but types, names and descriptions. The tools check their arguments themselves.
 */
export type SchemaStyle = RequestStyle['schemas'];

type Schema = Record<string, unknown>;

/**
 * The tools of a request as they are written: those with a line of their own are offered together by `more_tools`, so
 * that a request is short, and the same in a whole run.
 */
export function writtenTools(tools: readonly ToolSpec[], style: SchemaStyle): Buffer[] {
  return tools.filter(({ line }) => line === undefined).map((tool) => toolBytes(tool, style));
}

const toolBytesCache = new WeakMap<ToolSpec, Partial<Record<SchemaStyle, Buffer>>>();

/** A tool as it is sent. Cached, since the same tool objects are sent with every call. */
export function toolBytes(spec: ToolSpec, style: SchemaStyle): Buffer {
  const known = toolBytesCache.get(spec) ?? {};
  toolBytesCache.set(spec, known);
  const bytes = known[style] ?? Buffer.from(JSON.stringify({ type: 'function', function: writtenTool(spec, style) }));
  known[style] = bytes;
  return bytes;
}

function writtenTool({ name, description, parameters }: ToolSpec, style: SchemaStyle) {
  const plain = plainSchema(parameters);
  if (style === 'plain') return { name, description, parameters: plain };
  const reduced = reducedSchema(plain, plain);
  const hasNone = Object.keys(toSchema(reduced['properties']) ?? {}).length === 0;
  // Gemini refuses an object without properties.
  return { name, description, ...(!hasNone && { parameters: reduced }) };
}

/** Keywords that no model needs and that some endpoints refuse. */
const NEEDLESS = '$schema $id $comment format examples title propertyNames'.split(' ');
/** The tools say what is too long or too many; as part of a grammar these are the most expensive. */
const LENGTHS = ['minLength', 'maxLength', 'minItems', 'maxItems'];
const BOUNDS = ['minimum', 'maximum'] as const;
/** Grammars of llama.cpp repeat a rule as often as a bound says. */
const MAX_BOUND = 999;

/** The schema with one type for each value and with small bounds only. */
export function plainSchema(schema: Schema): Schema {
  const { exclusiveMinimum, exclusiveMaximum, ...rest } = schema;
  const entries = Object.entries(rest).flatMap(([key, value]): Array<[string, unknown]> => {
    if (NEEDLESS.includes(key) || LENGTHS.includes(key) || (key === 'additionalProperties' && !isFilled(value)))
      return [];
    if (isBound(key)) return typeof value === 'number' && Math.abs(value) <= MAX_BOUND ? [[key, value]] : [];
    if (key === 'const') return [['enum', [value]]];
    if (SCHEMA_MAPS.has(key)) return [[key, mapValues(toSchema(value) ?? {}, plainSchema)]];
    if (key === 'items' || key === 'additionalProperties') return [[key, mapSchema(value, plainSchema)]];
    if (key === 'oneOf' || key === 'anyOf' || key === 'allOf') {
      const options = schemasIn(value).filter(({ type }) => type !== 'null');
      return [[key === 'allOf' ? key : 'anyOf', options.map(plainSchema)]];
    }
    return [[key, value]];
  });
  return withOneType(Object.fromEntries([...entries, ...wholeBounds(schema, { exclusiveMinimum, exclusiveMaximum })]));
}

const SCHEMA_MAPS: ReadonlySet<string> = new Set(['properties', '$defs', 'definitions', 'patternProperties']);
const isBound = (key: string): boolean => BOUNDS.some((bound) => bound === key);

/** For whole numbers an exclusive bound is an inclusive one beside it. */
function wholeBounds({ type }: Schema, { exclusiveMinimum, exclusiveMaximum }: Schema): Array<[string, number]> {
  const bounds = [
    ['minimum', exclusiveMinimum, 1],
    ['maximum', exclusiveMaximum, -1],
  ] as const;
  return bounds.flatMap(
    ([key, value, inward]): Array<[string, number]> =>
      type === 'integer' && typeof value === 'number' && Math.abs(value) < MAX_BOUND ? [[key, value + inward]] : [],
  );
}

/** A list of types becomes alternatives, and null none of them: an argument that may be null may be left out. */
function withOneType({ type, anyOf, ...rest }: Schema): Schema {
  const types = (Array.isArray(type) ? type : type === undefined ? [] : [type]).filter((one) => one !== 'null');
  const options = schemasIn(anyOf).filter((one) => one['type'] !== 'null');
  const [only] = options;
  if (options.length === 1 && only) return { ...only, ...rest };
  if (types.length > 1) return { anyOf: types.map((one) => ({ type: one })), ...rest };
  return { ...(types.length === 1 && { type: types[0] }), ...(options.length > 1 && { anyOf: options }), ...rest };
}

const MAX_DEPTH = 12;

/** Only what every endpoint knows: types, properties, items, lists of texts. References are followed. */
function reducedSchema(schema: Schema, root: Schema, depth = 0): Schema {
  if (depth > MAX_DEPTH) return { type: 'string' };
  const more = (one: Schema): Schema => reducedSchema(one, root, depth + 1);
  const { $ref, anyOf, allOf, type, description, items, required } = schema;
  const other = (typeof $ref === 'string' ? referredSchema($ref, root) : undefined) ?? schemasIn(anyOf)[0];
  if (other) return more({ ...other, ...(description !== undefined && { description }) });
  if (allOf !== undefined) return more(Object.assign({}, { ...schema, allOf: undefined }, ...schemasIn(allOf)));
  const properties = toSchema(schema['properties']);
  const choices = schema['enum'];
  const known = Object.keys(properties ?? {});
  return {
    type: typeof type === 'string' ? type : properties ? 'object' : items ? 'array' : 'string',
    ...(description !== undefined && { description }),
    ...(Array.isArray(choices) && choices.every((one) => typeof one === 'string') && { enum: choices }),
    ...(properties && { properties: mapValues(properties, more) }),
    ...(Array.isArray(required) && known.length > 0 && { required: required.filter((name) => known.includes(name)) }),
    ...((type === 'array' || items !== undefined) && { items: more(toSchema(items) ?? { type: 'string' }) }),
  };
}

function referredSchema(ref: string, root: Schema): Schema | undefined {
  const path = ref.replace(/^#\/?/, '').split('/');
  return toSchema(path.reduce<unknown>((here, key) => toSchema(here)?.[key], root));
}

const toSchema = (value: unknown): Schema | undefined => (isRecord(value) ? value : undefined);
const schemasIn = (list: unknown): Schema[] => (Array.isArray(list) ? list.filter(isRecord) : []);
const isFilled = (value: unknown): boolean => Object.keys(toSchema(value) ?? {}).length > 0;
const mapSchema = (value: unknown, change: (one: Schema) => Schema): unknown => {
  const one = toSchema(value);
  return one ? change(one) : value;
};

function mapValues(map: Schema, change: (one: Schema) => Schema): Schema {
  return Object.fromEntries(Object.entries(map).map(([key, value]) => [key, mapSchema(value, change)]));
}

const TEXT_TOOLS = `You have tools. To call one, end your answer with lines of this form, several in a row for several calls:
<tool_call>
{"name": "<name of the tool>", "arguments": {<its arguments as JSON>}}
</tool_call>
Write nothing after them: the results come in the next message. The tools, each with the JSON Schema of its arguments:`;

/** For models without tool calls of their own: the conversation in words, and the tools in its system message. */
export function withToolsInText(messages: readonly ChatMessage[], tools: readonly ToolSpec[]): readonly ChatMessage[] {
  const flat = messages.map(flatMessage);
  if (tools.length === 0) return flat;
  const lines = tools
    .filter(({ line }) => line === undefined)
    .map((tool) => `- ${tool.name}: ${tool.description} ${JSON.stringify(plainSchema(tool.parameters))}`);
  const described = [TEXT_TOOLS, ...lines].join('\n');
  const [first, ...rest] = flat;
  const isSystem = first?.role === 'system';
  const content = isSystem ? `${first.content}\n\n${described}` : described;
  return [{ role: 'system', content }, ...(isSystem ? rest : flat)];
}
