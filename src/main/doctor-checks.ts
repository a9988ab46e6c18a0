import { spawnSync } from 'node:child_process';
import * as fs from 'node:fs';
import { delimiter, join, resolve } from 'node:path';
import { errorText } from '../base/user-error.ts';
import type { Client } from '../client/index.ts';
import { fileSystemAt } from '../daemon/host/disk.ts';
import type { DoctorOptions, Finding } from '../frontends/cli/common/command.ts';
import { keysFile } from '../frontends/cli/service/service-files.ts';
import { findService } from '../frontends/cli/service/service-manager.ts';
import { WHY_NO_KEY } from '../models/choose-model.ts';
import type { Config } from '../protocol/settings/config.ts';
import {
  type EffectiveModel,
  OPENAI_KEY,
  resolveSettings,
  type SandboxSettings,
} from '../protocol/settings/effective-settings.ts';
import type { McpServer, McpServers } from '../protocol/settings/mcp-config.ts';
import { withTrustedPath } from '../protocol/workspace/session-names.ts';
import { readTextFile, readTextOrThrow } from '../store/fs/file-reads.ts';
import { checkConfig, checkSettings, existingRootOf, sessionPaths } from '../store/index.ts';
import type { WorkspacePaths } from '../store/layout/layout.ts';
import { describeLock } from '../store/workspace/owner-file.ts';
import { findBrowser, requirePlaywright } from '../tools/browser/find-browser.ts';
import { openSandbox, runEscapeAttempts } from '../tools/index.ts';
import { PLACEHOLDER_WORK, resolveEntry } from '../tools/mcp/server-entry.ts';
import { NO_MODEL } from './model-check.ts';

const MIB = 2 ** 20;
/** Enough for the logs and replies of a busy day; a tool may fill it in a moment. */
const LOW_SPACE_MIB = 64;

/** Free disk space of a workspace, and whether a file can be written in it. Creates nothing that is missing. */
export function checkDisk({ root, own }: WorkspacePaths): Finding[] {
  if (!fs.existsSync(root)) return [];
  const { bavail, bsize } = fs.statfsSync(root);
  const free = Math.floor((bavail * bsize) / MIB);
  const isLow = free < LOW_SPACE_MIB;
  const text = `${free} MiB free${isLow ? `; below ${LOW_SPACE_MIB} MiB no new messages are accepted (unless disk.min_free_mb is changed). Free some space` : ''}`;
  return [{ what: 'disk', is: isLow ? 'warning' : 'ok', text }, ...checkFileSystem(root), ...checkWritable(own)];
}

function checkFileSystem(root: string): Finding[] {
  const { local, name } = fileSystemAt(root);
  if (local) return [];
  const text = `${name} is not known to be a local file system; a daemon starts there only with --allow-network-fs, and polls`;
  return [{ what: 'disk', is: 'warning', text }];
}

function checkWritable(own: string): Finding[] {
  if (!fs.existsSync(own)) return [];
  const file = join(own, `.doctor-${process.pid}`);
  try {
    fs.writeFileSync(file, 'written by agentctl doctor\n', { flag: 'wx', mode: 0o600 });
    return [];
  } catch (error) {
    return [{ what: 'disk', is: 'wrong', text: `could not write a test file in ${own}: ${errorText(error)}` }];
  } finally {
    fs.rmSync(file, { force: true });
  }
}

/** Where commands run with this configuration; for a sandbox, the result of each escape attempt made just now. */
export async function checkSandbox({ env }: DoctorOptions, settings: SandboxSettings): Promise<Finding[]> {
  const finding = (is: Finding['is'], text: string): Finding => ({ what: 'sandbox', is, text });
  const lines = (remedy: string[] = []) => remedy.map((line) => `\n${line}`).join('');
  const status = openSandbox({ env, hidden: [] }).statusFor(settings);
  if (!status.isSandboxed) {
    const free = 'commands run as your user, without a sandbox. See docs/security.md';
    if (status.isChosen) return [finding('note', `${status.why}: ${free}`)];
    return [
      status.isRefused
        ? finding('wrong', `no commands are run: ${status.why}${lines(status.remedy)}`)
        : finding('warning', `${status.why}: ${free}${lines(status.remedy)}`),
    ];
  }
  const how = `commands are sandboxed${settings.network ? ' and may use the network' : ''}`;
  const { weaker } = status;
  const found = [
    weaker ? finding('warning', `${how}, in a weaker fence: ${weaker.why}${lines(weaker.remedy)}`) : finding('ok', how),
  ];
  for (const gap of status.gaps) found.push(finding('note', gap));
  try {
    for await (const { attempt, isPrevented, output } of runEscapeAttempts(env, settings)) {
      if (settings.network && attempt.network) continue;
      const text = `${attempt.name} (${attempt.tries}): ${isPrevented ? 'blocked' : `not blocked. Output: ${output}`}`;
      found.push({ what: 'escape', is: isPrevented ? 'ok' : 'wrong', text });
    }
  } catch (error) {
    found.push({ what: 'escape', is: 'wrong', text: errorText(error) });
  }
  return found;
}

