import { z } from 'zod';
import { jsonEnd, parseJson } from '../../base/json.ts';
import type { ChatMessage } from '../../engine/ports/session-ports.ts';
import type { ToolCall } from '../../protocol/session/event.ts';
import { withCallFields } from './reasoning.ts';

/** A piece of a tool call. The format defines `arguments` as text; some servers send the object itself. */
export const CallDelta = z.object({
  index: z.number().nullish(),
  id: z.string().nullish(),
  function: z.object({ name: z.string().nullish(), arguments: z.unknown().optional() }).nullish(),
  extra_content: z.unknown().optional(),
});
export type CallDelta = z.infer<typeof CallDelta>;

export type CallDraft = { index: number | undefined; id: string; name: string; args: string; extra?: unknown };

/**
 * Adds one piece to its call. Pieces are matched by index; but a piece with a name and a new id starts a new call
 * whatever its index says, since Ollama gave every call the index 0 (ollama issue 15457) or none (issue 7881). So does
 * one with a name and no id after complete arguments, as Gemini's compatible layer sends parallel calls.
 */
export function addCallDelta(drafts: CallDraft[], delta: CallDelta): void {
  const name = delta.function?.name ?? '';
  let draft = drafts.findLast((one) => delta.index == null || one.index === delta.index);
  if (!draft || (name && startsNewCall(draft, delta))) {
    draft = { index: delta.index ?? undefined, id: '', name: '', args: '' };
    drafts.push(draft);
  }
  draft.id ||= delta.id ?? '';
  draft.name ||= name;
  draft.args += argsText(delta.function?.arguments);
  draft.extra ??= delta.extra_content;
}

function startsNewCall(draft: CallDraft, { id, index, function: named }: CallDelta): boolean {
  if (id && draft.id !== '' && draft.id !== id) return true;
  if (index == null && !id && draft.name !== '') return true;
  const more = argsText(named?.arguments).trimStart();
  return draft.name !== '' && more.startsWith('{') && isJsonObject(draft.args);
}

function argsText(args: unknown): string {
  if (args === undefined || args === null) return '';
  return typeof args === 'string' ? args : JSON.stringify(args);
}

/**
 * Calls whose arguments are a row of whole JSON objects, as gateways join parallel calls, become one call each. An
 * empty object before others is a placeholder, and one that is repeated was sent twice.
 */
export function separateCalls(drafts: readonly CallDraft[]): CallDraft[] {
  return drafts.flatMap((draft) => {
    const rows = isJsonObject(draft.args) ? [] : jsonRow(draft.args);
    if (rows.length < 2) return [draft];
    const real = [...new Set(rows.filter((row) => row.replace(/\s/g, '') !== '{}'))];
    const args = real.length > 0 ? real : ['{}'];
    return args.map((one, at) => ({ ...draft, id: at === 0 ? draft.id : '', args: one }));
  });
}

/** The JSON objects of which a text consists; [] if there is anything else in it. */
function jsonRow(text: string): string[] {
  const rows: string[] = [];
  for (let at = 0; at < text.length; ) {
    const start = text.slice(at).search(/\S/) + at;
    if (start < at) break;
    const end = text[start] === '{' ? jsonEnd(text, start) : -1;
    if (end < 0 || !isJsonObject(text.slice(start, end))) return [];
    rows.push(text.slice(start, end));
    at = end;
  }
  return rows;
}

/** Whether a text is a complete JSON object. */
const isJsonObject = (text: string): boolean => text.trimStart().startsWith('{') && parseJson(text) !== undefined;

/**
 * The offered tool that a model means by a name: models add the namespace of their own format (`functions.shell`,
 * `shell<|channel|>commentary`, `functions.shell:0`). The name itself if not exactly one tool is left without that.
 */
export function offeredToolName(name: string, offered: ReadonlySet<string>): string {
  if (offered.has(name)) return name;
  const plain = bareName(name);
  const found = [...offered].filter((one) => sameName(one) === sameName(plain));
  return found.length === 1 && found[0] !== undefined ? found[0] : name;
}

function bareName(name: string): string {
  const start = name.replace(/<[|｜][\s\S]*$/, '').trim();
  return start.replace(/:\d+$/, '').replace(/^.*[.:/]/, '');
}

const sameName = (name: string): string => name.toLowerCase().replaceAll('-', '_');

/**
 * The finished calls, with arguments exactly as the model wrote them. Every id is new to the conversation: a missing
 * one becomes `call_<n>` (n counts the conversation's calls from 0), a taken one gets `_2`, `_3`, …
 */
export function finishCalls(
  drafts: ReadonlyArray<ToolCall & { extra?: unknown }>,
  conversation: readonly ChatMessage[],
): ToolCall[] {
  const taken = new Set<string>();
  // Searching for one or two ids costs less than collecting all ids of a conversation, which may have a thousand calls.
  const isTaken = (id: string) => taken.has(id) || conversation.some((message) => callIdsOf(message).includes(id));
  return drafts.map(({ id, name, args, extra }, at) => {
    const wanted = id || `call_${conversation.reduce((sum, message) => sum + callIdsOf(message).length, at)}`;
    let free = wanted;
    for (let n = 2; isTaken(free); n++) free = `${wanted}_${n}`;
    taken.add(free);
    return withCallFields({ id: free, name, args }, extra);
  });
}

const NO_IDS: readonly string[] = [];
const callIdCache = new WeakMap<ChatMessage, readonly string[]>();

/** The ids of the calls in a message; messages are immutable. */
function callIdsOf(message: ChatMessage): readonly string[] {
  if (message.role !== 'assistant' || !message.tool_calls) return NO_IDS;
  const ids = callIdCache.get(message) ?? message.tool_calls.map((call) => call.id);
  callIdCache.set(message, ids);
  return ids;
}
