import * as fs from 'node:fs';
import { format, promisify } from 'node:util';
import { loadOnce } from '../base/async.ts';
import { errorText, isDiskFull } from '../base/user-error.ts';
import { REDUCER_VERSION } from '../core/session/reducer-version.ts';
import { type ClusterRole, openBookFor, serveAs } from '../daemon/cluster/cluster-roles.ts';
import { realClock, timesOf } from '../daemon/host/clock.ts';
import { type LoggerLevel, openDaemonLog } from '../daemon/host/daemon-log.ts';
import { type DiskMonitor, openDiskMonitor } from '../daemon/host/disk.ts';
import { createRunSlots, limitsWithin, readOpenFilesLimit } from '../daemon/host/run-limits.ts';
import type { DaemonHooks, ServedWorkspace } from '../daemon/serve-workspace.ts';
import type { SessionPorts } from '../engine/ports/session-ports.ts';
import type { Config } from '../protocol/settings/config.ts';
import { type EffectiveSettings, resolveSettings } from '../protocol/settings/effective-settings.ts';
import { settingsFromEnvironment } from '../protocol/settings/environment-settings.ts';
import type { ModelSettings } from '../protocol/settings/model-settings.ts';
import { replaceFile } from '../store/fs/durable-write.ts';
import { oncePerTurn } from '../store/fs/file-reads.ts';
import { ifExists } from '../store/fs/store-errors.ts';
import {
  applyRetention,
  openWorkspace,
  parentSessionOf,
  removeStaging,
  type SessionFolderOptions,
  sessionPaths,
  syncFolder,
  trimToShare,
  type Workspace,
} from '../store/index.ts';
import { workspacePaths } from '../store/layout/layout.ts';
import { openBrowsers } from '../tools/handover/browsers.ts';
import { openMcpPool } from '../tools/mcp/mcp-pool.ts';
import { openSandbox } from '../tools/sandbox/sandbox.ts';
import { openLiveSettings } from './live-settings.ts';
import type { SessionsDeps } from './open-session.ts';
import { startTelling } from './owed-writer.ts';
import { openSecretRedaction } from './redaction.ts';
import { openScheduledSessions } from './scheduled-sessions.ts';

const DEFAULT_RUNS = 8;
const DEFAULT_FLOOR_MB = 64;
const DEFAULT_RESERVE_MB = 16;

export type DaemonOptions = {
  root: string;
  /** A file other than the workspace's `agentd.json`; `readConfig` reads its text. */
  readConfig?: () => string | undefined;
  configFile: string;
  /** Settings from flags; they take precedence over files and environment. */
  flags: ModelSettings;
  logLevel: LoggerLevel;
  /** Receives the lines of the log; by default they go to stderr. */
  writeLog?: (line: string) => void;
  allowNetwork?: boolean;
  /** What this process does in a cluster; missing: it is a daemon alone. */
  role?: ClusterRole;
  env: NodeJS.ProcessEnv;
  onLost: (why: Error) => void;
};

/** Used while the daemon starts. */
const NO_HOOKS: DaemonHooks = {
  wake: () => {},
  quarantineReason: () => undefined,
  onApprovalAsked: () => {},
  runGuarded: (_name, _what, run) => run(),
};

