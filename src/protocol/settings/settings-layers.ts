import type { AgentProfile, Config, ModelSettings, Settings, SharingScope } from './config.ts';
import type { McpServer, McpServers } from './mcp-config.ts';
import { type Limits, resolveLimits } from './run-options.ts';

/** Every key of both files, with what holds for one session; undefined where the default does. */
export type LayeredSettings = { [K in keyof Required<Config & Settings>]: (Config & Settings)[K] | undefined };

/** The workspace's settings with those of a session on its own, or of the root of a family, laid over them. */
export function overlaySettings(workspace: Config, root: Settings): LayeredSettings {
  return {
    $schema: root.$schema ?? workspace.$schema,
    version: root.version ?? workspace.version,
    title: root.title,
    model: mergeModelSettings([workspace.model, root.model]),
    mode: root.mode ?? workspace.mode,
    modes: root.modes ?? workspace.modes,
    limits: { ...workspace.limits, ...root.limits },
    agents: mergeByName<AgentProfile>(workspace.agents, root.agents),
    unknown_agent: root.unknown_agent ?? workspace.unknown_agent,
    on_limit: root.on_limit ?? workspace.on_limit,
    sandbox: root.sandbox ?? workspace.sandbox,
    approvals: root.approvals ?? workspace.approvals,
    permissions: root.permissions,
    network: { ...workspace.network, ...root.network },
    language: root.language ?? workspace.language,
    instructions: joinParagraphs(workspace.instructions, root.instructions),
    read_also: [...(workspace.read_also ?? []), ...(root.read_also ?? [])],
    senders: root.senders ?? workspace.senders,
    secrets: [...(workspace.secrets ?? []), ...(root.secrets ?? [])],
    retention: { ...workspace.retention, ...root.retention },
    mcpServers: mergeByName(workspace.mcpServers, root.mcpServers),
    memory: root.memory ?? workspace.memory,
    recall: root.recall ?? workspace.recall,
    disk: workspace.disk,
    allow_network_fs: workspace.allow_network_fs,
    search: workspace.search,
    browser: workspace.browser,
    concurrency: workspace.concurrency,
  };
}

const joinParagraphs = (...texts: Array<string | undefined>): string => texts.filter(Boolean).join('\n\n');

/** Later ones win. Names are foreign: nothing is found under one of `Object.prototype`. */
function mergeByName<T>(...layers: Array<Readonly<Record<string, T>> | undefined>): Record<string, T> {
  const all: Record<string, T> = Object.create(null);
  for (const layer of layers) Object.assign(all, layer);
  return all;
}

/** Later layers win key by key. A key that was named for one address is not sent to another. */
export function mergeModelSettings(layers: ReadonlyArray<ModelSettings | undefined>): ModelSettings {
  let model: ModelSettings = {};
  for (const layer of layers) {
    const { api_key_env: key, ...others } = model;
    const goesElsewhere =
      layer?.base_url !== undefined && model.base_url !== undefined && !isSameOrigin(layer.base_url, model.base_url);
    model = { ...others, ...(key !== undefined && !goesElsewhere && { api_key_env: key }), ...layer };
  }
  return model;
}

const isSameOrigin = (one: string, other: string): boolean =>
  one === other || (URL.canParse(one) && URL.canParse(other) && new URL(one).origin === new URL(other).origin);

const SANDBOX_ORDER = ['none', 'auto', 'bwrap'] as const;
const APPROVALS_ORDER = ['auto', 'ask', 'safe'] as const;
const SCOPE_ORDER = ['workspace', 'session', 'off'] as const satisfies readonly SharingScope[];
const ON_LIMIT_ORDER = ['extend', 'pause'] as const;

/**
 * The settings of a child session: those of its family with its own `session.json` laid over them. What protects can
 * only be tightened; what would loosen it is left out and named. What only says how work is done is the child's own
 * where it says so.
 */
export function tightenForChild(
  family: LayeredSettings,
  child: Settings,
): { settings: LayeredSettings; leftOut: string[] } {
  const settings: LayeredSettings = {
    ...family,
    $schema: child.$schema ?? family.$schema,
    version: child.version ?? family.version,
    // Its own.
    title: child.title,
    model: mergeModelSettings([family.model, child.model]),
    mode: child.mode ?? family.mode,
    modes: child.modes ?? family.modes,
    language: child.language ?? family.language,
    instructions: joinParagraphs(family.instructions, child.instructions),
    secrets: [...(family.secrets ?? []), ...(child.secrets ?? [])],
    retention: { ...family.retention, ...child.retention },
    unknown_agent: family.unknown_agent === 'fail' ? 'fail' : (child.unknown_agent ?? family.unknown_agent),
    // Only tighter.
    limits: tighterLimits(family.limits, child.limits),
    agents: childAgents(family.agents, child.agents),
    on_limit: stricterOf(ON_LIMIT_ORDER, family.on_limit ?? 'pause', child.on_limit),
    sandbox: stricterOf(SANDBOX_ORDER, family.sandbox ?? 'auto', child.sandbox),
    approvals: stricterOf(APPROVALS_ORDER, family.approvals ?? 'ask', child.approvals),
    network: {
      ...family.network,
      shell: family.network?.shell === true && child.network?.shell !== false,
    },
    read_also: child.read_also?.filter((path) => isWithinFolders(family.read_also ?? [], path)) ?? family.read_also,
    senders:
      family.senders && child.senders
        ? child.senders.filter((sender) => family.senders?.includes(sender))
        : (child.senders ?? family.senders),
    mcpServers: childServers(family.mcpServers, child.mcpServers),
    memory: stricterOf(SCOPE_ORDER, family.memory ?? 'workspace', child.memory),
    recall: stricterOf(SCOPE_ORDER, family.recall ?? 'workspace', child.recall),
  };
  return { settings, leftOut: ignoredKeys(settings, child) };
}

