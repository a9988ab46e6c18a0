import { randomBytes } from 'node:crypto';
import { fdatasync, writeSync } from 'node:fs';
import { promisify } from 'node:util';
import { type NotesOptions, onceEach, openNotes } from './compose-notes.ts';
import { openSecrets, type Secrets } from './compose-secrets.ts';
import { openSettings, type SettingsDesk } from './compose-settings.ts';
import { realClock } from './daemon/clock.ts';
import { type Daemon, type Hands, startDaemon } from './daemon/daemon.ts';
import { type Disk, openDisk } from './daemon/disk.ts';
import { type Level, logger } from './daemon/log.ts';
import { allowance, openFilesLimit } from './daemon/opening.ts';
import type { Ownership } from './daemon/owner.ts';
import type { SessionWorld } from './daemon/sessions.ts';
import { runSlots } from './daemon/slots.ts';
import { timesOf } from './daemon/times.ts';
import { type Model, ModelFault, type SessionStore, type World } from './engine/ports.ts';
import { chooseModel } from './models/index.ts';
import type { ModelSettings } from './protocol/config.ts';
import { type Effective, effectiveSettings } from './protocol/effective.ts';
import { errorText, isFull } from './protocol/errors.ts';
import {
  openChildren,
  openSkills,
  openWorkspace,
  parentOf,
  publishSchemas,
  rootOf,
  type SessionOptions,
  sessionPaths,
  sweepSession,
  sweepStaging,
  syncFolder,
  type Workspace,
} from './store/index.ts';
import {
  type Browsers,
  browsers,
  builtinTools,
  type McpPool,
  mcpPool,
  openSandbox,
  openShelf,
  type Sandbox,
  toolbox,
} from './tools/index.ts';

const DEFAULT_RUNS = 8;
const DEFAULT_FLOOR_MB = 64;
const DEFAULT_RESERVE_MB = 16;

export type DaemonOptions = {
  root: string;
  /** Another file than the workspace's `agentd.json`, with its text read by `readConfig`. */
  readConfig?: () => string | undefined;
  configFile: string;
  /** Settings of flags: they win over files and environment. */
  flags: ModelSettings;
  logLevel: Level;
  allowNetwork?: boolean;
  env: NodeJS.ProcessEnv;
  onLost: (why: Error) => void;
};

