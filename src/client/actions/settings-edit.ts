import * as fs from 'node:fs';
import { dirname, resolve } from 'node:path';
import { isRecord } from '../../base/collections.ts';
import { parseJsonOrWhy } from '../../base/json.ts';
import { UserError } from '../../base/user-error.ts';
import { resolveSettings } from '../../protocol/settings/effective-settings.ts';
import { maskKeys } from '../../protocol/settings/env-variable.ts';
import type { ModelSettings } from '../../protocol/settings/model-settings.ts';
import { replaceFile } from '../../store/fs/durable-write.ts';
import { readTextFile } from '../../store/fs/file-reads.ts';
import { wrapDiskErrors } from '../../store/fs/store-errors.ts';
import type { SessionPaths, WorkspacePaths } from '../../store/layout/layout.ts';
import { type CheckedSettings, checkConfig, checkSettings } from '../../store/settings/settings-check.ts';
import { readDaemonStatus } from '../inspect/session-overview.ts';

/** A settings file, and whose: `agentd.json` of the workspace, or the `session.json` of a session. */
export type SettingsFile = { path: string; label: string; of: 'workspace' | 'session' };

/** What a check of a settings file found. `fault` has line, column, what was expected, and the nearest known key. */
export type SettingsFileCheck = { file: string; exists: boolean; fault: string | null; warnings: string[] };

export function checkSettingsFile(file: SettingsFile): SettingsFileCheck {
  const { label } = file;
  const text = readSettingsText(file);
  try {
    return { file: label, exists: text !== undefined, fault: null, warnings: checkText(file, text) };
  } catch (error) {
    if (!(error instanceof UserError)) throw error;
    return { file: label, exists: true, fault: error.message, warnings: [] };
  }
}

/**
 * Throws UserError if a new daemon could do no work with this file, by default `agentd.json`: it would not know the
 * last valid settings, which a running one may have.
 */
export function assertRestartable(paths: WorkspacePaths, configFile?: string): void {
  const [path, label] = [configFile ?? paths.config, configFile ?? 'agentd.json'];
  const { exists, fault } = checkSettingsFile({ path, label, of: 'workspace' });
  const why = exists || configFile === undefined ? fault : `${configFile} does not exist.`;
  if (why !== null) throw new UserError(`${why}\nThe running daemon was not stopped: a new one would do no work.`);
}

/**
 * Why messages would fail for their model, which flags, the environment or the settings file (`configFile`, by default
 * `agentd.json`) name: `none` does, or its endpoint is agentd `itself`. Null where all is well or that file is invalid.
 */
export async function modelFault(
  paths: WorkspacePaths,
  configFile: string | undefined,
  flags: ModelSettings,
): Promise<'none' | 'itself' | null> {
  const { value, fault } = readChecked('', () => checkConfig(readTextFile(configFile ?? paths.config), ''));
  const { model } = resolveSettings({ flags, env: process.env, workspace: value });
  if (fault !== null) return null;
  if (!model.name) return 'none';
  return (await isServedByAgentd(model.base_url ?? process.env['OPENAI_BASE_URL'])) ? 'itself' : null;
}

const ANSWERS_WITHIN_MS = 1000;

/** Whether an address on this machine is a server of agentd, whose model agentd cannot be itself. */
export async function isServedByAgentd(baseUrl: string | undefined): Promise<boolean> {
  try {
    const { origin, hostname } = new URL(baseUrl ?? '');
    if (!/^(?:localhost|127\..*|\[::1\])$/.test(hostname)) return false;
    const answer = await fetch(`${origin}/openapi.json`, { signal: AbortSignal.timeout(ANSWERS_WITHIN_MS) });
    return /"title": ?"agentd/.test(await answer.text());
  } catch {
    return false;
  }
}

/** Every key that a settings file may have, at its top and one level below. */
export async function settingKeys(): Promise<string[]> {
  const { publishedSchemas } = await import('../../protocol/json-schemas.ts');
  const keys = Object.entries(Object(publishedSchemas()['agentd.schema.json']).properties);
  return keys.flatMap(([key, one]) => [
    key,
    ...Object.keys(Object(Object(one).properties)).map((inner) => `${key}.${inner}`),
  ]);
}

/** The value of a key such as `limits.iterations`, as the file has it; of the whole file without a key. */
export function readSetting(file: SettingsFile, key: string | undefined): unknown {
  const all = parseSettings(file, readSettingsText(file));
  return key === undefined ? all : valueAt(all, splitKey(key));
}

/**
 * Sets a key, or removes it where `value` is undefined. Everything else stays, in its order, notes (`x-…`) included.
 * The file is replaced in one step, durably, and only if the result is valid and nobody saved it meanwhile; otherwise
 * throws UserError, and nothing has changed. Returns the warnings about the result.
 */