/** Connects the real parts and starts the daemon. Throws UserError for an invalid configuration. */
export async function runDaemon(options: DaemonOptions): Promise<ServedWorkspace> {
  const secrets = openSecretRedaction(options.env);
  secrets.learn({ model: options.flags });
  secrets.learn(settingsFromEnvironment(options.env));
  const log = openLog(options, secrets);
  const workspace = openWorkspace(options.root, {
    now: realClock.now,
    elapsed: realClock.elapsed,
    disk: writeWithReserve(() => disk),
  });
  const { flags, env } = options;
  let hooks = NO_HOOKS;
  const settings = openLiveSettings({
    ...{ workspace, flags, env, log },
    configFile: options.configFile,
    readConfig: options.readConfig,
    ...{ learn: secrets.learn, clock: realClock },
    wake: (name) => hooks.wake(name),
    runGuarded: (name, what, run) => hooks.runGuarded(name, what, run),
  });
  const [config, currentConfig] = [settings.config(), oncePerTurn(settings.config)];
  const disk = openDisk(workspace, currentConfig, log);
  const allowed = limitsFor(config.concurrency?.runs ?? DEFAULT_RUNS, options.role?.is === 'worker', log);
  const runSlots = createRunSlots(allowed.runs);
  const parents = new Map<string, string>();
  const pool = openBrowsers({ env, log });
  const sandbox = openSandbox({ env, hidden: [workspace.paths.root], warn: (text) => log('warn', text) });
  const mcp = openMcpPool({ env, sandbox, log, folderOf: workspace.paths.session, logins: workspace.paths.logins });
  const budgets = () => currentConfig().budgets;
  const usage = { folder: workspace.paths.usage, budgets, clock: realClock, log };
  const spending = await openBookFor(options.role, usage);
  const deps: SessionsDeps = {
    ...{ workspace, settings, config: currentConfig, env, runSlots, sandbox, log },
    // If the disk has become full meanwhile, the write itself fails.
    diskCapacity: oncePerTurn(disk.capacity, (capacity) => capacity === 'ok'),
    ...{ parents, mcp, browsers: pool, secrets, spending },
    hooks: () => hooks,
  };
  // What only sessions need is half of the program: it is loaded when the daemon is ready, or by the first session.
  const sessions = loadOnce(async () => (await import('./open-session.ts')).openSessions(deps));
  const { model } = resolveSettings({ flags, env, workspace: config });
  // A script that cannot be read is an error of the start.
  if ((model.name ?? env['OPENAI_MODEL'])?.startsWith('scripted:')) (await sessions()).models(model);
  const daemon = await serveAs(options.role, workspace, async (name, owner) => (await sessions()).open(name, owner), {
    log,
    clock: realClock,
    disk,
    mostOpen: allowed.sessions,
    ...{ reducers: REDUCER_VERSION, usage },
    allowNetwork: options.allowNetwork || config.allow_network_fs === true,
    settings: settings.reload,
    ...{ settingsStatus: settings.status, runSlots },
    onLost: options.onLost,
    ...timesOf(options.env),
    prepare: () => prepareWorkspace(workspace, log),
    sweep: (name) => sweepOneSession(name, workspace, settings.forSession(name)()),
    hooks: (given) => {
      hooks = given;
    },
    scheduled: openScheduledSessions(options.root),
    parentOf: (name) => parents.get(name) ?? parentSessionOf(name),
  });
  // A worker leaves to its gateway what concerns the workspace as a whole.
  const isWhole = options.role?.is !== 'worker';
  const telling = { workspace, env, clock: realClock, log, lostServers: mcp.lost, config: currentConfig };
  const tells = isWhole ? startTelling(telling, options.readConfig && options.configFile) : undefined;
  if (options.role?.is !== 'gateway') setImmediate(() => sessions().catch(() => undefined));
  const published = isWhole ? publishLater(workspace.paths.schemas, log) : undefined;
  return {
    async stop() {
      await published;
      await tells?.owed.stop();
      await tells?.notices.stop();
      await daemon.stop();
      settings.close();
      await Promise.all([mcp.close(), pool.close(), spending.close()]);
    },
  };
}

type Log = SessionPorts['log'];

/** Libraries such as the SDK of MCP warn on the console: in a process of its own these are lines of the log. */
function openLog({ logLevel, root, writeLog }: DaemonOptions, secrets: ReturnType<typeof openSecretRedaction>): Log {
  const log = secrets.log(openDaemonLog(logLevel, workspacePaths(root).log, writeLog));
  if (!writeLog) console.warn = (...words) => log('warn', format(...words));
  return log;
}

