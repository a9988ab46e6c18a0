import type { World } from './engine/ports.ts';
import type { Config, ModelSettings, Settings } from './protocol/config.ts';
import { type Effective, effectiveSettings } from './protocol/effective.ts';
import { errorText } from './protocol/errors.ts';
import { type Checked, checkConfig, checkSettings, lineage, type Workspace } from './store/index.ts';

export type SettingsOptions = {
  workspace: Pick<Workspace, 'has' | 'settings'>;
  configFile: string;
  readConfig: () => string | undefined;
  flags: ModelSettings;
  env: NodeJS.ProcessEnv;
  log: World['log'];
  /** Told of all settings that hold, before anything goes by them. */
  learn: (settings: Config | Settings) => void;
};

/** The settings of the workspace and of its sessions, as their files are now. */
export type SettingsDesk = {
  config(): Config;
  /** Reads `agentd.json` again where it changed. */
  reload(): void;
  /** Of one session; its files and those it goes by are read again where they changed, each time this is asked. */
  of(name: string): () => Effective;
};

/** Throws UserError where `agentd.json` does not hold. */
export function openSettings({
  workspace,
  configFile,
  readConfig,
  flags,
  env,
  log,
  learn,
}: SettingsOptions): SettingsDesk {
  const config = lastGood(log, configFile, readConfig, (text) => checkConfig(text, configFile), learn);
  config.reload(true);
  return {
    config: () => config.value,
    reload: () => config.reload(false),
    of(name) {
      const files = lineage(name).map((one) => {
        const read = workspace.settings(one);
        const text = one === name ? read : () => (workspace.has(one) ? read() : undefined);
        return lastGood(log, `${one}/session.json`, text, (given) => checkSettings(given, 'session.json'), learn);
      });
      let last: { from: Array<Config | Settings>; value: Effective } | undefined;
      return () => {
        for (const file of [config, ...files]) file.reload(false);
        const from = [config.value, ...files.map((file) => file.value)];
        if (last?.from.every((value, place) => value === from[place])) return last.value;
        const sessions = files.map((file) => file.value);
        const value = effectiveSettings({ flags, env, workspace: config.value, sessions });
        for (const key of value.leftOut)
          log('warn', `${name}/session.json: ${key} is left out: a child session can only tighten what its root says.`);
        last = { from, value };
        return value;
      };
    },
  };
}

type Good<T> = { readonly value: T; reload(first: boolean): void };

/**
 * Settings as they were when they last held; a file that does not hold is said once, until it changes its complaint. A text that holds
 * is checked once, however often it is read.
 */
function lastGood<T extends object>(
  log: World['log'],
  file: string,
  read: () => string | undefined,
  check: (text: string | undefined) => Checked<T>,
  take: (value: T) => void,
): Good<T> {
  let value = {} as T;
  let said = '';
  let good = false;
  let held: { text: string | undefined } | undefined;
  const say = (text: string, level: 'warn' | 'error') => {
    if (text !== said && text !== '') log(level, text);
    said = text;
  };
  return {
    get value() {
      return value;
    },
    reload(first) {
      try {
        const before = held;
        held = undefined;
        const text = read();
        const checked = before && before.text === text ? undefined : check(text);
        held = { text };
        if (!checked) return;
        value = checked.value;
        take(value);
        good = true;
        say(checked.warnings.join('\n'), 'warn');
      } catch (error) {
        if (first) throw error;
        const force = good ? 'the last good settings stay in force' : 'the defaults are in force';
        say(`${file}: ${errorText(error)}\nThe file is left as it is; ${force}.`, 'error');
      }
    },
  };
}
