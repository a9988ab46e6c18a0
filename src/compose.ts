import { randomBytes } from 'node:crypto';
import { fdatasync, writeSync } from 'node:fs';
import { promisify } from 'node:util';
import { type NotesOptions, onceEach, openNotes } from './compose-notes.ts';
import { openSecrets, type Secrets } from './compose-secrets.ts';
import { realClock } from './daemon/clock.ts';
import { type Daemon, type Hands, startDaemon } from './daemon/daemon.ts';
import { type Disk, openDisk } from './daemon/disk.ts';
import { type Level, logger } from './daemon/log.ts';
import { allowance, openFilesLimit } from './daemon/opening.ts';
import type { Ownership } from './daemon/owner.ts';
import type { SessionWorld } from './daemon/sessions.ts';
import { runSlots } from './daemon/slots.ts';
import { type Model, ModelFault, type SessionStore, type World } from './engine/ports.ts';
import { chooseModel } from './models/index.ts';
import {
  type Config,
  type ModelSettings,
  permissionsOf,
  resolveRules,
  retentionOf,
  type Settings,
  sandboxOf,
} from './protocol/config.ts';
import { errorText, isFull } from './protocol/errors.ts';
import {
  type Checked,
  checkConfig,
  checkSettings,
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
  const config = lastGood(
    log,
    options.configFile,
    options.readConfig ?? workspace.configText,
    (text) => checkConfig(text, options.configFile),
    secrets.learn,
  );
  config.reload(true);
  const disk = openDisk({
    folder: workspace.paths.own,
    reserve: workspace.paths.reserve,
    rules: () => ({
      floorMb: config.value.disk?.floor_mb ?? DEFAULT_FLOOR_MB,
      reserveMb: config.value.disk?.reserve_mb ?? DEFAULT_RESERVE_MB,
    }),
    clock: realClock,
    log,
  });
  const wished = config.value.concurrency?.runs ?? DEFAULT_RUNS;
  const allowed = allowance(openFilesLimit(), wished);
  if (allowed.runs < wished) {
    log(
      'warn',
      `the limit on open files lets ${allowed.runs} runs work at once, ${wished} were wished for. Raise it: ulimit -n`,
    );
  }
  const slots = runSlots(allowed.runs);
  const models = modelsBy(options.env);
  models(modelSettings(config.value, undefined, options.flags));
  let hands: Hands = { wake: () => {}, quarantined: () => undefined, asks: () => {} };
  const parents = new Map<string, string>();
  const mcp = mcpPool({ env: options.env, log });
  const pool = browsers({ env: options.env, log });
  const sandbox = openSandbox({
    env: options.env,
    hidden: [workspace.paths.root],
    warn: (text) => log('warn', text),
  });
  const skills = openSkills(workspace.paths.skills);
  const complain = onceEach((text) => log('warn', text));
  const open = (name: string, owner: Ownership) =>
    openSession(name, {
      workspace,
      owner,
      config,
      flags: options.flags,
      env: options.env,
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
    allowNetwork: options.allowNetwork || config.value.allow_network_fs === true,
    settings: () => config.reload(false),
    onLost: options.onLost,
    prepare: () => prepared(workspace),
    sweep: (name) => sweep(name, workspace, config.value),
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

/** Removes what is old in a session, by the settings that are in force; ones that do not hold keep everything. */
async function sweep(name: string, workspace: Workspace, config: Config): Promise<boolean> {
  const settings = checkSettings(workspace.settingsText(name), 'session.json').value;
  const paths = sessionPaths(workspace.paths.session(name));
  return (await sweepSession(paths, retentionOf(config, settings), realClock.now())).more;
}

type Parts = {
  workspace: Workspace;
  owner: Ownership;
  config: Good<Config>;
  flags: ModelSettings;
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
  const { workspace, owner, config, log } = parts;
  if (!workspace.has(name)) return null;
  const settings = lastGood(
    log,
    `${name}/session.json`,
    workspace.settings(name),
    (text) => checkSettings(text, 'session.json'),
    parts.secrets.learn,
  );
  const model = () => parts.models(modelSettings(config.value, settings.value, parts.flags));
  // A child that works in a folder of its own reads what its family wrote.
  const shared = parentOf(name) === undefined ? [] : [sessionPaths(workspace.paths.session(rootOf(name))).work];
  settings.reload(false);
  const readAlso = [...(config.value.read_also ?? []), ...(settings.value.read_also ?? []), ...shared];
  const web = () => ({ network: config.value.network, search: config.value.search });
  const sandbox = { of: parts.sandbox, wish: () => sandboxOf(config.value, settings.value) };
  const servers = () => ({ ...config.value.mcpServers, ...settings.value.mcpServers });
  const notes = openNotes(name, { ...parts, config: () => config.value, clock: realClock });
  const jobs = openShelf(sessionPaths(workspace.paths.session(name)).jobs);
  const builtin = builtinTools({ readAlso, env: parts.env, web, sandbox, jobs, notes: notes.tools });
  const browser = parts.browsers.of(sessionPaths(workspace.paths.session(name)).browser, () => ({
    network: config.value.network,
    browser: config.value.browser,
  }));
  // A family goes by the rules of its root: what a person allowed or denied there holds for all of its work.
  const root = rootOf(name);
  const rootText = workspace.settings(root);
  const above = lastGood(
    log,
    `${root}/session.json`,
    () => (workspace.has(root) ? rootText() : undefined),
    (text) => checkSettings(text, 'session.json'),
    parts.secrets.learn,
  );
  const family = root === name ? [settings] : [settings, above];
  const permissions = () => {
    // As they are now: a rule that a person has just added holds for the next call.
    for (const one of family) one.reload(false);
    return permissionsOf(config.value, ...family.map(({ value }) => value));
  };
  const tools = parts.secrets.tools(toolbox([...builtin, browser], parts.mcp.of(name, servers), permissions));
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
      settings.reload(false);
      const flags = { model: parts.flags };
      const rules = resolveRules(config.value, settings.value, flags);
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

/** Later wins, key by key: workspace, session, flags. */
function modelSettings(config: Config, session: Settings | undefined, flags: ModelSettings): ModelSettings {
  return { ...config.model, ...session?.model, ...flags };
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