export async function writeSetting(file: SettingsFile, key: string, value: unknown): Promise<string[]> {
  const before = readSettingsText(file);
  const all = parseSettings(file, before);
  const path = splitKey(key);
  if (value === undefined && valueAt(all, path) === undefined)
    throw new UserError(`${key} is not set in ${file.label}.`);
  changeAt(all, path, value);
  const indent = /^([ \t]+)"/m.exec(before ?? '')?.[1] ?? 2;
  const after = `${JSON.stringify(all, null, indent)}\n`;
  const warnings = checkText(file, after);
  if (readSettingsText(file) !== before)
    throw new UserError(`${file.label} was saved by someone else at the same moment. Nothing was changed; try again.`);
  // A link is kept: the file it leads to is replaced.
  const target = before === undefined ? file.path : fs.realpathSync(file.path);
  const folder = dirname(target);
  wrapDiskErrors('make the folder', folder, () => fs.mkdirSync(folder, { recursive: true, mode: 0o700 }));
  await replaceFile(target, after, { durable: true });
  return warnings;
}

/** Takes the text of an argument as JSON if that gives valid settings, else as a string. */
export async function writeSettingFromText(file: SettingsFile, key: string, text: string): Promise<string[]> {
  const parsed = parseJsonOrWhy(text);
  if (!parsed.ok) return writeSetting(file, key, text);
  try {
    return await writeSetting(file, key, parsed.value);
  } catch (error) {
    if (!(error instanceof UserError) || typeof parsed.value === 'string') throw error;
    // `model.name 7` means a model of that name. Its fault as JSON is the more useful message.
    return await writeSetting(file, key, text).catch(() => Promise.reject(error));
  }
}

const checkText = ({ label, of }: SettingsFile, text: string | undefined): string[] =>
  (of === 'workspace' ? checkConfig : checkSettings)(text, label).warnings;

function readSettingsText({ path }: SettingsFile): string | undefined {
  return wrapDiskErrors('read', path, () => {
    if (fs.statSync(path, { throwIfNoEntry: false })?.isDirectory())
      throw new UserError(`${path} is a folder; expected a file. Move it away.`);
    return fs.existsSync(path) ? fs.readFileSync(path, 'utf8').replace(/^\uFEFF/, '') : undefined;
  });
}

type JsonObject = Record<string, unknown>;

function parseSettings({ label }: SettingsFile, text = '{}'): JsonObject {
  const parsed = parseJsonOrWhy(text);
  if (!parsed.ok) throw new UserError(`${label} is not JSON: ${parsed.why}.`);
  if (!isRecord(parsed.value)) throw new UserError(`${label}: expected an object.`);
  return parsed.value;
}

function splitKey(key: string): string[] {
  const path = key.split('.');
  if (path.some((part) => part === ''))
    throw new UserError(`Expected a key such as limits.iterations, got ${JSON.stringify(key)}.`);
  return path;
}

const isContainer = (value: unknown): value is JsonObject => typeof value === 'object' && value !== null;

function valueAt(value: unknown, path: readonly string[]): unknown {
  return path.reduce<unknown>((at, part) => (isContainer(at) && Object.hasOwn(at, part) ? at[part] : undefined), value);
}

/** Creates missing objects along the path. Keys are defined, never assigned: `__proto__` is a key like any other. */
function changeAt(all: JsonObject, path: readonly string[], value: unknown): void {
  let here: JsonObject = all;
  for (const part of path.slice(0, -1)) {
    const inner = Object.hasOwn(here, part) ? here[part] : undefined;
    const next = isContainer(inner) ? inner : {};
    if (next !== inner) define(here, part, next);
    here = next;
  }
  const last = path.at(-1) ?? '';
  // A list has no other keys: one would be lost silently.
  if (Array.isArray(here) && !(/^\d+$/.test(last) && Number(last) <= here.length))
    throw new UserError(
      `Expected the number of an item, from 0 to ${here.length}, got "${last}" in ${path.join('.')}.`,
    );
  if (value !== undefined) define(here, last, value);
  else if (Array.isArray(here)) here.splice(Number(last), 1);
  else Reflect.deleteProperty(here, last);
}

const define = (object: JsonObject, key: string, value: unknown) =>
  Object.defineProperty(object, key, { value, enumerable: true, configurable: true, writable: true });

/** One setting that is in force, and which file it comes from; `default` if no file has it. */
export type ReportedSetting = { name: string; value: unknown; from: string };