export function checkNode(): Finding {
  const [major = 0, minor = 0] = process.versions.node.split('.').map(Number);
  const isNew = major > OLDEST_NODE[0] || (major === OLDEST_NODE[0] && minor >= OLDEST_NODE[1]);
  const text = `${process.version}${isNew ? '' : `; required: ${OLDEST_NODE.join('.')} or newer`}`;
  return { what: 'node', is: isNew ? 'ok' : 'wrong', text };
}

const OLDEST_NODE = [20, 19] as const;

export function checkShell(env: NodeJS.ProcessEnv): Finding {
  if (isProgram('bash', env)) return { what: 'shell', is: 'ok', text: 'bash' };
  return { what: 'shell', is: 'warning', text: 'bash not found; commands run with sh' };
}

export function checkBrowser(named: string | undefined, env: NodeJS.ProcessEnv): Finding {
  try {
    const text = findBrowser(named, env);
    requirePlaywright();
    return { what: 'browser', is: 'ok', text };
  } catch (error) {
    return { what: 'browser', is: named === undefined ? 'note' : 'wrong', text: errorText(error) };
  }
}

/** The lock that the running daemon uses, or that a daemon started now would use. */
export function checkLock(env: NodeJS.ProcessEnv, client: Client): Finding {
  const here = isProgram('flock', env) ? 'flock' : isProgram('perl', env) ? 'perl' : 'folder';
  const is = client.daemon()?.lock ?? here;
  return { what: 'lock', is: is === 'folder' ? 'warning' : 'ok', text: describeLock(is) };
}

export function checkWatches(client: Client): Finding {
  const sessions = client.sessions().length;
  const limit = Number(readTextFile(WATCH_LIMIT) ?? Number.NaN);
  if (Number.isNaN(limit))
    return { what: 'watches', is: 'ok', text: `${sessions} sessions; this system reports no limit` };
  const isEnough = sessions + SPARE_WATCHES <= limit;
  const advice =
    '; further inboxes are polled every second. To raise the limit: sysctl fs.inotify.max_user_watches=524288';
  const text = `${sessions} sessions, ${limit} watches allowed${isEnough ? '' : advice}`;
  return { what: 'watches', is: isEnough ? 'ok' : 'warning', text };
}

const WATCH_LIMIT = '/proc/sys/fs/inotify/max_user_watches';
/** File watches reserved for other programs of this user. */
const SPARE_WATCHES = 1000;

const isProgram = (name: string, env: NodeJS.ProcessEnv): boolean =>
  !spawnSync(name, ['--version'], { env: withTrustedPath(env), cwd: '/' }).error;

export function checkConfiguration(
  { configFile }: DoctorOptions,
  { paths }: Client,
): { findings: Finding[]; value: Config } {
  const file = configFile ?? paths.config;
  try {
    const text = readTextOrThrow(file, 'settings as JSON', 'follow');
    if (text === undefined && configFile !== undefined) throw new Error(`${file} does not exist.`);
    const { value, warnings } = checkConfig(text, file);
    const findings: Finding[] = warnings.map((warning) => ({ what: 'configuration', is: 'warning', text: warning }));
    const found = text === undefined ? `no ${file}; using the defaults` : file;
    if (findings.length === 0) findings.push({ what: 'configuration', is: 'ok', text: found });
    return { findings, value };
  } catch (error) {
    return { findings: [{ what: 'configuration', is: 'wrong', text: errorText(error) }], value: {} };
  }
}

export function checkSessionSettingsFiles(client: Client, { flags, env }: DoctorOptions, workspace: Config): Finding[] {
  const sessions = new Set(client.sessions());
  return [...sessions].flatMap((name): Finding[] => {
    const file = sessionPaths(client.paths.session(name)).settings;
    const root = existingRootOf(name, (session) => sessions.has(session));
    if (root !== name) return fs.existsSync(file) ? [ignoredFileFinding(file, root)] : [];
    try {
      const { value, warnings } = checkSettings(readTextOrThrow(file, 'settings as JSON', 'refuse'), file);
      const warned = warnings.map((text): Finding => ({ what: 'settings', is: 'warning', text }));
      const { model } = resolveSettings({ flags, env, workspace, session: value });
      return [
        ...warned,
        ...checkKey(file, model, env[workspace.model?.api_key_env ?? OPENAI_KEY]),
        ...checkMcpServers(value.mcpServers, env),
      ];
    } catch (error) {
      return [{ what: 'settings', is: 'wrong', text: errorText(error) }];
    }
  });
}