/** Plugs the real things together and starts the daemon. Throws UserError for a configuration that does not hold. */
export async function runDaemon(options: DaemonOptions): Promise<Daemon> {
  const secrets = openSecrets(options.env);
  secrets.learn({ model: options.flags });
  const log = secrets.log(logger(options.logLevel));
  const workspace = openWorkspace(options.root, {
    now: realClock.now,
    elapsed: realClock.elapsed,
    disk: sparing(() => disk),
  });
  const { flags, env } = options;
  let hands: Hands = { wake: () => {}, quarantined: () => undefined, asks: () => {} };
  const settings = openSettings({
    ...{ workspace, flags, env, log },
    configFile: options.configFile,
    readConfig: options.readConfig,
    ...{ learn: secrets.learn, clock: realClock },
    wake: (name) => hands.wake(name),
  });
  const config = settings.config();
  const disk = openDisk({
    folder: workspace.paths.own,
    reserve: workspace.paths.reserve,
    rules: () => ({
      floorMb: settings.config().disk?.floor_mb ?? DEFAULT_FLOOR_MB,
      reserveMb: settings.config().disk?.reserve_mb ?? DEFAULT_RESERVE_MB,
    }),
    clock: realClock,
    log,
  });
  const wished = config.concurrency?.runs ?? DEFAULT_RUNS;
  const allowed = allowance(openFilesLimit(), wished);
  if (allowed.runs < wished) {
    log(
      'warn',
      `the limit on open files lets ${allowed.runs} runs work at once, ${wished} were wished for. Raise it: ulimit -n`,
    );
  }
  const slots = runSlots(allowed.runs);
  const models = modelsBy(env);
  models(effectiveSettings({ flags, env, workspace: config }).model);
  const parents = new Map<string, string>();
  const pool = browsers({ env, log });
  const sandbox = openSandbox({
    env,
    hidden: [workspace.paths.root],
    warn: (text) => log('warn', text),
  });
  const mcp = mcpPool({ env, sandbox, log });
  const skills = openSkills(workspace.paths.skills);
  const complain = onceEach((text) => log('warn', text));
  const open = (name: string, owner: Ownership) =>
    openSession(name, {
      workspace,
      owner,
      settings,
      env,
      slots,
      models,
      sandbox,
      log,
      room: disk.room,
      parents,
      skills,
      complain,
      hands: () => hands,
      mcp,
      browsers: pool,
      secrets,
    });
  const daemon = await startDaemon(workspace, open, {
    log,
    clock: realClock,
    disk,
    mostOpen: allowed.sessions,
    allowNetwork: options.allowNetwork || config.allow_network_fs === true,
    settings: settings.reload,
    settingsTold: settings.told,
    onLost: options.onLost,
    ...timesOf(options.env),
    prepare: () => prepared(workspace),
    sweep: (name) => sweep(name, workspace, settings.of(name)().retention),
    hands: (given) => {
      hands = given;
    },
    parentOf: (name) => parents.get(name) ?? parentOf(name),
  });
  // The daemon itself needs none of them, so nobody waits for this.
  const published = new Promise(setImmediate)
    .then(() => publishSchemas(workspace.paths.schemas))
    .catch((error) => log('warn', `${workspace.paths.schemas} was not brought up to date: ${errorText(error)}`));
  return {
    async stop() {
      await published;
      await daemon.stop();
      settings.close();
      await Promise.all([mcp.close(), pool.close()]);
    },
  };
}

/** Writes of the record: what does not fit is tried once more with the room of the reserve, so that work in hand is not lost. */
function sparing(disk: () => Disk): NonNullable<SessionOptions['disk']> {
  return {
    write(fd, bytes, offset) {
      try {
        return writeSync(fd, bytes, offset);
      } catch (error) {
        if (!isFull(error)) throw error;
        disk().hit(error);
        return writeSync(fd, bytes, offset);
      }
    },
    sync: promisify(fdatasync),
  };
}

/** What an earlier daemon left half-written goes. */
async function prepared({ paths }: Workspace): Promise<void> {
  for (const folder of [paths.own, paths.schemas]) sweepStaging(folder);
  // Whoever made `.sessions/` may have died before its name was durable, and all that is accepted is in there.
  await syncFolder(paths.root);
}

/** Removes what is old in a session, by the settings that are in force. */
async function sweep(name: string, workspace: Workspace, days: Effective['retention']): Promise<boolean> {
  const paths = sessionPaths(workspace.paths.session(name));
  return (await sweepSession(paths, days, realClock.now())).more;
}

type Parts = {
  workspace: Workspace;
  owner: Ownership;
  settings: SettingsDesk;
  env: NodeJS.ProcessEnv;
  slots: World['slots'];
  room: World['room'];
  models: (settings: ModelSettings) => Model;
  sandbox: Sandbox;
  log: World['log'];
  /** Which session waits for a child, by the child's name. */
  parents: Map<string, string>;
  skills: NotesOptions['skills'];
  complain: NotesOptions['complain'];
  hands: () => Hands;
  mcp: McpPool;
  browsers: Browsers;
  secrets: Secrets;
};

