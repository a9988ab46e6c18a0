import { errorText } from '../../base/user-error.ts';
import type { SessionPorts } from '../../engine/ports/session-ports.ts';
import type { CheckedSettings } from './settings-check.ts';

/** A missing file counts as removed after this long: some editors delete the old one before they create the new one. */
const REMOVED_AFTER_MS = 1000;

/** The settings in force, and the state of their file. */
export type SettingsState<T> = {
  value: T;
  /** `nothing`: the file is invalid and this daemon has read no valid version, so nothing may be done by it. */
  from: 'file' | 'last good' | 'nothing';
  /** Why the current file is invalid: the place, what was expected, what was found. */
  fault: string | null;
  /** Parts of the file that were not understood and left out. */
  warnings: readonly string[];
  /** When the daemon put these in force, ISO 8601; null if there is no file. */
  since: string | null;
};

export type HotReloadedSettings<T> = {
  /** Reads the file again if it changed. Never throws. */
  reload(): SettingsState<T>;
  /** The result of the last reload. */
  readonly current: SettingsState<T>;
  /** Whether to reload soon. */
  readonly needsReload: boolean;
};

type HotReloadOptions<T> = {
  /** What messages call the file. */
  label: string;
  /** Its text; undefined if there is none. */
  read: () => string | undefined;
  /** Throws UserError if the text is invalid. */
  check: (text: string) => CheckedSettings<T>;
  /** The settings without a file. */
  defaults: T;
  /** Called with new settings before they come into force. */
  beforeApply: (value: T) => void;
  clock: { now: () => Date; elapsed: () => number };
  log: SessionPorts['log'];
};

/**
 * The settings of one file. They fail closed: a broken file lifts no protection. The last valid version that was read
 * stays in force; if there is none, as after a restart, `from` is `nothing`.
 */
export function hotReloadSettings<T>(options: HotReloadOptions<T>): HotReloadedSettings<T> {
  const it: ReloadedFile<T> = {
    ...options,
    state: stateWithoutFile(options.defaults),
    goodText: undefined,
    badText: undefined,
    isFirstRead: true,
    goneAt: null,
  };
  return {
    reload: () => reload(it),
    get current() {
      return it.state;
    },
    get needsReload() {
      return it.state.fault !== null || it.goneAt !== null;
    },
  };
}

type ReloadedFile<T> = HotReloadOptions<T> & {
  state: SettingsState<T>;
  /** The text the settings in force come from; undefined if there is none. */
  goodText: string | undefined;
  /** The last text found to be invalid. */
  badText: string | undefined;
  isFirstRead: boolean;
  /** When the file was first found missing, by the monotonic clock. */
  goneAt: number | null;
};

const stateWithoutFile = <T>(defaults: T): SettingsState<T> => ({
  value: defaults,
  from: 'file',
  fault: null,
  warnings: [],
  since: null,
});

function reload<T>(it: ReloadedFile<T>): SettingsState<T> {
  try {
    const text = it.read();
    if (text === undefined) handleMissing(it);
    else if (text !== it.goodText || it.state.from !== 'file') handleText(it, text);
    else it.goneAt = null;
  } catch (error) {
    it.badText = undefined;
    handleFault(it, errorText(error));
  }
  it.isFirstRead = false;
  return it.state;
}

function handleText<T>(it: ReloadedFile<T>, text: string): void {
  const { label, log } = it;
  it.goneAt = null;
  if (text === it.badText) return;
  let checked: CheckedSettings<T>;
  try {
    checked = it.check(text);
  } catch (error) {
    handleFault(it, errorText(error));
    it.badText = text;
    return;
  }
  const isNew = text !== it.goodText;
  if (!isNew) log('info', `${label}: valid again`);
  else if (!it.isFirstRead) log('info', `${label}: changed; the new settings are in force`);
  it.beforeApply(checked.value);
  const since = isNew ? it.clock.now().toISOString() : it.state.since;
  it.state = { ...checked, from: 'file', fault: null, since };
  it.goodText = text;
  it.badText = undefined;
  for (const warning of checked.warnings) log('warn', warning);
}

function handleFault<T>(it: ReloadedFile<T>, fault: string): void {
  it.goneAt = null;
  if (it.state.fault !== fault) {
    const force =
      it.goodText === undefined
        ? 'this daemon has read no valid version, so sessions that use it wait'
        : 'the last valid settings remain in force';
    const advice = `The file is left unchanged; ${force}. Fix the file; changes apply immediately.`;
    const what = fault.startsWith(it.label) ? fault : `${it.label}: ${fault}`;
    it.log('error', `${what}\n${advice}`);
  }
  it.state = { ...it.state, from: it.goodText === undefined ? 'nothing' : 'last good', fault };
}

function handleMissing<T>(it: ReloadedFile<T>): void {
  const { clock } = it;
  it.badText = undefined;
  if (it.goodText !== undefined) {
    it.goneAt ??= clock.elapsed();
    if (clock.elapsed() - it.goneAt < REMOVED_AFTER_MS) return;
    it.log('info', `${it.label}: removed; its settings no longer apply`);
  }
  if (it.goodText !== undefined || it.state.fault !== null) {
    it.state = stateWithoutFile(it.defaults);
  }
  it.goodText = undefined;
  it.goneAt = null;
}
