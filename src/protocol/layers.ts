import type { Agent, Config, ModelSettings, Settings } from './config.ts';

/** Every key of both files, with what holds for one session; undefined where the default does. */
export type Layered = { [K in keyof Required<Config & Settings>]: (Config & Settings)[K] | undefined };

/** The workspace's settings with those of a session on its own, or of the root of a family, laid over them. */
export function overlaid(workspace: Config, root: Settings): Layered {
  return {
    $schema: root.$schema ?? workspace.$schema,
    version: root.version ?? workspace.version,
    title: root.title,
    model: modelOf([workspace.model, root.model]),
    mode: root.mode ?? workspace.mode,
    modes: root.modes ?? workspace.modes,
    limits: { ...workspace.limits, ...root.limits },
    agents: byName<Agent>(workspace.agents, root.agents),
    unknown_agent: root.unknown_agent ?? workspace.unknown_agent,
    on_limit: root.on_limit ?? workspace.on_limit,
    sandbox: root.sandbox ?? workspace.sandbox,
    approvals: root.approvals ?? workspace.approvals,
    permissions: root.permissions,
    network: { ...workspace.network, ...root.network },
    language: root.language ?? workspace.language,
    instructions: joined(workspace.instructions, root.instructions),
    read_also: [...(workspace.read_also ?? []), ...(root.read_also ?? [])],
    senders: root.senders ?? workspace.senders,
    secrets: [...(workspace.secrets ?? []), ...(root.secrets ?? [])],
    retention: { ...workspace.retention, ...root.retention },
    mcpServers: byName(workspace.mcpServers, root.mcpServers),
    memory: root.memory ?? workspace.memory,
    recall: root.recall ?? workspace.recall,
    disk: workspace.disk,
    allow_network_fs: workspace.allow_network_fs,
    search: workspace.search,
    browser: workspace.browser,
    concurrency: workspace.concurrency,
  };
}

export const joined = (...texts: Array<string | undefined>): string => texts.filter(Boolean).join('\n\n');

/** Later ones win. Names are foreign: nothing is found under one of `Object.prototype`. */
export function byName<T>(...layers: Array<Readonly<Record<string, T>> | undefined>): Record<string, T> {
  const all: Record<string, T> = Object.create(null);
  for (const layer of layers) Object.assign(all, layer);
  return all;
}

/** Later layers win key by key. A key that was named for one address is not sent to another. */
export function modelOf(layers: ReadonlyArray<ModelSettings | undefined>): ModelSettings {
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
