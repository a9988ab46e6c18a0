import { join } from 'node:path';
import type { SessionUpdate, ToolCall, ToolCallContent, ToolKind } from '@agentclientprotocol/sdk';
import { getOwn, propertyOf } from '../../base/collections.ts';
import { parseJson } from '../../base/json.ts';
import { truncate } from '../../base/strings.ts';
import type { Event } from '../../protocol/session/event.ts';
import { inlineText } from '../../protocol/session/log-entry.ts';

const KINDS: Readonly<Record<string, ToolKind>> = {
  read_file: 'read',
  list_files: 'read',
  skill: 'read',
  write_file: 'edit',
  edit_file: 'edit',
  search_files: 'search',
  web_search: 'search',
  recall: 'search',
  web_fetch: 'fetch',
  browser: 'fetch',
  shell: 'execute',
  jobs: 'execute',
  check: 'execute',
  plan: 'think',
};

/** Longest title of a call, in code points. */
const MAX_TITLE = 120;

/** A call as in the event log. `args`: JSON as the model wrote it. */
export type CallOnRecord = { call: string; name: string; args: string };

/** How an editor shows a call that has not begun. `work`: the folder its paths are relative to. */
export function describeCall({ call, name, args }: CallOnRecord, work: string): ToolCall {
  const given = parseArgs(args);
  const [main = ''] = Object.values(given ?? {}).filter((one) => typeof one === 'string');
  const path = propertyOf(given, 'path');
  const at = typeof path === 'string' ? join(work, path) : undefined;
  const change = at === undefined ? undefined : fileChange(name, given, at);
  const words = `${name === 'shell' ? '' : name} ${main}`.replace(/\s+/g, ' ').trim();
  return {
    toolCallId: call,
    title: truncate(words || name, MAX_TITLE),
    kind: getOwn(KINDS, name) ?? 'other',
    status: 'pending',
    rawInput: given ?? args,
    ...(at !== undefined && { locations: [{ path: at }] }),
    ...(change && { content: [change] }),
  };
}

/** Arguments as an object; undefined if the model wrote something else. */
function parseArgs(args: string): object | undefined {
  const value = parseJson(args);
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? value : undefined;
}

/** The change that a file tool makes. For a file written as a whole, the previous content is not known. */
function fileChange(name: string, given: object | undefined, path: string): ToolCallContent | undefined {
  const [old, replacement, content] = ['old', 'new', 'content'].map((key) => propertyOf(given, key));
  if (name === 'edit_file' && typeof old === 'string' && typeof replacement === 'string')
    return { type: 'diff', path, oldText: old, newText: replacement };
  if (name === 'write_file' && typeof content === 'string') return { type: 'diff', path, newText: content };
  return undefined;
}

export type ToolCallUpdates = {
  /** The updates for an event: a call is shown once and then updated. */
  updatesFor(event: Event): SessionUpdate[];
};

/** Turns the events of a session into updates of its tool calls. */
export function trackToolCalls(work: string): ToolCallUpdates {
  /** The content shown for each open call. An update replaces it as a whole, so a diff must be sent again. */
  const open = new Map<string, ToolCallContent[]>();
  const begin = (call: CallOnRecord): SessionUpdate[] => {
    if (open.has(call.call)) return [];
    const shown = describeCall(call, work);
    open.set(call.call, shown.content ?? []);
    return [{ sessionUpdate: 'tool_call', ...shown }];
  };
  const end = (call: string, ok: boolean, output: string, exit?: number | null): SessionUpdate => {
    const change = open.get(call) ?? [];
    open.delete(call);
    const text: ToolCallContent = { type: 'content', content: { type: 'text', text: output } };
    return {
      ...{ sessionUpdate: 'tool_call_update', toolCallId: call, status: ok ? 'completed' : 'failed' },
      content: ok && change.length > 0 ? change : output === '' ? [] : [text],
      rawOutput: { output, ...(exit !== undefined && { exit }) },
    };
  };
  return {
    updatesFor(event) {
      switch (event.type) {
        case 'model.answered':
          return event.calls.flatMap((one, place) => begin({ ...one, call: `${event.seq}.${place}` }));
        case 'tool.started':
          return [
            ...begin(event),
            { sessionUpdate: 'tool_call_update', toolCallId: event.call, status: 'in_progress' },
          ];
        case 'tool.finished':
          return [end(event.call, event.ok, inlineText(event.output), event.exit)];
        case 'tool.interrupted':
          return [end(event.call, false, `interrupted: ${event.why}`)];
        default:
          return [];
      }
    },
  };
}

/** The same updates with each call once, in its final state. */
export function withFinalCalls(updates: readonly SessionUpdate[]): SessionUpdate[] {
  const calls = new Map<string, SessionUpdate & { sessionUpdate: 'tool_call' }>();
  const final: SessionUpdate[] = [];
  for (const update of updates) {
    const call = update.sessionUpdate === 'tool_call_update' ? calls.get(update.toolCallId) : undefined;
    if (update.sessionUpdate === 'tool_call') calls.set(update.toolCallId, { ...update });
    if (call && update.sessionUpdate === 'tool_call_update')
      Object.assign(call, { ...update, sessionUpdate: 'tool_call' });
    else if (update.sessionUpdate === 'tool_call') final.push(calls.get(update.toolCallId) ?? update);
    else final.push(update);
  }
  return final;
}
