import { sortBySimilarity, truncate } from '../../base/strings.ts';
import { errorText, UserError } from '../../base/user-error.ts';
import type { Toolbox, ToolCaller, ToolResult, ToolSpec } from '../../engine/ports/tool-ports.ts';
import type { Permissions } from '../../protocol/settings/permissions.ts';
import {
  ASK_USER_TOOL,
  MORE_TOOLS,
  MoreToolsArgs,
  PLAN_TOOL,
  parseOwnArgs,
  SPAWN_TOOL,
} from '../../protocol/tool-calls/own-tools.ts';
import type { CallDescription, DynamicTools, Tool } from '../common/define-tool.ts';
import { decidePermission, type PermissionDecision } from '../permissions/permission-rules.ts';
import type { BaseFolders } from '../permissions/subject-forms.ts';
import { endLeftovers } from '../process/recover-command.ts';

const DEFAULT_PERMISSIONS: Permissions = { mode: 'ask', session: [], workspace: [] };

/** Tools that the engine implements itself. They are subject to rules like all others. */
const ENGINE_TOOLS: ReadonlySet<string> = new Set([PLAN_TOOL.name, SPAWN_TOOL.name, ASK_USER_TOOL.name]);
const isEngineTool = (name: string): boolean => ENGINE_TOOLS.has(name);

/** How to call a tool that is offered by a line only. */
function explainTool(args: string, specs: readonly ToolSpec[]): ToolResult {
  const asked = parseOwnArgs(MORE_TOOLS, MoreToolsArgs, args);
  if (typeof asked === 'string') return { ok: false, text: asked };
  const { tool } = asked;
  const spec = specs.find(({ name }) => name === tool);
  const names = specs.map(({ name }) => name);
  if (!spec) return { ok: false, text: `No tool \`${tool}\`. There are: ${sortBySimilarity(tool, names).join(', ')}.` };
  const how = `Call it: ${MORE_TOOLS.name} {"tool": "${tool}", "arguments": {…}}`;
  const text = `${tool}: ${spec.description}\nIts arguments, as a JSON Schema: ${JSON.stringify(spec.parameters)}\n${how}`;
  return { ok: true, text };
}

/** Schemas of other tools beyond this, in characters of JSON, are offered by a line each. */
const MAX_SCHEMA_CHARS = 6000;
const MAX_LINE_CHARS = 100;

const lines = new WeakMap<ToolSpec, ToolSpec>();

/** A server may have hundreds of tools: their schemas would be most of each request. */
function offeredByLine(specs: readonly ToolSpec[]): readonly ToolSpec[] {
  const size = specs.reduce((sum, { parameters }) => sum + JSON.stringify(parameters).length, 0);
  if (size <= MAX_SCHEMA_CHARS) return specs;
  return specs.map((spec) => {
    const keys = Object.keys(Object(spec.parameters['properties']));
    const words = truncate(spec.description.replace(/\s+/g, ' '), MAX_LINE_CHARS);
    const known = lines.get(spec) ?? { ...spec, line: `${words}: {${keys.join(', ')}}` };
    lines.set(spec, known);
    return known;
  });
}

const describeUnknownCall = (tool: string, args: string): CallDescription => ({
  ...{ tool, text: args, kind: 'text', display: args, always: tool, touches: [] },
});

/**
 * The Toolbox port over a list of tools with unique names, and those of `more`. A hidden tool can be called like any
 * other, but is not offered. `permissions` is evaluated at each call.
 */
export function createToolbox(
  tools: Tool[],
  more?: DynamicTools,
  permissions: () => Permissions = () => DEFAULT_PERMISSIONS,
): Toolbox {
  const byName = new Map(tools.map((tool) => [tool.spec.name, tool]));
  if (byName.size < tools.length) throw new Error('Two tools have the same name.');
  const added = () => (more?.tools ?? []).filter((tool) => !byName.has(tool.spec.name));
  const find = (name: string) => byName.get(name) ?? added().find((tool) => tool.spec.name === name);
  /** After a restart a call may arrive before the tools were listed. */
  const found = async (name: string, caller: ToolCaller): Promise<{ tool?: Tool | undefined; notices: string[] }> => {
    const tool = find(name);
    if (tool || !more || isEngineTool(name)) return { tool, notices: [] };
    const notices = await more.ready(caller);
    return { tool: find(name), notices };
  };
  const decide = (name: string, tool: Tool | undefined, args: string, folders: BaseFolders): PermissionDecision => {
    // Invalid arguments are reported by the call; a rule for the whole tool still applies.
    let described = describeUnknownCall(name, args);
    try {
      described = tool?.describeCall(args) ?? described;
    } catch (error) {
      if (!(error instanceof UserError)) throw error;
    }
    const rule = decidePermission(described, permissions(), folders);
    // A call that will run nothing needs no approval.
    return rule.is === 'ask' && !tool && !isEngineTool(name) ? { is: 'allow' } : rule;
  };
  const specs = () => [
    ...tools.filter((tool) => !tool.hidden).map((tool) => tool.spec),
    ...offeredByLine(added().map((tool) => tool.spec)),
  ];
  return {
    get specs() {
      return specs();
    },
    refresh: async (caller) => (await more?.ready(caller)) ?? [],
    replayPolicy: (name) => (name === MORE_TOOLS.name ? 'safe' : (find(name)?.replay ?? 'never')),
    async checkPermission({ name, args }, caller) {
      caller.signal.throwIfAborted();
      if (name === MORE_TOOLS.name) return { is: 'allow' };
      const { tool } = await found(name, caller);
      return decide(name, tool, args, { work: await caller.work(), top: await caller.top?.() });
    },
    async run({ name, args }, context) {
      const { signal, work, top } = context;
      signal.throwIfAborted();
      if (name === MORE_TOOLS.name) return explainTool(args, [SPAWN_TOOL, ...specs()]);
      const known = find(name);
      const { tool, notices } = await found(name, { work: async () => work, signal });
      if (tool && !known && decide(name, tool, args, { work, top }).is !== 'allow')
        return { ok: false, text: `\`${name}\` was not there when this call was made, and is now. Call it again.` };
      if (!tool) {
        const offered = context.offered ?? specs().map((spec) => spec.name);
        const known = sortBySimilarity(name, offered).join(', ');
        return { ok: false, text: [`No tool \`${name}\`. There are: ${known || 'none'}.`, ...notices].join('\n') };
      }
      try {
        const permits = (other: string, as = name) => decide(as, find(as), other, { work, top });
        return await tool.call(args, { ...context, permits });
      } catch (error) {
        if (context.signal.aborted) throw context.signal.reason;
        return { ok: false, text: errorText(error) };
      }
    },
    async resume({ name, args }, context) {
      context.signal.throwIfAborted();
      try {
        return (await find(name)?.resume?.(args, context)) ?? null;
      } catch {
        // If finding out failed, the outcome is unknown. Processes that still run are ended with the call.
        if (context.signal.aborted) throw context.signal.reason;
        return null;
      }
    },
    endLeftovers,
  };
}
