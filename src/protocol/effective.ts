import {
  type Config,
  type ModelSettings,
  type Rules,
  resolveRules,
  type SandboxWish,
  type Settings,
} from './config.ts';
import { type Layered, modelOf, overlaid } from './layers.ts';
import type { McpServers } from './mcp.ts';
import { narrowed } from './narrowed.ts';
import type { Permissions } from './permissions.ts';

/** What settings are made of. What is named here first wins: flags, environment, files of the session, file of the workspace. */
export type SettingsSources = {
  flags?: ModelSettings | undefined;
  env?: Readonly<Record<string, string | undefined>> | undefined;
  /** `agentd.json`. */
  workspace?: Config | undefined;
  /** `session.json` of the root of the family, then of each session below it, the session itself last. */
  sessions?: ReadonlyArray<Settings | undefined> | undefined;
};

/** The settings one session goes by. */
export type Effective = {
  /** Every key as it holds, before defaults; `model` with flags and environment. */
  settings: Layered;
  rules: Rules;
  model: ModelSettings;
  sandbox: SandboxWish;
  permissions: Permissions;
  retention: { recordDays: number; filesDays: number };
  mcpServers: McpServers;
  readAlso: readonly string[];
  /** Settings of a child session that would loosen what its root says: they do not hold. */
  leftOut: string[];
};

/** The one place where settings are laid over each other. Pure. How a family inherits each key: see `narrowed`. */
export function effectiveSettings({ flags, env = {}, workspace = {}, sessions = [] }: SettingsSources): Effective {
  const [root = {}, ...children] = sessions;
  const leftOut: string[] = [];
  let settings = overlaid(workspace, root);
  for (const child of children) {
    if (!child) continue;
    const next = narrowed(settings, child);
    settings = next.settings;
    leftOut.push(...next.leftOut);
  }
  settings.model = modelOf([settings.model, modelOfEnvironment(env), flags]);
  const home = env['HOME'];
  return {
    settings,
    rules: resolveRules(settings),
    model: settings.model,
    sandbox: sandboxOf(settings),
    permissions: {
      mode: settings.approvals ?? 'ask',
      session: root.permissions ?? [],
      workspace: workspace.permissions ?? [],
      children: children.flatMap((child) => (child?.permissions ? [child.permissions] : [])),
    },
    retention: retentionOf(settings),
    mcpServers: settings.mcpServers ?? {},
    readAlso: (settings.read_also ?? []).map((folder) => (home ? folder.replace(/^~(?=\/|$)/, home) : folder)),
    leftOut,
  };
}

function modelOfEnvironment(env: NonNullable<SettingsSources['env']>): ModelSettings {
  const { OPENAI_BASE_URL: url, OPENAI_MODEL: name } = env;
  return { ...(url && { base_url: url }), ...(name && { name }) };
}

/** Days that things are kept; 0: for ever. */
export function retentionOf({ retention }: Pick<Config, 'retention'>): { recordDays: number; filesDays: number } {
  return { recordDays: retention?.record_days ?? 90, filesDays: retention?.files_days ?? 30 };
}

/** Where commands run. */
function sandboxOf({ sandbox, network }: Pick<Config, 'sandbox' | 'network'>): SandboxWish {
  return { mode: sandbox ?? 'auto', network: network?.shell ?? false };
}
