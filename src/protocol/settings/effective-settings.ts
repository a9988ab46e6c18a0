import { NO_NOTES, type Notes } from '../workspace/memory-notes.ts';
import type { AgentProfile, Config, ModelSettings, Settings, sharedSettings } from './config.ts';
import type { McpServers } from './mcp-config.ts';
import type { Permissions } from './permissions.ts';
import { MODES, type Mode, type ResolvedLimits, resolveLimits } from './run-options.ts';
import { type LayeredSettings, mergeModelSettings, overlaySettings, tightenForChild } from './settings-layers.ts';

/**
 * What settings are made of. What is named here first wins: flags, environment, files of the session, file of the
 * workspace.
 */
export type SettingsSources = {
  flags?: ModelSettings | undefined;
  env?: Readonly<Record<string, string | undefined>> | undefined;
  /** `agentd.json`. */
  workspace?: Config | undefined;
  /** `session.json` of the root of the family, then of each session below it, the session itself last. */
  sessions?: ReadonlyArray<Settings | undefined> | undefined;
};

/** The settings one session goes by. */
export type EffectiveSettings = {
  /** Every key as it holds, before defaults; `model` with flags and environment. */
  settings: LayeredSettings;
  rules: Rules;
  model: ModelSettings;
  sandbox: SandboxSettings;
  permissions: Permissions;
  retention: { recordDays: number; filesDays: number };
  mcpServers: McpServers;
  readAlso: readonly string[];
  /** Settings of a child session that would loosen what its root says: they do not hold. */
  leftOut: string[];
};

/**
 * The one place where settings are laid over each other. Pure. How a family inherits each key: see `tightenForChild`.
 */
export function resolveSettings({
  flags,
  env = {},
  workspace = {},
  sessions = [],
}: SettingsSources): EffectiveSettings {
  const [root = {}, ...children] = sessions;
  const leftOut: string[] = [];
  let settings = overlaySettings(workspace, root);
  for (const child of children) {
    if (!child) continue;
    const next = tightenForChild(settings, child);
    settings = next.settings;
    leftOut.push(...next.leftOut);
  }
  settings.model = mergeModelSettings([settings.model, modelFromEnvironment(env), flags]);
  const home = env['HOME'];
  return {
    settings,
    rules: resolveRules(settings),
    model: settings.model,
    sandbox: resolveSandbox(settings),
    permissions: {
      mode: settings.approvals ?? 'ask',
      session: root.permissions ?? [],
      workspace: workspace.permissions ?? [],
      children: children.flatMap((child) => (child?.permissions ? [child.permissions] : [])),
    },
    retention: resolveRetention(settings),
    mcpServers: settings.mcpServers ?? {},
    readAlso: (settings.read_also ?? []).map((folder) => (home ? folder.replace(/^~(?=\/|$)/, home) : folder)),
    leftOut,
  };
}

function modelFromEnvironment(env: NonNullable<SettingsSources['env']>): ModelSettings {
  const { OPENAI_BASE_URL: url, OPENAI_MODEL: name } = env;
  return { ...(url && { base_url: url }), ...(name && { name }) };
}

/** Days that things are kept; 0: for ever. */
export function resolveRetention({ retention }: Pick<Config, 'retention'>): { recordDays: number; filesDays: number } {
  return { recordDays: retention?.record_days ?? 90, filesDays: retention?.files_days ?? 30 };
}

/** Where commands run. */
function resolveSandbox({ sandbox, network }: Pick<Config, 'sandbox' | 'network'>): SandboxSettings {
  return { mode: sandbox ?? 'auto', network: network?.shell ?? false };
}

/** What a person wants of the sandbox: `sandbox` and `network.shell` of the settings. */
export type SandboxSettings = { mode: 'auto' | 'bwrap' | 'none'; network: boolean };

/** Configuration with every default filled in: what the engine and the core go by. */
export type Rules = {
  mode: Mode;
  /** What `auto` chooses among. */
  modes: readonly Mode[];
  limits: ResolvedLimits;
  onLimit: 'pause' | 'extend';
  unknownAgent: 'self' | 'first' | 'fail';
  language: 'en' | 'zh' | undefined;
  instructions: string;
  contextWindow: number;
  /** A person said how large it is. */
  windowIsSet: boolean;
  model: string | undefined;
  agents: Readonly<Record<string, AgentProfile>>;
  /** Commands in the background that run now, in words. Filled in by the engine. */
  jobs: readonly string[];
  /** Whose messages are orders; undefined: everybody's. */
  senders: readonly string[] | undefined;
  /** Why nothing may be done: a settings file does not hold, and none did before. Null: they hold. */
  settingsFault: string | null;
  /** Filled in by the engine for a run, and the same as long as it goes on. */
  notes: Notes;
};

export const DEFAULT_CONTEXT_WINDOW = 128_000;
export const EXTEND_FACTOR = 5;

/** The rules that settings say, with every default filled in. Layers are laid over each other by `resolveSettings`. */
export function resolveRules(settings: Pick<Config & Settings, keyof typeof sharedSettings> = {}): Rules {
  return {
    mode: settings.mode ?? 'linear',
    modes: settings.modes ?? MODES,
    limits: resolveLimits(settings.limits),
    onLimit: settings.on_limit ?? 'pause',
    unknownAgent: settings.unknown_agent ?? 'self',
    language: settings.language,
    instructions: settings.instructions ?? '',
    contextWindow: settings.model?.context_window ?? DEFAULT_CONTEXT_WINDOW,
    windowIsSet: settings.model?.context_window !== undefined,
    model: settings.model?.name,
    agents: settings.agents ?? {},
    jobs: [],
    senders: settings.senders,
    settingsFault: null,
    notes: NO_NOTES,
  };
}
