import type { World } from './engine/ports.ts';
import type { Config, ModelSettings, Settings } from './protocol/config.ts';
import { type Effective, effectiveSettings } from './protocol/effective.ts';
import { UserError } from './protocol/errors.ts';
import { type DaemonStatus, LISTED } from './protocol/status.ts';
import { unknownServers } from './protocol/tool-names.ts';
import {
  checkConfig,
  checkSettings,
  lastGoodAt,
  lineage,
  type SettingsFile,
  sameFolder,
  sessionPaths,
  settingsFile,
  type Workspace,
} from './store/index.ts';

/** How soon a file that does not hold is looked at again. */
const AGAIN_MS = 200;
/** How often a file is looked at that a session at work goes by; and for how long after it was last asked for. */
const EVERY_MS = 1000;
const USED_MS = 60_000;

export type SettingsOptions = {
  workspace: Pick<Workspace, 'paths' | 'has' | 'settings' | 'configText'>;
  configFile: string;
  /** Reads another file than the workspace's `agentd.json`. */
  readConfig?: (() => string | undefined) | undefined;
  flags: ModelSettings;
  env: NodeJS.ProcessEnv;
  log: World['log'];
  clock: Pick<World['clock'], 'now' | 'elapsed'>;
  /** Told of all settings that hold, before anything goes by them. */
  learn: (settings: Config | Settings) => void;
  /** Settings a session waited for hold now. Called by timers alone, never by whoever asks for settings. */
  wake: (name: string) => void;
};

/** The settings of one session. `waits`: why nothing may be done in it, where a file does not hold and none did before. */
export type SessionSettings = Effective & { waits: string | null };

/** The settings of the workspace and of its sessions, as their files are now. */
export type SettingsDesk = {
  config(): Config;
  /** Reads `agentd.json` again where it changed. */
  reload(): void;
  /** Of one session; its files and those it goes by are read again where they changed, each time this is asked. Wakes nobody. */
  of(name: string): () => SessionSettings;
  /** How it stands with the files, for whoever asks the daemon. */
  told(): DaemonStatus['settings'];
  close(): void;
};

type Entry = { isSame: () => boolean; file: SettingsFile<Settings>; used: number; odd: readonly string[] };

