import { ASK_TOOL } from './ask-call.ts';
import type { Agent } from './config.ts';
import type { McpServers } from './mcp.ts';
import { nearestName } from './nearest.ts';
import { type PermissionRule, patternOf, readRule } from './permissions.ts';
import { PLAN_TOOL } from './plan-call.ts';
import { SPAWN_TOOL } from './spawn-call.ts';

/** Every tool of our own, also those the model is not told of. */
export const TOOL_NAMES: readonly string[] = [
  ...['shell', 'jobs', 'read_file', 'write_file', 'edit_file', 'list_files', 'search_files', 'parts', 'check'],
  ...['web_fetch', 'web_search', 'browser', 'remember', 'recall', 'skill'],
  ...[PLAN_TOOL.name, ASK_TOOL.name, SPAWN_TOOL.name],
];

/** What other programs call such a tool. */
const ALIASES = new Map([
  ['bash', 'shell'],
  ['read', 'read_file'],
  ['write', 'write_file'],
  ['edit', 'edit_file'],
  ['ls', 'list_files'],
  ['glob', 'search_files'],
  ['grep', 'search_files'],
  ['webfetch', 'web_fetch'],
  ['websearch', 'web_search'],
  ['task', SPAWN_TOOL.name],
]);

const MCP = 'mcp__';

/** One thing in settings that names a tool there is not, or an address that no call can have. */
export type NameFault = { path: PropertyKey[]; text: string };

type Naming = {
  agents?: Readonly<Record<string, Agent>> | undefined;
  permissions?: readonly PermissionRule[] | undefined;
};

/** Names of tools that can never be meant. One of an MCP server may still come: see `unknownServers`. */
export function nameFaults({ agents = {}, permissions = [] }: Naming): NameFault[] {
  const ofAgents = Object.entries(agents).flatMap(([name, { tools = [] }]) =>
    tools.flatMap((tool, place): NameFault[] =>
      isKnown(tool) ? [] : [{ path: ['agents', name, 'tools', place], text: unknown(tool) }],
    ),
  );
  const ofRules = permissions.flatMap((rule, place): NameFault[] => {
    const { word, tool, text } = readRule(rule);
    const fault = mayMatch(tool) ? neverMatches(tool, text) : unknown(tool);
    return fault === undefined ? [] : [{ path: ['permissions', place, word], text: fault }];
  });
  return [...ofAgents, ...ofRules];
}

const isKnown = (tool: string): boolean => TOOL_NAMES.includes(tool) || tool.startsWith(MCP);

function mayMatch(pattern: string): boolean {
  const [start = ''] = pattern.split('*', 1);
  if (start.startsWith(MCP) || (pattern.includes('*') && MCP.startsWith(start))) return true;
  const words = pattern.split('*').map((part) => part.replace(/[\\^$.+?()[\]{}|]/g, '\\$&'));
  const fits = new RegExp(`^${words.join('.*')}$`);
  return TOOL_NAMES.some((name) => fits.test(name));
}

function unknown(tool: string): string {
  const near = ALIASES.get(tool.toLowerCase().replaceAll('_', '')) ?? nearestName(tool, TOOL_NAMES);
  const known = near === undefined ? `known are ${TOOL_NAMES.join(', ')}` : `the nearest known one is "${near}"`;
  return `no tool is called "${tool}"; ${known}. Tools of MCP servers are called mcp__<server>__<tool>`;
}

/** Rules of the web tools are held against whole addresses. */
function neverMatches(tool: string, text: string | null): string | undefined {
  if ((tool !== 'web_fetch' && tool !== 'browser') || text === null) return undefined;
  // What the browser does on an open page is its arguments as JSON.
  if (tool === 'browser' && text.startsWith('{')) return undefined;
  const [start = ''] = text.split('*', 1);
  const isOpen = text.includes('*');
  if (
    ['http://', 'https://'].some(
      (scheme) => start.toLowerCase().startsWith(scheme) || (isOpen && scheme.startsWith(start)),
    )
  )
    return undefined;
  return `"${tool}(${text})" can never match, as addresses are whole: wanted one such as ${tool}(https://example.com/*)`;
}

/** What names a tool of an MCP server that is not configured, in words: it may come later, so it is no fault. */
export function unknownServers({ agents = {}, permissions = [] }: Naming, servers: McpServers): string[] {
  const named = [
    ...Object.entries(agents).flatMap(([name, { tools = [] }]) =>
      tools.map((tool) => ({ tool, at: `agents.${name}.tools: "${tool}"` })),
    ),
    ...permissions.map((rule) => ({ tool: readRule(rule).tool, at: `permissions: "${patternOf(rule)}"` })),
  ];
  const known = Object.keys(servers).map((name) => `${MCP}${name.replace(/[^a-zA-Z0-9_-]+/g, '_').slice(0, 20)}`);
  return named.flatMap(({ tool, at }) => {
    const [start = ''] = tool.split('*', 1);
    if (!tool.startsWith(MCP) || known.some((server) => start.startsWith(server) || server.startsWith(start)))
      return [];
    return [
      `${at} names a tool of an MCP server that is not configured; configured are ${Object.keys(servers).join(', ') || 'none'}`,
    ];
  });
}
