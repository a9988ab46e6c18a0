import { type BrowserState, NO_BROWSER } from '../workspace/handover.ts';
import { NO_NOTES, type Notes } from '../workspace/memory-notes.ts';
import type { PeriodBudgets } from './budgets.ts';
import { type CheckpointLimits, resolveCheckpoints } from './checkpoint-limits.ts';
import type { AgentProfile, Config, Settings, sharedSettings } from './config.ts';
import {
  type EnvironmentSettings,
  limitsWithEnvironment,
  modelFromEnvironment,
  settingsFromEnvironment,
} from './environment-settings.ts';
import type { McpServers } from './mcp-config.ts';
import type { ModelRoles, ModelSettings } from './model-settings.ts';
import type { Permissions } from './permissions.ts';
import { type Mode, type ResolvedLimits, resolveLimits } from './run-options.ts';

/** The sources of settings, in order of precedence: flags, environment, the session's file, the workspace's file. */
export type SettingsSources = {
  flags?: ModelSettings | undefined;
  env?: Readonly<Record<string, string | undefined>> | undefined;
  /** `agentd.json`. */
  workspace?: Config | undefined;
  /** `session.json`: for a child session, that of its root. */
  session?: Settings | undefined;
};

/** Every key of both files, with the values for one session; undefined means the default. */
export type LayeredSettings = { [K in keyof Required<Config & Settings>]: (Config & Settings)[K] | undefined };

/** The settings that apply to one session. */
export type EffectiveSettings = {
  /** Every key before defaults; `model` with flags and environment. */
  settings: LayeredSettings;
  rules: Rules;
  model: EffectiveModel;
  sandbox: SandboxSettings;
  permissions: Permissions;
  retention: { recordDays: number; filesDays: number };
  checkpoints: CheckpointLimits;
  /** Those in `session.json` alone. */
  ownBudgets: PeriodBudgets | undefined;
  mcpServers: McpServers;
  readAlso: readonly string[];
};

/** The only place where settings are merged. Pure. Throws UserError for a variable that is wrong. */
export function resolveSettings({ flags, env = {}, workspace = {}, session = {} }: SettingsSources): EffectiveSettings {
  const model = resolveModel({ flags, env, workspace, session });
  const settings = overlaySettings(workspace, session, { ...settingsFromEnvironment(env), model });
  const home = env['HOME'];
  return {
    settings,
    rules: resolveRules(settings),
    model,
    sandbox: resolveSandbox(settings),
    permissions: {
      mode: settings.approvals ?? 'ask',
      session: session.permissions ?? [],
      workspace: workspace.permissions ?? [],
    },
    retention: resolveRetention(settings),
    checkpoints: resolveCheckpoints(settings),
    ownBudgets: session.budgets,
    mcpServers: settings.mcpServers ?? {},
    readAlso: (settings.read_also ?? []).map((folder) => (home ? folder.replace(/^~(?=\/|$)/, home) : folder)),
  };
}

type GivenSettings = EnvironmentSettings & { model: EffectiveModel };

/** The workspace's settings with those of a session merged over them. */
function overlaySettings(workspace: Config, session: Settings, given: GivenSettings): LayeredSettings {
  return {
    $schema: session.$schema ?? workspace.$schema,
    version: session.version ?? workspace.version,
    title: session.title,
    model: given.model,
    models: workspace.models,
    model_for: { ...workspace.model_for, ...session.model_for },
    mode: session.mode ?? workspace.mode,
    limits: limitsWithEnvironment({ ...workspace.limits, ...session.limits }, given.limits),
    agents: mergeByName<AgentProfile>(workspace.agents, session.agents),
    unknown_agent: session.unknown_agent ?? workspace.unknown_agent,
    on_limit: session.on_limit ?? workspace.on_limit,
    sandbox: session.sandbox ?? workspace.sandbox,
    approvals: session.approvals ?? workspace.approvals,
    permissions: session.permissions,
    network: { ...workspace.network, ...session.network },
    language: given.language ?? session.language ?? workspace.language,
    instructions: [workspace.instructions, session.instructions].filter(Boolean).join('\n\n'),
    read_also: [...(workspace.read_also ?? []), ...(session.read_also ?? [])],
    senders: session.senders ?? workspace.senders,
    secrets: [...(workspace.secrets ?? []), ...(session.secrets ?? [])],
    retention: { ...workspace.retention, ...session.retention },
    checkpoints: { ...workspace.checkpoints, ...session.checkpoints },
    mcpServers: mergeByName(workspace.mcpServers, session.mcpServers),
    memory: session.memory ?? workspace.memory,
    recall: session.recall ?? workspace.recall,
    disk: workspace.disk,
    allow_network_fs: workspace.allow_network_fs,
    search: workspace.search,
    browser: workspace.browser,
    concurrency: workspace.concurrency,
    notify: workspace.notify,
    public_url: workspace.public_url,
    channels: workspace.channels,
    // For people who look: those of the workspace hold too, so that a session can only lower its own.
    budgets: { ...workspace.budgets, ...session.budgets },
  };
}

