import { getOwn, isRecord } from '../../base/collections.ts';
import { jsonEnd, parseJson } from '../../base/json.ts';
import type { ToolSpec } from '../../engine/ports/tool-ports.ts';
import { offeredToolName } from './call-drafts.ts';

/**
 * A call that a model wrote into its text: where it stands, and whether its arguments are complete and fit the tool.
 * `isMarked`: it is written in a syntax for calls, rather than in one that prose may have too.
 */
export type WrittenCall = { start: number; end: number; name: string; args: string; fits: boolean; isMarked: boolean };

/** What is needed of the tools on offer to recognize a call. */
export type CallReader = { names: ReadonlySet<string>; keysOf(tool: string): ToolKeys };
type ToolKeys = { known: ReadonlySet<string>; required: readonly string[]; types: Readonly<Record<string, unknown>> };

export function callReader(tools: readonly ToolSpec[]): CallReader {
  const keys = new Map(tools.map(({ name, parameters }) => [name, keysOfSchema(parameters)]));
  return { names: new Set(keys.keys()), keysOf: (tool) => keys.get(tool) ?? NO_KEYS };
}

const NO_KEYS: ToolKeys = { known: new Set(), required: [], types: {} };

function keysOfSchema({ properties, required }: Record<string, unknown>): ToolKeys {
  const entries = isRecord(properties) ? Object.entries(properties) : [];
  return {
    known: new Set(entries.map(([name]) => name)),
    required: Array.isArray(required) ? required.filter((name) => typeof name === 'string') : [],
    types: Object.fromEntries(entries.map(([name, schema]) => [name, isRecord(schema) ? schema['type'] : undefined])),
  };
}

/** All calls of offered tools in a text, in their order: as JSON, as tags with parameters, or as a function call. */
export function findWrittenCalls(text: string, reader: CallReader): WrittenCall[] {
  const found = [...taggedCalls(text, reader), ...jsonCalls(text, reader), ...functionCalls(text, reader)];
  const sorted = found.sort((a, b) => a.start - b.start || b.end - a.end);
  const apart: WrittenCall[] = [];
  for (const call of sorted) if (call.start >= (apart.at(-1)?.end ?? 0)) apart.push(call);
  return apart;
}

/** Bounds the work on a text with many brackets. */
const MAX_VALUES = 500;

/** Calls as JSON: `{"name": …, "arguments": {…}}` in its variants, or the arguments right after the tool's name. */
function* jsonCalls(text: string, reader: CallReader): Generator<WrittenCall> {
  let tries = 0;
  for (let at = nextBracket(text, 0); at >= 0 && tries < MAX_VALUES; tries++) {
    const end = jsonEnd(text, at);
    const value = end < 0 ? undefined : parseLoose(text.slice(at, end));
    const named = namedCalls(value, reader);
    if (named.length > 0) {
      for (const call of named) yield { start: at, end, ...call, isMarked: true };
    } else if (isRecord(value)) {
      const before = nameBefore(text.slice(Math.max(0, at - NAME_REACH), at), reader);
      if (before) {
        const { name, length, isMarked } = before;
        yield { start: at - length, end, name, args: JSON.stringify(value), fits: fits(value, name, reader), isMarked };
      }
    }
    const isRead = value !== undefined && (named.length > 0 || isRecord(value));
    at = nextBracket(text, isRead ? end : at + 1);
  }
}