/**
 * The settings in force, by name such as `limits.minutes`, without secrets. `faults`: which files are invalid. What is
 * in force instead is known to the daemon alone, so nothing is said about settings that such a file may set. Flags and
 * environment of the daemon are not known here either.
 */
export type SettingsReport = { settings: ReportedSetting[]; faults: string[] };

/** Of the workspace; with `session`, a session without a parent, of that session. */
export function reportSettings(paths: WorkspacePaths, session: SessionPaths | undefined): SettingsReport {
  // Only the daemon knows the path of a file given by --config, which must be there.
  const file = readDaemonStatus(paths)?.settings.file ?? 'agentd.json';
  const text = readTextFile(resolve(paths.root, file)) ?? (file === 'agentd.json' ? undefined : '');
  const workspace = readChecked(file, () => checkConfig(text, file));
  const own =
    session && readChecked('session.json', () => checkSettings(readTextFile(session.settings), 'session.json'));
  const all = [...(own ? [own] : []), workspace, { from: 'default', value: defaultSettings(), fault: null }];
  const faults = all.flatMap(({ fault }) => fault ?? []);
  const layers = all
    .slice(0, faults.length > 0 ? all.findIndex(({ fault }) => fault !== null) : all.length)
    .map(({ from, value }) => ({ from, leaves: leavesOf(value) }));
  const getsNoKey =
    faults.length === 0 &&
    resolveSettings({ workspace: workspace.value, session: own?.value }).model.no_key !== undefined;
  const names = [
    ...new Set([...layers.flatMap(({ leaves }) => [...leaves.keys()]), ...(getsNoKey ? [KEY] : [])]),
  ].sort();
  const settings = names.flatMap((name): ReportedSetting[] => {
    if (getsNoKey && name === KEY) return [{ name, value: NOT_SENT, from: 'session.json' }];
    const layer = layers.find(({ leaves }) => leaves.has(name));
    return layer ? [{ name, value: redact(name, layer.leaves.get(name)), from: layer.from }] : [];
  });
  return { settings, faults };
}

function readChecked<T extends object>(from: string, check: () => CheckedSettings<T>) {
  try {
    return { from, value: check().value, fault: null };
  } catch (error) {
    if (!(error instanceof UserError)) throw error;
    return { from, value: {}, fault: error.message };
  }
}

/** The defaults, for keys that no file sets. */
function defaultSettings(): object {
  const { rules, sandbox, permissions, retention, checkpoints } = resolveSettings({});
  const { exclude, keep, maxFiles, maxFileBytes, maxBytes, maxWorkspaceBytes } = checkpoints;
  const megabytes = (bytes: number) => bytes / (1024 * 1024);
  return {
    ...{ mode: rules.mode, on_limit: rules.onLimit, unknown_agent: rules.unknownAgent },
    ...{ limits: rules.limits, model: { context_window: rules.contextWindow } },
    ...{ sandbox: sandbox.mode, network: { shell: sandbox.network }, approvals: permissions.mode },
    retention: { log_days: retention.recordDays, files_days: retention.filesDays },
    checkpoints: {
      ...{ exclude, keep, max_files: maxFiles },
      ...{ max_file_mb: megabytes(maxFileBytes), max_mb: megabytes(maxBytes) },
      max_workspace_mb: megabytes(maxWorkspaceBytes),
    },
  };
}

/** Values by their path; a list is one value. Without the keys for notes and editors. */
function leavesOf(value: object, above = ''): Map<string, unknown> {
  const leaves = Object.entries(value).flatMap(([key, one]): Array<[string, unknown]> => {
    if (one === undefined || (above === '' && NOT_SETTINGS.has(key))) return [];
    const name = above === '' ? key : `${above}.${key}`;
    return isRecord(one) ? [...leavesOf(one, name)] : [[name, one]];
  });
  return new Map(leaves);
}

const NOT_SETTINGS = new Set(['$schema', 'version']);
const HIDDEN = '(hidden)';
const KEY = 'model.api_key_env';
/** In place of a key that does not go to the address of `session.json`. */
const NOT_SENT = '(not sent to this address)';
/** The name of a variable may be a key entered by mistake. */
const SECRET = /(?:^|\.)api_key_env$|^secrets$|^(?:model|models\..*)\.headers\.|^mcpServers\..*\.(?:env|headers)\./;
const MAY_HOLD_SECRETS = /(?:^|\.)base_url$|^mcpServers\./;

function redact(name: string, value: unknown): unknown {
  if (SECRET.test(name)) return HIDDEN;
  if (!MAY_HOLD_SECRETS.test(name)) return value;
  if (Array.isArray(value)) return value.map((one: unknown) => redact(name, one));
  return typeof value === 'string' ? maskKeys(value) : value;
}