/** Later ones win. Names come from outside: none is looked up in `Object.prototype`. */
function mergeByName<T>(...layers: Array<Readonly<Record<string, T>> | undefined>): Record<string, T> {
  const all: Record<string, T> = Object.create(null);
  for (const layer of layers) Object.assign(all, layer);
  return all;
}

/** The endpoint and the model of a session. `body` and `headers` are merged from all sources for this address. */
export type EffectiveModel = ModelSettings & {
  /** The variables that headers may name. */
  secrets?: readonly string[];
  /** The entries of `models`, each with what it shares with the common model. */
  named?: Readonly<Record<string, EffectiveModel>>;
  /**
   * No key is sent, because only `session.json` names the address: it names no key (`unnamed`), or a variable that
   * `secrets` in `agentd.json` does not list (`unlisted`).
   */
  no_key?: 'unnamed' | 'unlisted';
};

/** OpenAI's own address and key apply if nothing names another. */
export const OPENAI_URL = 'https://api.openai.com/v1';
export const OPENAI_KEY = 'OPENAI_API_KEY';

/**
 * A key goes only to the origin of the address that it was set for. So those of `agentd.json`, the environment and the
 * flags never go to an address that `session.json` alone names, and that file may name only keys that `agentd.json`
 * lists.
 */
function resolveModel(sources: SettingsSources): EffectiveModel {
  const model = resolveEndpoint(sources);
  const { body, headers } = resolveExtras(sources, model.base_url ?? OPENAI_URL);
  const { secrets } = sources.workspace ?? {};
  const { body: _, headers: __, ...rest } = model;
  const named = resolveNamedModels(sources);
  return {
    ...rest,
    ...(body && { body }),
    ...(headers && { headers, ...(secrets && { secrets }) }),
    ...(named && { named }),
  };
}

/** Only `agentd.json` names endpoints: a `session.json` chooses among them. */
function resolveNamedModels({ flags, env = {}, workspace = {} }: SettingsSources): EffectiveModel['named'] {
  const { models, secrets } = workspace;
  if (!models) return undefined;
  const common = mergeModelSettings([workspace.model, modelFromEnvironment(env), flags]);
  // What belongs to one model is not shared.
  const { name: _, prices, context_window, images, fallback, max_tokens, api, tool_calls, ...shared } = common;
  const entries = Object.entries(models).map(([name, own]): [string, EffectiveModel] => {
    const isNear = own.base_url === undefined || isSameOrigin(own.base_url, common.base_url ?? OPENAI_URL);
    const from: ModelSettings = isNear ? shared : {};
    return [
      name,
      {
        ...{ ...from, name, ...own },
        ...((from.body ?? own.body) && { body: { ...from.body, ...own.body } }),
        ...((from.headers ?? own.headers) && { headers: { ...from.headers, ...own.headers } }),
        ...(secrets && { secrets }),
      },
    ];
  });
  return Object.fromEntries(entries);
}

/** What is added to a request, from the sources that set it for this origin; later ones win key by key. */
function resolveExtras(
  { flags, env = {}, workspace, session }: SettingsSources,
  at: string,
): Pick<ModelSettings, 'body' | 'headers'> {
  const common = mergeModelSettings([workspace?.model, modelFromEnvironment(env), flags]).base_url;
  const layers = [
    { settings: workspace?.model, for: workspace?.model?.base_url ?? common },
    { settings: session?.model, for: session?.model?.base_url ?? common },
    { settings: modelFromEnvironment(env), for: common },
  ].filter((layer) => layer.settings && isSameOrigin(layer.for ?? OPENAI_URL, at));
  const merged = <T>(of: (settings: ModelSettings) => T | undefined): T | undefined => {
    const all = layers.flatMap(({ settings }) => (settings && of(settings)) ?? []);
    return all.length > 0 ? Object.assign({}, ...all) : undefined;
  };
  return { body: merged(({ body }) => body), headers: merged(({ headers }) => headers) };
}

