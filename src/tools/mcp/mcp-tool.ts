import { createHash } from 'node:crypto';
import { z } from 'zod';
import { getOwn, isRecord } from '../../base/collections.ts';
import { truncate } from '../../base/strings.ts';
import type { ToolResult } from '../../engine/ports/tool-ports.ts';
import type { McpServer } from '../../protocol/settings/mcp-config.ts';
import { parseToolArgs } from '../../protocol/tool-calls/tool-args.ts';
import type { Tool } from '../common/define-tool.ts';
import { CallFault, type ListedTool, toSafeName, toToolResult } from './mcp-connection.ts';
import type { ManagedServer } from './mcp-server.ts';
import { answersReason, callWithAnswers } from './server-questions.ts';

/** Code points of a description; servers write them for context windows of all sizes. */
const MAX_DESCRIPTION_CHARS = 2000;

/** A server's tool as one of ours, or why it cannot be offered. */
export function toMcpTool(listed: ListedTool, name: string, { server, settings, of }: ToolOrigin): Tool | string {
  const parameters = toToolParameters(listed.inputSchema);
  if (!parameters) return 'its arguments are not an object';
  const args = argumentSchema(parameters);
  const description = truncate(stripControlChars(listed.description ?? ''), MAX_DESCRIPTION_CHARS);
  return {
    spec: { name, description: description || `The tool ${stripControlChars(listed.name)} of ${of}.`, parameters },
    replay: isReplaySafe(listed, settings) ? 'safe' : 'never',
    describeCall(text) {
      const values = withoutNulls(parseToolArgs(name, args, text), parameters);
      return {
        tool: name,
        text,
        kind: 'text',
        display: `${name} ${text}`,
        always: name,
        touches: ['outside'],
        askReason: server.askReason ?? answersReason(listed.name, values, server.questions),
      };
    },
    async call(text, context) {
      const values = withoutNulls(parseToolArgs(name, args, text), parameters);
      const caller = { work: async () => context.work, signal: context.signal };
      try {
        const call = { tool: listed, args: values, of };
        const result = await callWithAnswers(call, server.questions, (one) => server.call(one, caller));
        return 'content' in result ? await toToolResult(result, name, context.work) : result;
      } catch (error) {
        if (error instanceof CallFault) return callFaultResult(error, of);
        throw error;
      }
    },
  };
}

export type ToolOrigin = { server: ManagedServer; settings: McpServer; of: string };

/**
 * Hints come from the server, and a wrong one would repeat an action after a crash, so they count only if a person
 * trusts the server (`trust_hints`).
 */
function isReplaySafe({ annotations }: ListedTool, { trust_hints }: McpServer): boolean {
  return trust_hints === true && (annotations?.readOnlyHint === true || annotations?.idempotentHint === true);
}

/**
 * Checks only that the arguments are an object with the required keys: the server validates the rest against the full
 * schema.
 */
function argumentSchema(parameters: Record<string, unknown>): z.ZodObject {
  const { keys, required } = argumentKeys(parameters);
  const present = z.unknown().refine((value) => value !== undefined, 'it is missing');
  return z.looseObject(
    Object.fromEntries(keys.map((key) => [key, required.includes(key) ? present : z.unknown().optional()])),
  );
}

/**
 * The arguments without optional ones that are null and must not be: some endpoints make the model fill in every key,
 * and servers refuse those.
 */
function withoutNulls(values: JsonObject, { properties, required }: JsonObject): JsonObject {
  const isLeftOut = (key: string) =>
    !(Array.isArray(required) && required.includes(key)) &&
    isRecord(properties) &&
    refusesNull(getOwn(properties, key));
  return Object.fromEntries(Object.entries(values).filter(([key, value]) => value !== null || !isLeftOut(key)));
}

/** Whether a schema surely does not accept null. */
function refusesNull(schema: unknown): boolean {
  if (!isRecord(schema) || schema['nullable'] === true) return false;
  const { type, enum: values, anyOf, oneOf } = schema;
  if (Array.isArray(values)) return !values.includes(null);
  if (type !== undefined) return ![type].flat().includes('null');
  const choices = anyOf ?? oneOf;
  return Array.isArray(choices) && choices.every(refusesNull);
}

function callFaultResult({ ran, message }: CallFault, of: string): ToolResult {
  const text = message.replace(/\.$/, '');
  switch (ran) {
    case 'refused':
      return { ok: false, text: `${of} refused the call: ${text}.` };
    case 'no':
      return { ok: false, text: `${of} was not reached, the call did not run: ${text}.` };
    case 'maybe':
      return {
        ok: false,
        text: `${of} did not answer: ${text}. The call may or may not have run; check before you repeat it.`,
      };
    default:
      return ran satisfies never;
  }
}

/** Removes control characters. */
const stripControlChars = (text: string) =>
  text.replace(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200b-\u200f\u202a-\u202e\u2066-\u2069]/g, '');

/** Endpoints accept tool names that match `^[a-zA-Z0-9_-]{1,64}$`. */
const MAX_NAME_CHARS = 64;
const MARK_CHARS = 12;
const PLAIN_SERVER = /^[a-zA-Z0-9-]+(?:_[a-zA-Z0-9-]+)*$/;
const PLAIN_TOOL = /^[a-zA-Z0-9_-]+$/;
const MARKED_NAME = new RegExp(`_[0-9a-f]{${MARK_CHARS}}$`);