/** Throws UserError where `agentd.json` does not hold and none did before. */
export function openSettings(options: SettingsOptions): SettingsDesk {
  const { workspace, configFile, flags, env, log, clock, learn, wake } = options;
  const { lastGood, lastGoodOf } = workspace.paths;
  const files = new Map<string, Entry>();
  const waiting = new Map<string, () => SessionSettings>();
  const config = settingsFile<Config>({
    ...{ label: configFile, read: options.readConfig ?? workspace.configText, none: {}, learn, clock, log },
    check: (text) => checkConfig(text, configFile),
    copy: lastGoodAt(options.readConfig ? lastGoodOf(configFile) : lastGood),
  });
  const first = config.look();
  if (first.from === 'nothing') throw new UserError(first.fault ?? configFile);

  /** One for each session, for all of its family. */
  function entryOf(name: string): Entry {
    const known = files.get(name);
    if (known) return known;
    const label = `${name}/session.json`;
    const folder = workspace.paths.session(name);
    const read = workspace.settings(name);
    const file = settingsFile<Settings>({
      ...{ label, none: {}, learn, clock, log },
      read: () => (workspace.has(name) ? read() : undefined),
      check: (text) => checkSettings(text, label),
      copy: lastGoodAt(sessionPaths(folder).lastGood),
    });
    const entry: Entry = { isSame: sameFolder(folder), file, used: clock.elapsed(), odd: [] };
    files.set(name, entry);
    return entry;
  }

  /** A session that was made anew under an old name has nothing of the one before it. */
  function forgetGone(name: string): void {
    const entry = files.get(name);
    if (entry && !(workspace.has(name) && entry.isSame())) files.delete(name);
  }

  function of(name: string): () => SessionSettings {
    for (const one of lineage(name)) forgetGone(one);
    let last: { from: readonly unknown[]; value: SessionSettings } | undefined;
    const now = (): SessionSettings => {
      const entries = lineage(name).map(entryOf);
      for (const entry of entries) entry.used = clock.elapsed();
      const held = [config.look(), ...entries.map(({ file }) => file.look())] as const;
      if (!last || held.some((one, place) => one !== last?.from[place])) {
        const [above, ...sessions] = held;
        const value = effectiveSettings({
          ...{ flags, env, workspace: above.value },
          sessions: sessions.map((one) => one.value),
        });
        const waits = held.find((one) => one.from === 'nothing')?.fault ?? null;
        last = { from: held, value: waits === null ? { ...value, waits } : closed(value, waits) };
        const { workspace: top, session, children = [] } = value.permissions;
        const rules = [...top, ...session, ...children.flat()];
        const odd = unknownServers({ agents: value.settings.agents, permissions: rules }, value.mcpServers);
        tellOdd(name, [...value.leftOut.map((key) => leftOutOf(name, key)), ...odd.map((one) => `${name}: ${one}`)]);
      }
      // Nobody is woken from here: it may be the session's own loop that asks, in the middle of something.
      if (last.value.waits !== null) waiting.set(name, now);
      return last.value;
    };
    return now;
  }

  /** What holds, but not as it was probably meant. */
  function tellOdd(name: string, odd: readonly string[]): void {
    const entry = files.get(name);
    if (!entry || String(entry.odd) === String(odd)) return;
    entry.odd = odd;
    for (const one of odd) log('warn', one);
  }

  function again(): void {
    if (config.unsettled) config.look();
    for (const [name, { file }] of files) {
      if (!file.unsettled) continue;
      forgetGone(name);
      if (files.has(name)) file.look();
    }
    for (const [name, now] of waiting) {
      if (workspace.has(name) && now().waits !== null) continue;
      waiting.delete(name);
      if (workspace.has(name)) wake(name);
    }
  }

  /** A change is taken, and said, while nobody asks for it; a session that has nothing to go by from now on has to say so. */
  function everySecond(): void {
    const couldGoOn = config.held.from !== 'nothing';
    config.look();
    if (couldGoOn && config.held.from === 'nothing') for (const name of files.keys()) wake(name);
    for (const [name, { used, file, odd }] of files) {
      if (!workspace.has(name)) files.delete(name);
      else if (clock.elapsed() - used < USED_MS) {
        const before = file.held.from;
        if (file.look().from !== before) wake(name);
      } else if (!file.unsettled && file.held.warnings.length + odd.length === 0) files.delete(name);
    }
  }

  const timers = [setInterval(again, AGAIN_MS), setInterval(everySecond, EVERY_MS)];
  for (const timer of timers) timer.unref();

  return {
    config: () => config.look().value,
    reload: () => void config.look(),
    of,
    told() {
      const { value: _, ...workspaces } = config.held;
      const sessions = [...files].flatMap(([name, { file, odd }]) => {
        const { fault, from, since, warnings } = file.held;
        const all = [...warnings, ...odd];
        return fault === null && all.length === 0 ? [] : [{ session: name, from, since, fault, warnings: all }];
      });
      return {
        ...{ file: configFile, ...workspaces, warnings: [...workspaces.warnings] },
        ...{ total: sessions.length, sessions: sessions.slice(0, LISTED) },
      };
    },
    close() {
      for (const timer of timers) clearInterval(timer);
    },
  };
}

const leftOutOf = (name: string, key: string): string =>
  `${name}/session.json: ${key} is left out: a child session can only tighten what its root says`;

/** Nobody knows what was to be allowed, so nothing is. */
function closed(value: Effective, waits: string): SessionSettings {
  return {
    ...value,
    waits,
    rules: { ...value.rules, settingsFault: waits },
    settings: { ...value.settings, memory: 'session', recall: 'session' },
    sandbox: { mode: 'bwrap', network: false },
    permissions: { mode: 'safe', session: [], workspace: [{ deny: '*' }] },
    mcpServers: {},
    readAlso: [],
  };
}
