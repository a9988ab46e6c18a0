import { existsSync } from 'node:fs';
import { errorText } from '../base/user-error.ts';
import { READING_SETTINGS } from '../daemon/crashes/crash-loop-guard.ts';
import type { SessionPorts } from '../engine/ports/session-ports.ts';
import type { Config, Settings } from '../protocol/settings/config.ts';
import { type EffectiveSettings, resolveSettings } from '../protocol/settings/effective-settings.ts';
import { SECRET_NAME_PATTERN } from '../protocol/settings/env-variable.ts';
import type { ModelSettings } from '../protocol/settings/model-settings.ts';
import { findUnknownMcpServers } from '../protocol/tool-calls/tool-names.ts';
import { type DaemonStatus, MAX_LISTED } from '../protocol/workspace/daemon-files.ts';
import {
  checkConfig,
  checkSettings,
  existingRootOf,
  type HotReloadedSettings,
  hotReloadSettings,
  type SettingsState,
  sessionPaths,
  type Workspace,
  watchFolderIdentity,
} from '../store/index.ts';

/** How often invalid files, and those of active sessions, are checked. */
const CHECK_MS = 1000;
/** How long a session counts as active after its settings were last used. */
const IN_USE_MS = 60_000;

export type LiveSettingsOptions = {
  workspace: Pick<Workspace, 'paths' | 'has' | 'settingsReader' | 'configText'>;
  configFile: string;
  /** Reads a file other than the workspace's `agentd.json`. */
  readConfig?: (() => string | undefined) | undefined;
  flags: ModelSettings;
  env: NodeJS.ProcessEnv;
  log: SessionPorts['log'];
  clock: Pick<SessionPorts['clock'], 'now' | 'elapsed'>;
  /** Receives all valid settings before they take effect. */
  learn: (settings: Config | Settings) => void;
  /** Settings that a session waited for are valid now. Called only by timers, never by code that reads settings. */
  wake: (name: string) => void;
  /** Runs blocking code under the watchdog, as a step of that session. */
  runGuarded: <T>(name: string, what: string, run: () => T) => T;
};

/**
 * The settings of one session. `waits`: why no work is done in it: a file is invalid and no valid version was read.
 */
export type SessionSettings = EffectiveSettings & { waits: string | null };

/** The settings of the workspace and of its sessions, as their files are now. */
export type LiveSettings = {
  config(): Config;
  /** Reads `agentd.json` again if it changed. */
  reload(): void;
  /**
   * The settings of one session; a child session uses the `session.json` of its root. Files that changed are read again
   * at each call. Wakes no session.
   */
  forSession(name: string): () => SessionSettings;
  /** State of the settings files, for the status file. */
  status(): DaemonStatus['settings'];
  close(): void;
};

type SettingsEntry = {
  isSame: () => boolean;
  file: HotReloadedSettings<Settings>;
  used: number;
  /** Valid but suspicious settings that were logged. */
  warned: readonly string[];
  /** Where the settings came from when its session was last woken for a change, or first read. */
  announced?: SettingsState<Settings>['from'];
};

