import { nearestName } from '../../base/strings.ts';
import type { AgentProfile } from '../settings/config.ts';
import type { McpServers } from '../settings/mcp-config.ts';
import { type PermissionRule, parsePermissionRule, patternOfRule } from '../settings/permissions.ts';
import { ASK_USER_TOOL, PLAN_TOOL, SPAWN_TOOL } from './own-tools.ts';

/** The tools of `src/tools`; `npm run docs` writes this list. */
const BUILTIN_TOOLS = [
  'shell',
  'jobs',
  'read_file',
  'write_file',
  'edit_file',
  'list_files',
  'search_files',
  'parts',
  'web_fetch',
  'web_search',
  'check',
  'remember',
  'recall',
  'skill',
  'schedule',
  'browser',
];

/** All tools of our own, including those the model is not offered. */
export const TOOL_NAMES: readonly string[] = [
  ...BUILTIN_TOOLS,
  ...[PLAN_TOOL.name, ASK_USER_TOOL.name, SPAWN_TOOL.name],
];

/** What other programs call these tools. */
const TOOL_ALIASES = new Map([
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

const MCP_PREFIX = 'mcp__';

/** A setting that names a tool that does not exist, or a URL that no call can have. */
export type ToolNameFault = { path: PropertyKey[]; text: string };

type ToolReferences = {
  agents?: Readonly<Record<string, AgentProfile>> | undefined;
  permissions?: readonly PermissionRule[] | undefined;
};

/** Names of tools that can never exist. A tool of an MCP server may still appear: see `findUnknownMcpServers`. */
export function findToolNameFaults({ agents = {}, permissions = [] }: ToolReferences): ToolNameFault[] {
  const ofAgents = Object.entries(agents).flatMap(([name, { tools = [] }]) =>
    tools.flatMap((tool, place): ToolNameFault[] =>
      isKnownTool(tool) ? [] : [{ path: ['agents', name, 'tools', place], text: unknownToolText(tool) }],
    ),
  );
  const ofRules = permissions.flatMap((rule, place): ToolNameFault[] => {
    const { word, tool, text } = parsePermissionRule(rule);
    const fault = canMatchTool(tool) ? unmatchableRuleText(tool, text) : unknownToolText(tool);
    return fault === undefined ? [] : [{ path: ['permissions', place, word], text: fault }];
  });
  return [...ofAgents, ...ofRules];
}

const isKnownTool = (tool: string): boolean => TOOL_NAMES.includes(tool) || tool.startsWith(MCP_PREFIX);

function canMatchTool(pattern: string): boolean {
  const [start = ''] = pattern.split('*', 1);
  if (start.startsWith(MCP_PREFIX) || (pattern.includes('*') && MCP_PREFIX.startsWith(start))) return true;
  const words = pattern.split('*').map((part) => part.replace(/[\\^$.+?()[\]{}|]/g, '\\$&'));
  const fits = new RegExp(`^${words.join('.*')}$`);
  return TOOL_NAMES.some((name) => fits.test(name));
}

function unknownToolText(tool: string): string {
  const near = TOOL_ALIASES.get(tool.toLowerCase().replaceAll('_', '')) ?? nearestName(tool, TOOL_NAMES);
  const known = near === undefined ? `known tools: ${TOOL_NAMES.join(', ')}.` : `did you mean "${near}"?`;
  return `there is no tool "${tool}"; ${known} Tools of MCP servers are named mcp__<server>__<tool>`;
}

/** Rules of the web tools are matched against whole URLs. */
function unmatchableRuleText(tool: string, text: string | null): string | undefined {
  if ((tool !== 'web_fetch' && tool !== 'browser') || text === null) return undefined;
  // The text of a browser call on an open page is its arguments as JSON.
  if (tool === 'browser' && text.startsWith('{')) return undefined;
  const [start = ''] = text.split('*', 1);
  const isOpen = text.includes('*');
  if (
    ['http://', 'https://'].some(
      (scheme) => start.toLowerCase().startsWith(scheme) || (isOpen && scheme.startsWith(start)),
    )
  )
    return undefined;
  return `"${tool}(${text})" can never match, because addresses are matched as a whole: write one such as ${tool}(https://example.com/*)`;
}

/** Names of tools of MCP servers that are not configured, in words: they may be added later, so this is not a fault. */
export function findUnknownMcpServers(
  { agents = {}, permissions = [] }: ToolReferences,
  servers: McpServers,
): string[] {
  const named = [
    ...Object.entries(agents).flatMap(([name, { tools = [] }]) =>
      tools.map((tool) => ({ tool, at: `agents.${name}.tools: "${tool}"` })),
    ),
    ...permissions.map((rule) => ({
      tool: parsePermissionRule(rule).tool,
      at: `permissions: "${patternOfRule(rule)}"`,
    })),
  ];
  const known = Object.keys(servers).map(
    (name) => `${MCP_PREFIX}${name.replace(/[^a-zA-Z0-9_-]+/g, '_').slice(0, 20)}`,
  );
  return named.flatMap(({ tool, at }) => {
    const [start = ''] = tool.split('*', 1);
    if (!tool.startsWith(MCP_PREFIX) || known.some((server) => start.startsWith(server) || server.startsWith(start)))
      return [];
    return [
      `${at} names a tool of an MCP server that is not configured; configured are ${Object.keys(servers).join(', ') || 'none'}`,
    ];
  });
}
