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
  /** When these came into force, ISO 8601; null if there is no file. */
  since: string | null;
};

export type HotReloadedSettings<T> = {
  /** Reads the file again if it changed. Never throws. */
  reload(): SettingsState<T>;
  /** The result of the last reload. */
  readonly current: SettingsState<T>;
  /** There is reason to reload soon. */
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
 * The settings of one file. They fail closed: a broken file does not drop what protects; its last valid version stays
 * in force, through restarts too; if there never was one, `from` is `nothing`.
 */
export function hotReloadSettings<T>({
  label,
  read,
  check,
  defaults,
  backup,
  beforeApply,
  clock,
  log,
}: HotReloadOptions<T>): HotReloadedSettings<T> {
  let held: SettingsState<T> = { value: defaults, from: 'file', fault: null, warnings: [], since: null };
  /** The text these settings come from; undefined if there is none. */
  let goodText: string | undefined;
  /** The last text found to be invalid. */
  let badText: string | undefined;
  let isFirstLook = true;
  let goneAt: number | null = null;

  function look(): SettingsState<T> {
    try {
      const text = read();
      if (isFirstLook && text === undefined) restoreBackup();
      if (text === undefined) handleMissing();
      else if (text !== goodText || held.from !== 'file') handleText(text);
      else goneAt = null;
    } catch (error) {
      badText = undefined;
      handleFault(errorText(error));
    }
    isFirstLook = false;
    return held;
  }

  function handleText(text: string): void {
    goneAt = null;
    if (text === badText) return;
    let checked: CheckedSettings<T>;
    try {
      checked = check(text);
    } catch (error) {
      handleFault(errorText(error));
      badText = text;
      return;
    }
    const before = goodText ?? backup.read();
    const isNews = text !== before;
    if (isNews || held.fault !== null) saveBackup(text);
    if (isNews && !(isFirstLook && before === undefined))
      log('info', `${label}: changed; the new settings are in force`);
    else if (held.fault !== null) log('info', `${label}: valid again`);
    apply(checked, text, 'file');
    for (const warning of checked.warnings) log('warn', warning);
  }

  /** A backup that cannot be written is no reason not to use the file. */
  function saveBackup(text: string): void {
    try {
      backup.save(text);
    } catch (error) {
      log('warn', `${label}: could not save a copy of the valid settings: ${errorText(error)}`);
    }
  }

  function apply(
    { value, warnings }: CheckedSettings<T>,
    text: string,
    from: SettingsState<T>['from'],
    fault: string | null = null,
  ): void {
    beforeApply(value);
    held = { value, from, fault, warnings, since: (backup.savedAt() ?? clock.now()).toISOString() };
    goodText = text;
    badText = undefined;
  }

  function handleFault(fault: string): void {
    goneAt = null;
    if (isFirstLook) restoreBackup();
    if (held.fault !== fault) {
      const force =
        goodText === undefined
          ? 'there is no earlier valid version, so nothing that depends on it runs'
          : `the last valid settings remain in force (${backup.path})`;
      log(
        'error',
        `${label}: ${fault}\nThe file is left unchanged; ${force}. Fix the file; changes apply immediately.`,
      );
    }
    held = { ...held, from: goodText === undefined ? 'nothing' : 'last good', fault };
  }

  /** Restores what an earlier daemon saved, unless it is invalid by today's rules. */
  function restoreBackup(): void {
    const text = backup.read();
    if (text === undefined) return;
    try {
      apply(check(text), text, 'last good');
    } catch {
      goodText = undefined;
    }
  }

  function handleMissing(): void {
    badText = undefined;
    if (goodText !== undefined) {
      goneAt ??= clock.elapsed();
      if (clock.elapsed() - goneAt < REMOVED_AFTER_MS) return;
      log('info', `${label}: removed; its settings no longer apply`);
    }
    if (goodText !== undefined || held.fault !== null) {
      backup.remove();
      held = { value: defaults, from: 'file', fault: null, warnings: [], since: null };
    }
    goodText = undefined;
    goneAt = null;
  }

  return {
    reload: look,
    get current() {
      return held;
    },
    get needsReload() {
      return held.fault !== null || goneAt !== null;
    },
  };
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
