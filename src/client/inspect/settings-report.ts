import { UserError } from '../../base/user-error.ts';
import { resolveSettings } from '../../protocol/settings/effective-settings.ts';
import { maskKeys } from '../../protocol/settings/env-variable.ts';
import { readTextFile } from '../../store/fs/file-reads.ts';
import type { SessionPaths, WorkspacePaths } from '../../store/layout/layout.ts';
import { type CheckedSettings, checkConfig, checkSettings } from '../../store/settings/settings-check.ts';
import { readDaemonStatus } from './session-overview.ts';

/** One setting that is in force, and which file it comes from; `default` where no file has it. */
export type ReportedSetting = { name: string; value: unknown; from: string };

/**
 * The settings in force, by name such as `limits.minutes`, without secrets. `faults`: which files are invalid, so that
 * their last valid copies apply. Flags and environment of the daemon are not known here.
 */
export type SettingsReport = { settings: ReportedSetting[]; faults: string[] };

/** Of the workspace; with `session`, a session without a parent, of that session. */
export function reportSettings(paths: WorkspacePaths, session: SessionPaths | undefined): SettingsReport {
  const file = readDaemonStatus(paths)?.settings?.file ?? 'agentd.json';
  // Only the daemon knows the path of a file given by --config; there is a copy of it.
  const isOther = file !== 'agentd.json';
  const source = isOther ? paths.lastGoodOf(file) : paths.config;
  const workspace = readChecked(source, paths.lastGood, (text) => checkConfig(text, file));
  const own = session && readChecked(session.settings, session.lastGood, (text) => checkSettings(text, 'session.json'));
  const layers = [
    ...(own ? [{ from: 'session.json', leaves: leavesOf(own.value) }] : []),
    { from: file, leaves: leavesOf(workspace.value) },
    { from: 'default', leaves: leavesOf(DEFAULTS) },
  ];
  const names = [...new Set(layers.flatMap(({ leaves }) => [...leaves.keys()]))].sort();
  const settings = names.flatMap((name): ReportedSetting[] => {
    const layer = layers.find(({ leaves }) => leaves.has(name));
    return layer ? [{ name, value: redact(name, layer.leaves.get(name)), from: layer.from }] : [];
  });
  return { settings, faults: [workspace, own].flatMap((one) => one?.fault ?? []) };
}

type ReadSettings<T> = { value: T; fault: string | null };

/** The file, or its last valid copy where it is invalid. */
function readChecked<T>(
  path: string,
  lastGood: string,
  check: (text: string | undefined) => CheckedSettings<T>,
): ReadSettings<T> {
  try {
    return { value: check(readTextFile(path)).value, fault: null };
  } catch (error) {
    if (!(error instanceof UserError)) throw error;
    return { value: check(readTextFile(lastGood)).value, fault: error.message };
  }
}

/** What applies where no file says anything. */
const DEFAULTS = (() => {
  const { rules, sandbox, permissions, retention } = resolveSettings({});
  return {
    ...{ mode: rules.mode, modes: rules.modes, on_limit: rules.onLimit, unknown_agent: rules.unknownAgent },
    ...{ limits: rules.limits, model: { context_window: rules.contextWindow } },
    ...{ sandbox: sandbox.mode, network: { shell: sandbox.network }, approvals: permissions.mode },
    retention: { log_days: retention.recordDays, files_days: retention.filesDays },
  };
})();

/** Values by their path; a list is one value. Without the keys for notes and editors. */
function leavesOf(value: object, above = ''): Map<string, unknown> {
  const leaves = Object.entries(value).flatMap(([key, one]): Array<[string, unknown]> => {
    if (one === undefined || (above === '' && NOT_SETTINGS.has(key))) return [];
    const name = above === '' ? key : `${above}.${key}`;
    const isObject = typeof one === 'object' && one !== null && !Array.isArray(one);
    return isObject ? [...leavesOf(one, name)] : [[name, one]];
  });
  return new Map(leaves);
}

const NOT_SETTINGS = new Set(['$schema', 'version']);
const HIDDEN = '(hidden)';
/** The name of a variable may be a key entered by mistake. */
const SECRET = /(?:^|\.)api_key_env$|^secrets$|^mcpServers\..*\.(?:env|headers)\./;
const MAY_HOLD_SECRETS = /(?:^|\.)base_url$|^mcpServers\./;

function redact(name: string, value: unknown): unknown {
  if (SECRET.test(name)) return HIDDEN;
  if (!MAY_HOLD_SECRETS.test(name)) return value;
  if (Array.isArray(value)) return value.map((one: unknown) => redact(name, one));
  return typeof value === 'string' ? maskKeys(value) : value;
}