function openDisk({ paths }: Workspace, config: () => Config, log: Log): DiskMonitor {
  return openDiskMonitor({
    folder: paths.own,
    reserve: paths.reserve,
    rules: () => ({
      floorMb: config().disk?.min_free_mb ?? DEFAULT_FLOOR_MB,
      reserveMb: config().disk?.reserve_mb ?? DEFAULT_RESERVE_MB,
    }),
    clock: realClock,
    log,
  });
}

/** Runs and sessions at once, within the system's limit on open files. */
function limitsFor(runs: number, isWorker: boolean, log: Log): ReturnType<typeof limitsWithin> {
  const allowed = limitsWithin(readOpenFilesLimit(), runs, isWorker ? 'worker' : 'alone');
  if (allowed.runs < runs) {
    log(
      'warn',
      `the limit on open files allows ${allowed.runs} runs at once, but ${runs} are configured. Raise it: ulimit -n`,
    );
  }
  return allowed;
}

/** The daemon itself does not need the schemas, so it does not wait for them. */
const publishLater = (folder: string, log: Log): Promise<void> =>
  new Promise(setImmediate)
    .then(() => publishSchemas(folder))
    .catch((error) => log('warn', `${folder} could not be updated: ${errorText(error)}`));

/**
 * Writes the event log and replies. What does not fit is retried with the space of the reserve, so that the end
 * of work in hand is not lost.
 */
function writeWithReserve(disk: () => DiskMonitor): NonNullable<SessionFolderOptions['disk']> {
  const makeRoom = (error: unknown, bytes: number) => {
    if (!isDiskFull(error)) return false;
    disk().reportFull(error);
    return disk().freeReserve(bytes);
  };
  return {
    write(fd, bytes, offset) {
      for (;;) {
        try {
          return fs.writeSync(fd, bytes, offset);
        } catch (error) {
          // Another program may take what was freed; then more of the reserve is freed.
          if (!makeRoom(error, bytes.length - offset)) throw error;
        }
      }
    },
    makeRoom,
    sync: promisify(fs.fdatasync),
  };
}

/** Removes files that an earlier daemon left half-written. */
async function prepareWorkspace({ paths, removeUnfinished }: Workspace, log: Log): Promise<void> {
  for (const folder of [paths.own, paths.schemas, paths.usage, paths.notices]) removeStaging(folder);
  try {
    removeUnfinished(realClock.now());
  } catch (error) {
    log('warn', `an unfinished session folder could not be removed: ${errorText(error)}`);
  }
  // The process that created `.sessions/` may have died before its name was durable; all accepted messages are in it.
  await syncFolder(paths.root);
}

/** Removes old files of a session according to the current settings. */
async function sweepOneSession(
  name: string,
  workspace: Workspace,
  { retention, checkpoints }: EffectiveSettings,
): Promise<boolean> {
  const pathsOf = (session: string) => sessionPaths(workspace.paths.session(session));
  await trimToShare(pathsOf(name), workspace.listSessions().map(pathsOf), checkpoints.maxWorkspaceBytes);
  return (await applyRetention(pathsOf(name), retention, realClock.now())).more;
}

/** The generated schemas; a test compares them with the code. `dist/agentd/` is as deep as this folder. */
const SCHEMA_PAGES = new URL('../../docs/schemas/', import.meta.url);

/**
 * Updates the JSON Schemas in a folder, for editors. They are copied, and only if they differ: generating them took 0.1
 * to 0.2 s of a daemon's first second.
 */
async function publishSchemas(folder: string): Promise<void> {
  for (const name of fs.readdirSync(SCHEMA_PAGES)) {
    const page = fs.readFileSync(new URL(name, SCHEMA_PAGES), 'utf8');
    const path = `${folder}/${name}`;
    if (ifExists(() => fs.readFileSync(path, 'utf8')) !== page) await replaceFile(path, page);
  }
}