function resolveEndpoint({ flags = {}, env = {}, workspace = {}, session = {} }: SettingsSources): EffectiveModel {
  const environment = modelFromEnvironment(env);
  const common = mergeModelSettings([workspace.model, environment, flags]);
  const own = session.model ?? {};
  const { api_key_env: _, ...endpoint } = { ...workspace.model, ...own, ...environment, ...flags };
  const at = endpoint.base_url ?? OPENAI_URL;
  const ownKey = own.base_url === undefined || isSameOrigin(own.base_url, at) ? own.api_key_env : undefined;
  if (isSameOrigin(at, common.base_url ?? OPENAI_URL)) {
    const key = flags.api_key_env ?? ownKey ?? common.api_key_env;
    return { ...endpoint, ...(key !== undefined && { api_key_env: key }) };
  }
  if (isSameOrigin(at, OPENAI_URL) && (ownKey ?? OPENAI_KEY) === OPENAI_KEY) return endpoint;
  if (ownKey === undefined) return { ...endpoint, no_key: 'unnamed' };
  return workspace.secrets?.includes(ownKey)
    ? { ...endpoint, api_key_env: ownKey }
    : { ...endpoint, no_key: 'unlisted' };
}

/** Later layers win key by key. A key that was set for one URL is not sent to another. */
function mergeModelSettings(layers: ReadonlyArray<ModelSettings | undefined>): ModelSettings {
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

/** How many days things are kept; 0: forever. */
export function resolveRetention({ retention }: Pick<Config, 'retention'>): { recordDays: number; filesDays: number } {
  return { recordDays: retention?.log_days ?? 90, filesDays: retention?.files_days ?? 30 };
}

/** Where commands run: `sandbox` and `network.shell`. */
function resolveSandbox({ sandbox, network }: Pick<Config, 'sandbox' | 'network'>): SandboxSettings {
  return { mode: sandbox ?? 'auto', network: network?.shell ?? false };
}

export type SandboxSettings = { mode: 'auto' | 'bwrap' | 'none'; network: boolean };

/** The languages in which the daemon itself answers. */
export type Language = 'en' | 'zh';

/** Configuration with every default filled in, as used by the engine and the core. */
export type Rules = {
  mode: Mode;
  limits: ResolvedLimits;
  onLimit: 'pause' | 'extend';
  unknownAgent: 'self' | 'first' | 'fail';
  language: Language | undefined;
  instructions: string;
  contextWindow: number;
  model: string | undefined;
  /** Models by role; a role that is missing has the run's. */
  modelFor: ModelRoles;
  models: readonly string[];
  agents: Readonly<Record<string, AgentProfile>>;
  /** Running background commands, in words. Filled in by the engine. */
  jobs: readonly string[];
  /** The session's browser, as of now. Filled in by the engine. */
  browser: BrowserState;
  /** Whether checkpoints of `work/` are taken. Filled in by the engine. */
  checkpoints: boolean;
  /** Files a reply may attach, and whether they exist. Filled in by the engine when it was asked to look. */
  filesThere?: ReadonlyMap<string, boolean>;
  /** Whose messages are orders; undefined: everybody's. */
  senders: readonly string[] | undefined;
  /** Why nothing may be done: a settings file is invalid, and no valid one was read before. Null: they are valid. */
  settingsFault: string | null;
  /** What is wrong with a settings file while the last valid settings are in force. */
  settingsWarning: string | null;
  /** Filled in by the engine when a run starts or resumes, and unchanged until it ends. */
  notes: Notes;
};

export const DEFAULT_CONTEXT_WINDOW = 128_000;

/** The rules from settings, with every default filled in. `resolveSettings` merges the layers. */
export function resolveRules(settings: Pick<Config & Settings, keyof typeof sharedSettings | 'models'> = {}): Rules {
  return {
    mode: settings.mode ?? 'linear',
    limits: resolveLimits(settings.limits),
    onLimit: settings.on_limit ?? 'pause',
    unknownAgent: settings.unknown_agent ?? 'self',
    language: settings.language,
    instructions: settings.instructions ?? '',
    contextWindow: settings.model?.context_window ?? DEFAULT_CONTEXT_WINDOW,
    model: settings.model?.name,
    modelFor: settings.model_for ?? {},
    models: Object.keys(settings.models ?? {}),
    agents: settings.agents ?? {},
    jobs: [],
    browser: NO_BROWSER,
    checkpoints: false,
    senders: settings.senders,
    settingsFault: null,
    settingsWarning: null,
    notes: NO_NOTES,
  };
}