/**
 * The name the model knows a server's tool by: `mcp__<server>__<tool>`. Names are unique: if a part has other
 * characters, is too long or is ambiguous, the name ends in a hash of both. No plain name ends like a hash.
 */
export function mcpToolName(server: string, tool: string): string {
  const plain = `mcp__${server}__${tool}`;
  const isPlain =
    PLAIN_SERVER.test(server) && PLAIN_TOOL.test(tool) && plain.length <= MAX_NAME_CHARS && !MARKED_NAME.test(plain);
  if (isPlain) return plain;
  const mark = createHash('sha256')
    .update(JSON.stringify([server, tool]))
    .digest('hex')
    .slice(0, MARK_CHARS);
  const readable = `mcp__${toSafeName(server, 20)}__${toSafeName(tool, MAX_NAME_CHARS)}`;
  return `${readable.slice(0, MAX_NAME_CHARS - MARK_CHARS - 1)}_${mark}`;
}

/** A JSON object. */
export type JsonObject = Record<string, unknown>;

const MAX_DEPTH = 24;
const MAX_NODES = 4000;
/** Size limit of a schema as JSON, in characters; a longer one would crowd out the conversation. */
const MAX_SCHEMA_CHARS = 12_000;
/** Endpoints reject these at the top of a tool's parameters; the server still checks them. */
const TOP_LEVEL_REFUSED = new Set(['oneOf', 'anyOf', 'allOf', 'enum', 'not', 'const', 'if', 'then', 'else', 'type']);
const DROPPED_KEYS = new Set(['$schema', '$id', '$anchor', '$defs', 'definitions', '$comment']);

/**
 * The schema of a tool's arguments as endpoints accept it: an object, local `$ref`s inlined, nothing fetched.
 * Recursive, deeply nested or external parts accept anything; a schema that is too large leaves the arguments open.
 * Undefined if it does not describe an object.
 */
function toToolParameters(schema: unknown): JsonObject | undefined {
  if (schema === undefined || schema === null) return { type: 'object', properties: {} };
  if (!isRecord(schema)) return undefined;
  const top = resolveTopRef(schema, schema);
  if (top['type'] !== undefined && top['type'] !== 'object') return undefined;
  const written = inlineRefs(top, schema);
  const kept = written && Object.fromEntries(Object.entries(written).filter(([key]) => !TOP_LEVEL_REFUSED.has(key)));
  if (!kept || JSON.stringify(kept).length > MAX_SCHEMA_CHARS)
    return { type: 'object', properties: {}, additionalProperties: true };
  const { properties, required, ...rest } = kept;
  return {
    type: 'object',
    properties: isRecord(properties) ? properties : {},
    ...(Array.isArray(required) && { required: required.filter((key) => typeof key === 'string') }),
    ...rest,
  };
}

/** The names of the arguments, and the required ones. */
function argumentKeys({ properties, required }: JsonObject): { keys: string[]; required: string[] } {
  const wanted = Array.isArray(required) ? required.filter((key) => typeof key === 'string') : [];
  const named = isRecord(properties) ? Object.keys(properties) : [];
  return { keys: [...new Set([...named, ...wanted])].filter((key) => key !== '__proto__'), required: wanted };
}

function resolveTopRef(schema: JsonObject, root: JsonObject): JsonObject {
  const target = typeof schema['$ref'] === 'string' ? refTarget(schema['$ref'], root) : undefined;
  const { $ref, ...beside } = schema;
  return isRecord(target) ? { ...target, ...beside } : schema;
}

/** Undefined if it has too many parts. */
function inlineRefs(top: JsonObject, root: JsonObject): JsonObject | undefined {
  let left = MAX_NODES;
  // Below `properties` the keys are argument names, not schema keywords.
  const visit = (value: unknown, depth: number, within: string[], isNames = false): unknown => {
    if (--left < 0) return {};
    if (depth > MAX_DEPTH) return isRecord(value) ? {} : undefined;
    if (Array.isArray(value)) return value.map((one) => visit(one, depth + 1, within));
    if (!isRecord(value)) return value;
    const ref = value['$ref'];
    if (typeof ref === 'string' && !isNames) {
      const target = within.includes(ref) ? undefined : refTarget(ref, root);
      const { $ref, ...beside } = value;
      return visit(isRecord(target) ? { ...target, ...beside } : beside, depth + 1, [...within, ref]);
    }
    const entries = Object.entries(value).filter(([key]) => (isNames || !DROPPED_KEYS.has(key)) && key !== '__proto__');
    return Object.fromEntries(
      entries.map(([key, inner]) => [key, visit(inner, depth + 1, within, !isNames && key === 'properties')]),
    );
  };
  const written = visit(top, 0, []);
  return left >= 0 && isRecord(written) ? written : undefined;
}

/** The target of a pointer into the schema itself (`#/$defs/a`). */
function refTarget(ref: string, root: JsonObject): unknown {
  if (ref === '#') return root;
  if (!ref.startsWith('#/')) return undefined;
  const path = ref
    .slice(2)
    .split('/')
    .map((part) => part.replaceAll('~1', '/').replaceAll('~0', '~'));
  return path.reduce<unknown>(
    (here, key) => (isRecord(here) && Object.hasOwn(here, key) ? here[key] : undefined),
    root,
  );
}