/** The one of two values that stands further to the end, where the strictest is. */
function stricterOf<T extends string>(order: readonly T[], family: T, child: T | undefined): T {
  return child !== undefined && order.indexOf(child) > order.indexOf(family) ? child : family;
}

/** Of each limit the lower one, `null` and a `repeats` of 0 being none at all. */
function tighterLimits(family: Limits | undefined, child: Limits | undefined): Limits | undefined {
  if (!child) return family;
  const [whole, own] = [resolveLimits(family), resolveLimits(family, child)];
  const size = (value: number | null, zero: number) => (value === null ? Number.POSITIVE_INFINITY : value || zero);
  const least = <T extends number | null>(a: T, b: T, zero = 0): T => (size(b, zero) < size(a, zero) ? b : a);
  return {
    iterations: least(whole.iterations, own.iterations),
    step_iterations: least(whole.step_iterations, own.step_iterations),
    repeats: least(whole.repeats, own.repeats, Number.POSITIVE_INFINITY),
    tokens: least(whole.tokens, own.tokens),
    cost: least(whole.cost, own.cost),
    minutes: least(whole.minutes, own.minutes),
    outage_minutes: least(whole.outage_minutes, own.outage_minutes),
    jobs: least(whole.jobs, own.jobs),
    steps: least(whole.steps, own.steps),
    step_minutes: least(whole.step_minutes, own.step_minutes),
    approval_minutes: least(whole.approval_minutes, own.approval_minutes),
  } satisfies { [K in keyof Required<Limits>]: unknown };
}

/** An agent both know has the tools that both give it. */
function childAgents(family: LayeredSettings['agents'], child: LayeredSettings['agents']): LayeredSettings['agents'] {
  const own = Object.entries(child ?? {}).map(([name, agent]): [string, AgentProfile] => {
    const known = family && Object.hasOwn(family, name) ? family[name] : undefined;
    return [name, { ...known, ...agent, ...commonTools(known, agent) }];
  });
  return mergeByName(family, mergeByName(Object.fromEntries(own)));
}

function commonTools(
  known: { tools?: string[] | undefined } | undefined,
  own: { tools?: string[] | undefined },
): { tools?: string[] } {
  if (!known?.tools) return own.tools ? { tools: own.tools } : {};
  return { tools: own.tools ? known.tools.filter((tool) => own.tools?.includes(tool)) : known.tools };
}

/** A child starts no server of its own. It may do without one of its family, or with fewer of its tools. */
function childServers(
  family: LayeredSettings['mcpServers'],
  child: LayeredSettings['mcpServers'],
): LayeredSettings['mcpServers'] {
  const both: McpServers = mergeByName(family);
  for (const [name, own] of Object.entries(child ?? {})) {
    const known: McpServer | undefined = both[name];
    if (!known) continue;
    both[name] = { ...known, ...commonTools(known, own), ...(own.disabled === true && { disabled: true }) };
  }
  return both;
}

const isWithinFolders = (folders: readonly string[], path: string): boolean =>
  !path.split('/').includes('..') && folders.some((folder) => path === folder || path.startsWith(`${folder}/`));

/** What a child session says and what does not hold, as its keys. */
function ignoredKeys(holds: LayeredSettings, child: Settings): string[] {
  const same = (one: unknown, other: unknown) => JSON.stringify(one) === JSON.stringify(other);
  const keys = [
    'on_limit',
    'sandbox',
    'approvals',
    'read_also',
    'senders',
    'memory',
    'recall',
    'unknown_agent',
  ] as const;
  const limits = Object.entries(child.limits ?? {}).filter(
    ([key, value]) => value !== undefined && !same(value, new Map(Object.entries(holds.limits ?? {})).get(key)),
  );
  const agents = Object.entries(child.agents ?? {}).filter(
    ([name, { tools }]) => tools !== undefined && !same(tools, holds.agents?.[name]?.tools),
  );
  const servers = Object.entries(child.mcpServers ?? {}).filter(
    ([name, own]) => !same({ ...holds.mcpServers?.[name], ...own }, holds.mcpServers?.[name]),
  );
  return [
    ...keys.filter((key) => child[key] !== undefined && !same(child[key], holds[key])),
    ...(child.network?.shell === true && holds.network?.shell !== true ? ['network.shell'] : []),
    ...limits.map(([key]) => `limits.${key}`),
    ...agents.map(([name]) => `agents.${name}.tools`),
    ...servers.map(([name]) => `mcpServers.${name}`),
    ...(child.permissions?.some((rule) => rule.allow !== undefined) ? ['permissions: "allow"'] : []),
  ];
}
