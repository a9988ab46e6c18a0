import * as fs from 'node:fs';
import { dirname, join } from 'node:path';
import { errorText } from '../../base/user-error.ts';
import type { SessionPorts } from '../../engine/ports/session-ports.ts';
import { stagingName, writeAll } from '../fs/durable-write.ts';
import { readTextFile } from '../fs/file-reads.ts';
import { ifExists, wrapDiskErrors } from '../fs/store-errors.ts';
import type { CheckedSettings } from './settings-check.ts';

/** A missing file counts as removed after this long: some editors delete the old one before they create the new one. */
const REMOVED_AFTER_MS = 1000;

/** The settings in force, and the state of their file. */
export type SettingsState<T> = {
  value: T;
  /** `nothing`: the file is invalid and no valid version is known, so nothing may be done by it. */
  from: 'file' | 'last good' | 'nothing';
  /** Why the current file is invalid: the place, what was expected, what was found. */
  fault: string | null;
  /** Parts of the file that were not understood and left out. */
  warnings: readonly string[];
  /** When these took effect, ISO 8601; null if there is no file. */
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
  backup: SettingsBackup;
  /** Called with new settings before they come into force. */
  beforeApply: (value: T) => void;
  clock: { now: () => Date; elapsed: () => number };
  log: SessionPorts['log'];
};

/**
 * The settings of one file. They fail closed: a broken file lifts no protection. Its last valid version stays in force,
 * across restarts too; if there never was one, `from` is `nothing`.
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
    if (it.isFirstRead && text === undefined) restoreBackup(it);
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
  const { label, log, backup } = it;
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
  const before = it.goodText ?? backup.read();
  const isNew = text !== before;
  if (isNew || it.state.fault !== null) saveBackup(it, text);
  if (isNew && !(it.isFirstRead && before === undefined))
    log('info', `${label}: changed; the new settings are in force`);
  else if (it.state.fault !== null) log('info', `${label}: valid again`);
  apply(it, checked, text, 'file');
  for (const warning of checked.warnings) log('warn', warning);
}

/** Only warns if the backup cannot be written: the new settings are valid and come into force. */
function saveBackup<T>({ backup, label, log }: ReloadedFile<T>, text: string): void {
  try {
    backup.save(text);
  } catch (error) {
    log('warn', `${label}: could not save a copy of the valid settings: ${errorText(error)}`);
  }
}

function apply<T>(
  it: ReloadedFile<T>,
  { value, warnings }: CheckedSettings<T>,
  text: string,
  from: SettingsState<T>['from'],
): void {
  it.beforeApply(value);
  const since = (it.backup.savedAt() ?? it.clock.now()).toISOString();
  it.state = { value, from, fault: null, warnings, since };
  it.goodText = text;
  it.badText = undefined;
}

function handleFault<T>(it: ReloadedFile<T>, fault: string): void {
  it.goneAt = null;
  if (it.isFirstRead) restoreBackup(it);
  if (it.state.fault !== fault) {
    const force =
      it.goodText === undefined
        ? 'there is no earlier valid version, so nothing that depends on it runs'
        : `the last valid settings remain in force (${it.backup.path})`;
    const advice = `The file is left unchanged; ${force}. Fix the file; changes apply immediately.`;
    it.log('error', `${it.label}: ${fault}\n${advice}`);
  }
  it.state = { ...it.state, from: it.goodText === undefined ? 'nothing' : 'last good', fault };
}

/** Restores the copy that an earlier daemon saved, unless this version considers it invalid. */
function restoreBackup<T>(it: ReloadedFile<T>): void {
  const text = it.backup.read();
  if (text === undefined) return;
  try {
    apply(it, it.check(text), text, 'last good');
  } catch {
    it.goodText = undefined;
  }
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
    it.backup.remove();
    it.state = stateWithoutFile(it.defaults);
  }
  it.goodText = undefined;
  it.goneAt = null;
}

const { O_CREAT, O_DIRECTORY, O_EXCL, O_RDONLY, O_WRONLY } = fs.constants;

/** A copy of the last valid settings, used while their file is invalid. */
type SettingsBackup = {
  path: string;
  /** Its text; undefined if there is none. */
  read(): string | undefined;
  /** When it was saved; undefined if there is none. */
  savedAt(): Date | undefined;
  /** Durable when it returns: it replaces an invalid file, also after a power cut. */
  save(text: string): void;
  remove(): void;
};

/** All synchronous, since settings are read between a call and its permission. */
export function openSettingsBackup(path: string): SettingsBackup {
  return {
    path,
    read: () => readTextFile(path) || undefined,
    savedAt: () => ifExists(() => fs.lstatSync(path).mtime),
    save(text) {
      const staged = join(dirname(path), stagingName());
      wrapDiskErrors('write', path, () => {
        try {
          writeSynced(staged, text);
          fs.renameSync(staged, path);
        } catch (error) {
          fs.rmSync(staged, { force: true });
          throw error;
        }
        syncFolderNow(dirname(path));
      });
    },
    remove: () => wrapDiskErrors('delete', path, () => fs.rmSync(path, { force: true })),
  };
}

function writeSynced(path: string, text: string): void {
  const fd = fs.openSync(path, O_WRONLY | O_CREAT | O_EXCL, 0o600);
  try {
    writeAll(fd, Buffer.from(text));
    fs.fdatasyncSync(fd);
  } finally {
    fs.closeSync(fd);
  }
}

function syncFolderNow(folder: string): void {
  const fd = fs.openSync(folder, O_RDONLY | O_DIRECTORY);
  try {
    fs.fsyncSync(fd);
  } finally {
    fs.closeSync(fd);
  }
}