async function openSession(name: string, parts: Parts): Promise<SessionWorld | null> {
  const { workspace, owner, settings, log } = parts;
  if (!workspace.has(name)) return null;
  const effective = settings.of(name);
  const model = () => parts.models(effective().model);
  const family = rootOf(name);
  // A child that works in a folder of its own reads what its family wrote.
  const shared = family === name ? [] : [sessionPaths(workspace.paths.session(family)).work];
  const readAlso = [...effective().readAlso, ...shared];
  const web = () => ({ network: settings.config().network, search: settings.config().search });
  const sandbox = { of: parts.sandbox, wish: () => effective().sandbox };
  const notes = openNotes(name, { ...parts, effective, config: settings.config, clock: realClock });
  const jobs = openShelf(sessionPaths(workspace.paths.session(name)).jobs);
  const builtin = builtinTools({ readAlso, env: parts.env, web, sandbox, jobs, notes: notes.tools });
  const browser = parts.browsers.of(sessionPaths(workspace.paths.session(name)).browser, () => ({
    network: settings.config().network,
    browser: settings.config().browser,
  }));
  const servers = parts.mcp.of(name, () => effective().mcpServers, sandbox.wish);
  const tools = parts.secrets.tools(toolbox([...builtin, browser], servers, () => effective().permissions));
  const epoch = await owner.epochFor((await workspace.lastEvent(name))?.epoch ?? 0);
  const world: World = {
    store: asking(
      heardBy(parts.secrets.store(fenced(workspace.session(name, epoch), owner)), () => {
        const parent = parts.parents.get(name) ?? parentOf(name);
        if (parent !== undefined) parts.hands().wake(parent);
      }),
      () => parts.hands().asks(name),
    ),
    children: openChildren(workspace, {
      adopted: (child) => parts.parents.set(child, name),
      quarantined: (child) => parts.hands().quarantined(child),
    }),
    model: {
      async ask(request, options) {
        return built(model).ask(request, options);
      },
      window(asked) {
        try {
          return model().window?.(asked);
        } catch {
          // Settings that name no model are told where it is asked.
          return undefined;
        }
      },
    },
    tools,
    clock: realClock,
    seal: () => randomBytes(6).toString('hex'),
    slots: parts.slots,
    owner,
    room: parts.room,
    notes: notes.told,
    jobs,
    log: (level, text) => log(level, `${name}: ${text}`),
  };
  return {
    world,
    async rules() {
      const { rules } = effective();
      return {
        ...rules,
        instructions: [workspace.instructionsText(), rules.instructions].filter(Boolean).join('\n\n'),
      };
    },
  };
}

/** A line that readers would void must not be written, nor believed: what follows from it is moved files and sent replies. */
function fenced(store: SessionStore, owner: World['owner']): SessionStore {
  const append: SessionStore['journal']['append'] = async (events) => {
    owner.check();
    return store.journal.append(events);
  };
  return { ...store, journal: { ...store.journal, append } };
}

/** A reply of a child session wakes its parent: an outbox is not watched. */
function heardBy(store: SessionStore, hear: () => void): SessionStore {
  const { outbox } = store;
  const told =
    (put: typeof outbox.publish): typeof outbox.publish =>
    async (name, content) => {
      await put(name, content);
      hear();
    };
  return { ...store, outbox: { ...outbox, publish: told(outbox.publish), publishAgain: told(outbox.publishAgain) } };
}

/** Whoever is asked may answer in the file: it is watched from here on, also by a daemon that finds it there. */
function asking(store: SessionStore, asks: () => void): SessionStore {
  const { approvals } = store;
  const watched: SessionStore['approvals'] = {
    ...approvals,
    async list() {
      const ids = await approvals.list();
      if (ids.length > 0) asks();
      return ids;
    },
    async write(id, content) {
      await approvals.write(id, content);
      asks();
    },
  };
  return { ...store, approvals: watched };
}

/** Settings may name a model that cannot be had, such as a script that is not there: news for the run, not for the daemon. */
function built(model: () => Model): Model {
  try {
    return model();
  } catch (error) {
    throw new ModelFault('rejected', errorText(error), { retry: false });
  }
}

/** One model for each set of settings: they share connections, and scripted ones their place. */
function modelsBy(env: NodeJS.ProcessEnv): (settings: ModelSettings) => Model {
  const known = new Map<string, Model>();
  return (settings) => {
    const key = JSON.stringify(settings);
    const model = known.get(key) ?? chooseModel(settings, env);
    known.set(key, model);
    return model;
  };
}