export function openLiveSettings(options: LiveSettingsOptions): LiveSettings {
  const { workspace, configFile, flags, env, log, clock, wake, learn } = options;
  const sessions = openSessionFiles(options);
  const { files } = sessions;
  const waiting = new Map<string, () => SessionSettings>();
  const ignored = ignoredFiles(workspace, log);
  const config = workspaceSettings(options);
  let wasUsable = config.reload().from !== 'nothing';

  function forSession(name: string): () => SessionSettings {
    sessions.forgetGone(existingRootOf(name, workspace.has));
    let last: { from: readonly unknown[]; value: SessionSettings } | undefined;
    const now = (): SessionSettings => {
      const root = existingRootOf(name, workspace.has);
      if (root !== name) ignored.warn(name, root);
      const entry = sessions.entryOf(root);
      entry.used = clock.elapsed();
      const current = [config.reload(), sessions.reload(name, entry)] as const;
      entry.announced ??= current[1].from;
      if (!last || current.some((one, place) => one !== last?.from[place])) {
        const [{ value: workspaceValue }, { value: session }] = current;
        const value = resolveSettings({ flags, env, workspace: workspaceValue, session });
        last = { from: current, value: withFaults(value, current) };
        if (last.value.waits !== null) learn({ secrets: likelySecrets(env) });
        sessions.warnOnce(root, unknownServers(root, value));
      }
      // Wakes no session: the caller may be that session's own loop, in the middle of an iteration.
      if (last.value.waits !== null) waiting.set(name, now);
      return last.value;
    };
    return now;
  }

  /** Wakes the sessions whose settings became valid. */
  function wakeWaiting(): void {
    for (const [name, now] of waiting) {
      if (workspace.has(name) && now().waits !== null) continue;
      waiting.delete(name);
      if (!workspace.has(name)) continue;
      sessions.announce(name);
      wake(name);
    }
  }

  /**
   * Applies and reports a change even if no session asks for settings; a session left without valid settings has to
   * report that. Compares with what was announced: another reader, such as a child session, may have seen it first.
   */
  function check(): void {
    wakeWaiting();
    const isUsable = config.reload().from !== 'nothing';
    if (wasUsable && !isUsable) for (const name of files.keys()) wake(name);
    wasUsable = isUsable;
    ignored.forgetGone();
    sessions.reloadUsed();
    if (clock.elapsed() - cleanedAt < IN_USE_MS) return;
    cleanedAt = clock.elapsed();
    sessions.forgetAllGone();
  }

  let cleanedAt = clock.elapsed();
  const timer = setInterval(retried(check, log), CHECK_MS);
  timer.unref();

  return {
    config: () => config.reload().value,
    reload: () => void config.reload(),
    forSession,
    status: () => settingsStatus(configFile, config.current, files),
    close: () => clearInterval(timer),
  };
}

/** For a timer, where an error would end the daemon: such as a folder that cannot be looked at. Each is logged once. */
function retried(check: () => void, log: LiveSettingsOptions['log']): () => void {
  let last = '';
  return () => {
    let failure = '';
    try {
      check();
    } catch (error) {
      failure = errorText(error);
      if (failure !== last) log('warn', `checking the settings failed and is retried: ${failure}`);
    }
    last = failure;
  };
}

function workspaceSettings(options: LiveSettingsOptions): HotReloadedSettings<Config> {
  const { workspace, configFile, readConfig, learn, clock, log } = options;
  return hotReloadSettings<Config>({
    ...{ label: configFile, read: readConfig ?? workspace.configText, defaults: {}, beforeApply: learn, clock, log },
    check: (text) => checkConfig(text, configFile),
  });
}

/** The `session.json` of each root session, which also applies to its child sessions. */
function openSessionFiles({ workspace, learn, clock, log, runGuarded, wake }: LiveSettingsOptions) {
  const files = new Map<string, SettingsEntry>();
  const reload = (owner: string, { file }: SettingsEntry): SettingsState<Settings> =>
    runGuarded(owner, READING_SETTINGS, () => file.reload());

  /** A session recreated under an old name inherits nothing from the earlier one. */
  function forgetGone(name: string): void {
    const entry = files.get(name);
    if (entry && !(workspace.has(name) && entry.isSame())) files.delete(name);
  }

  return {
    files,
    entryOf(name: string): SettingsEntry {
      const known = files.get(name);
      if (known) return known;
      const label = `${name}/session.json`;
      const folder = workspace.paths.session(name);
      const read = workspace.settingsReader(name);
      const file = hotReloadSettings<Settings>({
        ...{ label, defaults: {}, beforeApply: learn, clock, log },
        read: () => (workspace.has(name) ? read() : undefined),
        check: (text) => checkSettings(text, label),
      });
      const entry: SettingsEntry = { isSame: watchFolderIdentity(folder), file, used: clock.elapsed(), warned: [] };
      files.set(name, entry);
      return entry;
    },
    reload,
    forgetGone,
    forgetAllGone: () => [...files.keys()].forEach(forgetGone),
    /** An unused file keeps its last valid version, and is not looked at each second: there may be thousands. */
    reloadUsed(): void {
      for (const [name, entry] of files) {
        const { used, file, warned } = entry;
        const isInUse = clock.elapsed() - used < IN_USE_MS;
        const isReported = file.needsReload || file.current.warnings.length + warned.length > 0;
        if (isInUse || isReported) forgetGone(name);
        else if (file.current.since === null) files.delete(name);
        if (!files.has(name) || !(isInUse || file.needsReload)) continue;
        const { from } = reload(name, entry);
        if (from !== (entry.announced ?? from)) wake(name);
        entry.announced = from;
      }
    },
    announce(name: string): void {
      const entry = files.get(name);
      if (entry) entry.announced = entry.file.current.from;
    },
    /** Logs warnings about valid but suspicious settings, each once. */
    warnOnce(name: string, warnings: readonly string[]): void {
      const entry = files.get(name);
      if (!entry || String(entry.warned) === String(warnings)) return;
      entry.warned = warnings;
      for (const one of warnings) log('warn', one);
    },
  };
}