const nextBracket = (text: string, from: number): number => {
  const found = /[{[]/g;
  found.lastIndex = from;
  return found.exec(text)?.index ?? -1;
};

/** JSON, or the form of Gemma: bare keys, and texts between `<escape>` or `<|"|>`. */
function parseLoose(text: string): unknown {
  const plain = text.includes('<escape>') || text.includes('<|"|>') ? fromGemma(text) : text;
  return parseJson(plain);
}

const fromGemma = (text: string): string =>
  text
    .replace(/(?:<escape>|<\|"\|>)([\s\S]*?)(?:<escape>|<\|"\|>)/g, (_, inner: string) => JSON.stringify(inner))
    .replace(/([{,]\s*)(\w+)\s*:/g, '$1"$2":');

const NAME_KEYS = ['name', 'tool_name', 'toolName', 'tool', 'function', 'action', 'recipient_name'] as const;
const ARGUMENT_KEYS = [
  ...['arguments', 'parameters', 'args', 'params', 'input', 'tool_input', 'action_input', 'kwargs'],
] as const;

/** The calls that a JSON value is: one with a name, a list of them, or `{"<tool>": {…}}`. */
function namedCalls(value: unknown, reader: CallReader): Array<Pick<WrittenCall, 'name' | 'args' | 'fits'>> {
  if (Array.isArray(value)) {
    const calls = value.map((one) => namedCalls(one, reader));
    return calls.length > 0 && calls.every((one) => one.length === 1) ? calls.flat() : [];
  }
  if (!isRecord(value)) return [];
  if (Array.isArray(value['tool_calls'])) return namedCalls(value['tool_calls'], reader);
  const inner = value['function'];
  if (isRecord(inner)) return namedCalls(inner, reader);
  const name = offeredToolName(
    textOf(NAME_KEYS.map((key) => value[key]).find((one) => typeof one === 'string')),
    reader.names,
  );
  if (reader.names.has(name)) {
    const key = ARGUMENT_KEYS.find((one) => value[one] !== undefined);
    const given = key === undefined ? {} : value[key];
    const args = typeof given === 'string' ? parseLoose(given) : given;
    if (!isRecord(args)) return [{ name, args: typeof given === 'string' ? given : '{}', fits: false }];
    return [{ name, args: JSON.stringify(args), fits: fits(args, name, reader) }];
  }
  const [entry, ...others] = Object.entries(value);
  if (!entry || others.length > 0 || !reader.names.has(entry[0]) || !isRecord(entry[1])) return [];
  return [{ name: entry[0], args: JSON.stringify(entry[1]), fits: fits(entry[1], entry[0], reader) }];
}

function fits(args: Record<string, unknown>, tool: string, reader: CallReader): boolean {
  const { known, required } = reader.keysOf(tool);
  const keys = Object.keys(args);
  return required.every((key) => keys.includes(key)) && keys.every((key) => known.has(key) || known.size === 0);
}

/** How far before its arguments a tool's name may stand. */
const NAME_REACH = 160;
/** What may stand between a name and its arguments in the formats of many models. */
const BETWEEN =
  /(?:<(?!function=)[|｜]?[^<>\n]{0,60}>|\[ARGS\]|```\w*|:\d+|\b(?:json|code|Action Input|arguments|args|input|with)\b:?|[\s:(=`"'>])*$/i;

/** The name of a tool right before its arguments. `isMarked`: with more than space and punctuation in between. */
function nameBefore(
  before: string,
  reader: CallReader,
): { name: string; length: number; isMarked: boolean } | undefined {
  const between = BETWEEN.exec(before)?.[0] ?? '';
  const head = before.slice(0, before.length - between.length);
  const found = /(?:<function=|<\|tool_call>call:|call:|to=|Action:\s*|\[TOOL_CALLS\]\s*)?([\w.:/-]+)$/.exec(head);
  const name = found?.[1] === undefined ? '' : offeredToolName(found[1], reader.names);
  if (!found || !reader.names.has(name)) return undefined;
  const isMarked =
    found[0] !== found[1] || /[<[\]]|Action Input/.test(between) || /[|｜]>$/.test(head.slice(0, found.index));
  return { name, length: before.length - found.index, isMarked };
}

/** How a call with parameters as tags begins: in XML by an attribute or `=`, as GLM does, or with the tool as a tag. */
const TAG_OPENERS = [
  /<function=([\w.:-]+)>/g,
  /<[^<>\s]*invoke\s+name="([\w.:-]+)"[^<>]*>/g,
  /<tool_call>\s*([\w.:-]+)\s*(?=<arg_key>)/g,
  /<([A-Za-z_][\w-]*)>(?=\s*<[A-Za-z_])/g,
];
const PARAMETERS = [
  /<parameter=([\w.-]+)>([\s\S]*?)<\/parameter>/g,
  /<[^<>\s]*parameter\s+name="([\w.-]+)"([^<>]*)>([\s\S]*?)<\/[^<>]*parameter>/g,
  /<arg_key>\s*([\w.-]+)\s*<\/arg_key>\s*<arg_value>([\s\S]*?)<\/arg_value>/g,
  /<([A-Za-z_][\w-]*)>([\s\S]*?)<\/\1>/g,
];
const CLOSERS = /<\/[^<>]*(?:invoke|function|tool_call)[^<>]*>/g;

function* taggedCalls(text: string, reader: CallReader): Generator<WrittenCall> {
  for (const opener of TAG_OPENERS) {
    for (const found of text.matchAll(opener)) {
      const name = offeredToolName(found[1] ?? '', reader.names);
      if (!reader.names.has(name)) continue;
      const from = found.index + found[0].length;
      const end = bodyEnd(text, from, found[1] ?? '');
      const body = text.slice(from, end.from);
      // Its arguments are JSON: read with the name before them.
      if (body.trimStart().startsWith('{') && jsonEnd(body, body.indexOf('{')) >= 0) continue;
      const args = tagParameters(body, reader.keysOf(name));
      yield {
        start: found.index,
        end: end.to,
        name,
        args: JSON.stringify(args),
        fits: fits(args, name, reader),
        isMarked: true,
      };
    }
  }
}

function bodyEnd(text: string, from: number, name: string): { from: number; to: number } {
  const own = text.indexOf(`</${name}>`, from);
  if (own >= 0) return { from: own, to: own + name.length + 3 };
  CLOSERS.lastIndex = from;
  const found = CLOSERS.exec(text);
  return found ? { from: found.index, to: found.index + found[0].length } : { from: text.length, to: text.length };
}

function tagParameters(body: string, { known, types }: ToolKeys): Record<string, unknown> {
  for (const form of PARAMETERS) {
    const found = [...body.matchAll(form)].filter(([, key = '']) => known.size === 0 || known.has(key));
    if (found.length === 0) continue;
    return Object.fromEntries(
      found.map((one) => [one[1] ?? '', parameterValue(one.at(-1) ?? '', getOwn(types, one[1] ?? ''))]),
    );
  }
  return {};
}

/** A value between tags is text as it is, unless the schema says otherwise. */
function parameterValue(raw: string, type: unknown): unknown {
  const text = raw.replace(/^\n/, '').replace(/\n$/, '');
  if (type === 'string' || type === undefined) return text;
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

/** Calls in the notation of Python, such as `[shell(command="ls")]`: marked if nothing else stands on their lines. */
function* functionCalls(text: string, reader: CallReader): Generator<WrittenCall> {
  for (const found of text.matchAll(/(?:^|(?<=[\s[(,>]))([A-Za-z_][\w.]*)\(\s*(?=[A-Za-z_]\w*\s*=)/gm)) {
    const name = offeredToolName(found[1] ?? '', reader.names);
    if (!reader.names.has(name)) continue;
    const read = keywordArguments(text, found.index + found[0].length);
    if (!read) continue;
    const { args, end } = read;
    const isMarked = /(?:^|\n|>|\[|```\w*\n)[\s[]*$/.test(text.slice(Math.max(0, found.index - 40), found.index));
    yield { start: found.index, end, name, args: JSON.stringify(args), fits: fits(args, name, reader), isMarked };
  }
}

const PYTHON_WORDS: Readonly<Record<string, string>> = { True: 'true', False: 'false', None: 'null' };
const PYTHON_PART =
  /"(?:[^"\\]|\\[\s\S])*"|'(?:[^'\\]|\\[\s\S])*'|\b(?:True|False|None)\b|\b([A-Za-z_]\w*)\s*=(?!=)|[()]/g;

/** The arguments up to the closing bracket: as JSON, once names, texts and words of Python are written as that does. */
function keywordArguments(text: string, from: number): { args: Record<string, unknown>; end: number } | undefined {
  let json = '';
  let at = from;
  for (const { 0: part, 1: key, index } of text.slice(from).matchAll(PYTHON_PART)) {
    if (part === '(') return undefined;
    json += text.slice(at, from + index);
    at = from + index + part.length;
    if (part === ')') {
      const args = parseLoose(`{${json.replace(/,\s*$/, '')}}`);
      return isRecord(args) ? { args, end: at } : undefined;
    }
    json += key === undefined ? (getOwn(PYTHON_WORDS, part) ?? jsonText(part)) : `${JSON.stringify(key)}:`;
  }
  return undefined;
}

/** A text of Python in JSON, whichever its quotes are. */
function jsonText(quoted: string): string {
  const inner = quoted.slice(1, -1).replaceAll('\n', '\\n');
  return quoted.startsWith('"') ? `"${inner}"` : `"${inner.replaceAll("\\'", "'").replace(/(?<!\\)"/g, '\\"')}"`;
}

const textOf = (value: unknown): string => (typeof value === 'string' ? value : '');