/** If the environment has no key, sending none to the endpoint is correct. */
function checkKey(file: string, { no_key: why }: EffectiveModel, key: string | undefined): Finding[] {
  if (why === undefined || (why === 'unnamed' && !key)) return [];
  return [{ what: 'settings', is: why === 'unlisted' ? 'warning' : 'note', text: `${file}: ${WHY_NO_KEY[why]}` }];
}

const ignoredFileFinding = (file: string, root: string): Finding => ({
  what: 'settings',
  is: 'warning',
  text: `${file} is ignored: child sessions use the settings of ${root}`,
});

/** Checks variables, programs and addresses of MCP servers. No server is started or contacted. */
export function checkMcpServers(servers: McpServers | undefined, env: NodeJS.ProcessEnv): Finding[] {
  return Object.entries(servers ?? {}).map(([name, server]) => ({
    what: 'mcp',
    ...checkMcpServer(name, server, env, servers ?? {}),
  }));
}

function checkMcpServer(
  name: string,
  server: McpServer,
  env: NodeJS.ProcessEnv,
  all: McpServers,
): Pick<Finding, 'is' | 'text'> {
  if (server.disabled) return { is: 'note', text: `${name} is disabled` };
  try {
    const { target, warnings } = resolveEntry(name, server, env, PLACEHOLDER_WORK, all);
    if (target.by === 'endpoint')
      return { is: 'ok', text: `${name} at ${target.url.origin}${target.url.pathname}; not contacted` };
    const { command, env: own, cwd } = target.server;
    if (warnings.length > 0) return { is: 'warning', text: warnings.join(' ') };
    if (isExecutable(command, own['PATH'] ?? '', cwd ?? '/'))
      return { is: 'ok', text: `${name}; not started${describeSandbox(server)}` };
    return { is: 'warning', text: `${name}: program \`${server.command}\` not found; its tools will be missing` };
  } catch (error) {
    return { is: 'warning', text: errorText(error) };
  }
}

/** What the entry grants the server; whether a sandbox works at all is reported for commands. */
function describeSandbox({ sandbox, network, read = [], write = [] }: McpServer): string {
  if (sandbox === 'none') return ', outside the sandbox';
  const given = [...(network ? ['the network'] : []), ...read, ...write.map((path) => `${path} (writable)`)];
  return given.length > 0 ? `, in the sandbox with ${given.join(', ')}` : ', in the sandbox';
}

function isExecutable(command: string, path: string, cwd: string): boolean {
  const places = command.includes('/')
    ? [resolve(cwd, command)]
    : path.split(delimiter).map((at) => resolve(at, command));
  return places.some((place) => {
    try {
      fs.accessSync(place, fs.constants.X_OK);
      return true;
    } catch {
      return false;
    }
  });
}

/** Keys and addresses may come from the environment, and a daemon has another one than this shell. */
export function describeEnvironment(client: Client, { env }: DoctorOptions): Finding {
  const set = ['OPENAI_API_KEY', 'OPENAI_BASE_URL', 'OPENAI_MODEL'].filter((name) => env[name]);
  const here = `of this shell, ${set.length > 0 ? `with ${set.join(', ')}` : 'without any OPENAI_ variable'}`;
  const service = findService(client.paths.root, env);
  const owner = client.daemon();
  const other = service
    ? `. The service ${service.unit} has its own: keys in ${keysFile(service.scope, env)}`
    : owner && `. The running daemon, process ${owner.pid}, has the one it was started in`;
  return { what: 'environment', is: 'note', text: `${here}${other ?? ''}` };
}

/** A running daemon may have a model from its own environment, or flags that cannot be read here. */
export function excuseRunningDaemon(client: Client, { flags, ask }: DoctorOptions, finding: Finding): Finding {
  const isFine = finding.is !== 'wrong' && finding.text !== NO_MODEL;
  if (isFine || ask || flags.name !== undefined || !client.daemon()) return finding;
  const text = `what the running daemon was started with is not all known here; without it: ${finding.text}`;
  return { ...finding, is: 'note', text };
}