/** Logs each settings file that a child session ignores, once. */
function ignoredFiles(workspace: LiveSettingsOptions['workspace'], log: SessionPorts['log']) {
  const logged = new Set<string>();
  return {
    warn(child: string, root: string): void {
      if (logged.has(child) || !existsSync(sessionPaths(workspace.paths.session(child)).settings)) return;
      logged.add(child);
      log('warn', `${child}/session.json is ignored: child sessions use the settings of ${root}`);
    },
    forgetGone(): void {
      for (const name of logged) if (!workspace.has(name)) logged.delete(name);
    },
  };
}

function settingsStatus(
  file: string,
  { value: _, ...workspaces }: SettingsState<Config>,
  files: ReadonlyMap<string, SettingsEntry>,
): DaemonStatus['settings'] {
  const sessions = [...files].flatMap(([name, { file, warned }]) => {
    const { fault, from, since, warnings } = file.current;
    const all = [...warnings, ...warned];
    return fault === null && all.length === 0 ? [] : [{ session: name, from, since, fault, warnings: all }];
  });
  return {
    ...{ file, ...workspaces, warnings: [...workspaces.warnings] },
    ...{ total: sessions.length, sessions: sessions.slice(0, MAX_LISTED) },
  };
}

/** Settings together with the faults of the files they come from. */
function withFaults(
  value: EffectiveSettings,
  files: ReadonlyArray<Pick<SettingsState<unknown>, 'from' | 'fault'>>,
): SessionSettings {
  const waits = files.find(({ from }) => from === 'nothing')?.fault ?? null;
  if (waits !== null) return lockedDown(value, waits);
  const faults = files.flatMap(({ fault }) => fault ?? []);
  const settingsWarning = faults.length > 0 ? faults.join('\n') : null;
  return { ...value, waits, rules: { ...value.rules, settingsWarning } };
}

function unknownServers(session: string, { settings, permissions, mcpServers }: EffectiveSettings): string[] {
  const rules = [...permissions.workspace, ...permissions.session];
  const unknown = findUnknownMcpServers({ agents: settings.agents, permissions: rules }, mcpServers);
  return unknown.map((one) => `${session}: ${one}`);
}

/** The variables that an invalid file may name as secrets. */
const likelySecrets = (env: NodeJS.ProcessEnv): string[] =>
  Object.keys(env).filter((key) => SECRET_NAME_PATTERN.test(key));

/** Without valid settings nothing is allowed, and nothing is deleted. */
function lockedDown(value: EffectiveSettings, waits: string): SessionSettings {
  return {
    ...value,
    waits,
    rules: { ...value.rules, settingsFault: waits },
    settings: { ...value.settings, memory: 'session', recall: 'session' },
    sandbox: { mode: 'bwrap', network: false },
    permissions: { mode: 'safe', session: [], workspace: [{ deny: '*' }] },
    mcpServers: {},
    readAlso: [],
    retention: { recordDays: 0, filesDays: 0 },
  };
}
