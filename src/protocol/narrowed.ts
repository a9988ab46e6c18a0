import type { Agent, Reach, Settings } from './config.ts';
import { byName, joined, type Layered, modelOf } from './layers.ts';
import { fullLimits, type Limits } from './limits.ts';
import type { McpServer, McpServers } from './mcp.ts';

const SANDBOXES = ['none', 'auto', 'bwrap'] as const;
const APPROVALS = ['auto', 'ask', 'safe'] as const;
const REACHES = ['workspace', 'session', 'off'] as const satisfies readonly Reach[];
const ON_LIMIT = ['extend', 'pause'] as const;

/**
 * The settings of a child session: those of its family with its own `session.json` laid over them. What protects can only be
 * tightened; what would loosen it is left out and named. What only says how work is done is the child's own where it says so.
 */
export function narrowed(family: Layered, child: Settings): { settings: Layered; leftOut: string[] } {
  const settings: Layered = {
    ...family,
    $schema: child.$schema ?? family.$schema,
    version: child.version ?? family.version,
    // Its own.
    title: child.title,
    model: modelOf([family.model, child.model]),
    mode: child.mode ?? family.mode,
    modes: child.modes ?? family.modes,
    language: child.language ?? family.language,
    instructions: joined(family.instructions, child.instructions),
    secrets: [...(family.secrets ?? []), ...(child.secrets ?? [])],
    retention: { ...family.retention, ...child.retention },
    unknown_agent: family.unknown_agent === 'fail' ? 'fail' : (child.unknown_agent ?? family.unknown_agent),
    // Only tighter.
    limits: leastOf(family.limits, child.limits),
    agents: agentsOf(family.agents, child.agents),
    on_limit: stricter(ON_LIMIT, family.on_limit ?? 'pause', child.on_limit),
    sandbox: stricter(SANDBOXES, family.sandbox ?? 'auto', child.sandbox),
    approvals: stricter(APPROVALS, family.approvals ?? 'ask', child.approvals),
    network: {
      ...family.network,
      shell: family.network?.shell === true && child.network?.shell !== false,
    },
    read_also: child.read_also?.filter((path) => isWithin(family.read_also ?? [], path)) ?? family.read_also,
    senders:
      family.senders && child.senders
        ? child.senders.filter((sender) => family.senders?.includes(sender))
        : (child.senders ?? family.senders),
    mcpServers: serversOf(family.mcpServers, child.mcpServers),
    memory: stricter(REACHES, family.memory ?? 'workspace', child.memory),
    recall: stricter(REACHES, family.recall ?? 'workspace', child.recall),
  };
  return { settings, leftOut: leftOut(settings, child) };
}

/** The one of two values that stands further to the end, where the strictest is. */
function stricter<T extends string>(order: readonly T[], family: T, child: T | undefined): T {
  return child !== undefined && order.indexOf(child) > order.indexOf(family) ? child : family;
}

/** Of each limit the lower one, `null` and a `repeats` of 0 being none at all. */
function leastOf(family: Limits | undefined, child: Limits | undefined): Limits | undefined {
  if (!child) return family;
  const [whole, own] = [fullLimits(family), fullLimits(family, child)];
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
function agentsOf(family: Layered['agents'], child: Layered['agents']): Layered['agents'] {
  const own = Object.entries(child ?? {}).map(([name, agent]): [string, Agent] => {
    const known = family && Object.hasOwn(family, name) ? family[name] : undefined;
    return [name, { ...known, ...agent, ...toolsBoth(known, agent) }];
  });
  return byName(family, byName(Object.fromEntries(own)));
}

function toolsBoth(
  known: { tools?: string[] | undefined } | undefined,
  own: { tools?: string[] | undefined },
): { tools?: string[] } {
  if (!known?.tools) return own.tools ? { tools: own.tools } : {};
  return { tools: own.tools ? known.tools.filter((tool) => own.tools?.includes(tool)) : known.tools };
}

/** A child starts no server of its own. It may do without one of its family, or with fewer of its tools. */
function serversOf(family: Layered['mcpServers'], child: Layered['mcpServers']): Layered['mcpServers'] {
  const both: McpServers = byName(family);
  for (const [name, own] of Object.entries(child ?? {})) {
    const known: McpServer | undefined = both[name];
    if (!known) continue;
    both[name] = { ...known, ...toolsBoth(known, own), ...(own.disabled === true && { disabled: true }) };
  }
  return both;
}

const isWithin = (folders: readonly string[], path: string): boolean =>
  !path.split('/').includes('..') && folders.some((folder) => path === folder || path.startsWith(`${folder}/`));

/** What a child session says and what does not hold, as its keys. */
function leftOut(holds: Layered, child: Settings): string[] {
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
