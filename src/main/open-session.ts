import { randomBytes } from 'node:crypto';
import { mapGet } from '../base/collections.ts';
import { attempt, errorText } from '../base/user-error.ts';
import { openSessionFolders, readSession } from '../client/sessions/session-folders.ts';
import { realClock } from '../daemon/host/clock.ts';
import type { RunSlots } from '../daemon/host/run-limits.ts';
import type { SessionLease } from '../daemon/host/session-host.ts';
import type { SpendingBook } from '../daemon/host/spending.ts';
import type { DaemonHooks } from '../daemon/serve-workspace.ts';
import type { OpenedSession, OpenPooledSession } from '../daemon/sessions/pool-state.ts';
import type { RunGuarded, SessionHooks, SessionPorts, Spending } from '../engine/ports/session-ports.ts';
import { type Model, ModelError } from '../engine/ports/session-ports.ts';
import type { Checkpoints, SessionStore } from '../engine/ports/store-ports.ts';
import { chooseModel } from '../models/choose-model.ts';
import type { EndpointProfiles } from '../models/request/endpoint-profiles.ts';
import { scheduleOfMessage } from '../protocol/schedules/schedule.ts';
import type { PeriodBudgets } from '../protocol/settings/budgets.ts';
import type { CheckpointLimits } from '../protocol/settings/checkpoint-limits.ts';
import type { Config } from '../protocol/settings/config.ts';
import type { EffectiveModel } from '../protocol/settings/effective-settings.ts';
import { rootSessionOf, sessionVariables } from '../protocol/workspace/session-names.ts';
import { oncePerTurn } from '../store/fs/file-reads.ts';
import {
  existingRootOf,
  openCheckpoints,
  openChildSessions,
  openSkillStore,
  parentSessionOf,
  sessionPaths,
  type Workspace,
  type WorkspacePaths,
} from '../store/index.ts';
import type { Browsers } from '../tools/handover/browsers.ts';
import { builtinTools, createToolbox, type McpPool, openJobStore, type Sandbox } from '../tools/index.ts';
import type { LiveSettings } from './live-settings.ts';
import { endpointProfiles } from './model-check.ts';
import type { SecretRedaction } from './redaction.ts';
import { openOwnSchedules, openReminders } from './scheduled-sessions.ts';
import { logEachOnce, openSessionNotes, type SessionNotesOptions } from './session-notes.ts';

/** What all sessions of the daemon share. */
export type SessionsDeps = {
  workspace: Workspace;
  settings: LiveSettings;
  config: () => Config;
  env: NodeJS.ProcessEnv;
  runSlots: RunSlots;
  diskCapacity: SessionPorts['diskCapacity'];
  sandbox: Sandbox;
  log: SessionPorts['log'];
  /** The parent session that waits for a child, by the child's name. */
  parents: Map<string, string>;
  hooks: () => DaemonHooks;
  mcp: McpPool;
  browsers: Browsers;
  secrets: SecretRedaction;
  spending: SpendingBook;
};

type SessionDeps = SessionsDeps &
  Pick<SessionNotesOptions, 'skills' | 'warnOnce'> & { owner: SessionLease; models: Sessions['models'] };

/** `models` throws UserError for a script that cannot be read. */
export type Sessions = { open: OpenPooledSession; models: (settings: EffectiveModel) => Model };

export function openSessions(deps: SessionsDeps): Sessions {
  const { workspace, env, log } = deps;
  const models = cacheModels(env, endpointProfiles(workspace.paths));
  const skills = openSkillStore(workspace.paths.skills);
  const warnOnce = logEachOnce((text) => log('warn', text));
  return { models, open: (name, owner) => openSession(name, { ...deps, owner, models, skills, warnOnce }) };
}

/** One model per set of settings, so that sessions share connections, and scripted models their position. */
function cacheModels(env: NodeJS.ProcessEnv, profiles: EndpointProfiles): Sessions['models'] {
  const known = new Map<string, Model>();
  return (settings) => {
    const key = JSON.stringify(settings);
    const model = known.get(key) ?? chooseModel(settings, env, profiles);
    known.set(key, model);
    return model;
  };
}

async function openSession(name: string, deps: SessionDeps): Promise<OpenedSession | null> {
  const { workspace, owner, settings, config, log } = deps;
  if (!workspace.has(name)) return null;
  // A session that waits for a file to be fixed has to see the fix in the turn that wakes it.
  const effective = oncePerTurn(settings.forSession(name), ({ waits }) => waits === null);
  const model = () => deps.models(effective().model);
  const root = rootSessionOf(name);
  // A child that works in a folder of its own reads what its family wrote.
  const shared = root === name ? [] : [sessionPaths(workspace.paths.session(root)).work];
  const readAlso = [...effective().readAlso, ...shared];
  const web = () => ({ network: config().network, search: config().search });
  const sandbox = { of: deps.sandbox, settings: () => effective().sandbox };
  const env = { ...deps.env, ...sessionVariables(name, workspace.paths.session(name)) };
  const notes = openSessionNotes(name, { ...deps, effective, clock: realClock });
  const jobs = openJobStore(sessionPaths(workspace.paths.session(name)).jobs);
  const schedules = openOwnSchedules(name, workspace.paths.schedules);
  const builtin = builtinTools({ readAlso, env, web, sandbox, jobs, notes: notes.tools, schedules });
  const profile = {
    folder: sessionPaths(workspace.paths.session(name)).browser,
    settings: () => ({ network: config().network, browser: config().browser }),
  };
  const browser = deps.browsers.toolFor(profile.folder, profile.settings);
  const servers = deps.mcp.toolsFor(name, () => effective().mcpServers, sandbox.settings);
  const tools = deps.secrets.tools(createToolbox([...builtin, browser], servers, () => effective().permissions));
  const ownInstructions = oncePerTurn(workspace.instructionsReader(existingRootOf(name, workspace.has)));
  const instructions = oncePerTurn(workspace.instructionsText);
  const runGuarded: RunGuarded = (what, run) => deps.hooks().runGuarded(name, what, run);
  const epoch = await owner.epochFor((await workspace.lastEvent(name))?.epoch ?? 0);
  const store = openStore(name, epoch, runGuarded, deps);
  const ports: SessionPorts = {
    store,
    hooks: sessionHooks(name, deps),
    children: openChildSessions(workspace, {
      onAdopted: (child) => deps.parents.set(child, name),
      quarantineReason: (child) => deps.hooks().quarantineReason(child),
    }),
    model: modelPort(model),
    tools,
    clock: realClock,
    createNonce: () => randomBytes(6).toString('hex'),
    runSemaphore: deps.runSlots.of(name),
    owner,
    diskCapacity: deps.diskCapacity,
    notes: notes.current,
    spending: openSessionSpending(name, {
      ...{ paths: workspace.paths, book: deps.spending },
      own: () => effective().ownBudgets,
      model: () => effective().model.name ?? deps.env['OPENAI_MODEL'],
    }),
    jobs,
    checkpoints: checkpointsFor(name, workspace, () => effective().checkpoints),
    browser: deps.browsers.controlFor({
      ...profile,
      socket: workspace.paths.browserSocket(name),
      onLost: () => deps.hooks().wake(name),
    }),
    log: (level, text, about) => log(level, text, { session: name, ...about }),
  };
  return {
    ports,
    async rules() {
      const { rules } = effective();
      const parts = [instructions(), rules.instructions, ownInstructions()];
      return { ...rules, instructions: parts.filter(Boolean).join('\n\n') };
    },
  };
}

/** A child session works in the folder of its root, as long as that exists. */
function checkpointsFor(name: string, workspace: Workspace, limits: () => CheckpointLimits): Checkpoints {
  const root = existingRootOf(name, workspace.has);
  const pathsOf = (session: string) => sessionPaths(workspace.paths.session(session));
  return openCheckpoints(pathsOf(name), pathsOf(root).work, limits);
}

function openStore(name: string, epoch: number, runGuarded: RunGuarded, deps: SessionDeps): SessionStore {
  const { workspace, owner, secrets } = deps;
  const { previous, segmentsOf, check } = owner;
  const closedEpoch = previous?.ended === 'in order' ? previous.epoch : undefined;
  const own = segmentsOf === undefined ? undefined : { owner: segmentsOf, check };
  const store = secrets.store(workspace.openSession(name, epoch, runGuarded, { closedEpoch, own }));
  return { ...store, reminders: openReminders(name, workspace.paths.schedules) };
}

/** Who has to hear of what happens in a session: the daemon watches few files, and no outboxes. */
function sessionHooks(name: string, { owner, parents, hooks }: SessionDeps): SessionHooks {
  const root = rootSessionOf(name);
  return {
    checkOwner: owner.check,
    onReply() {
      const parent = parents.get(name) ?? parentSessionOf(name);
      if (parent !== undefined) hooks().wake(parent);
    },
    onApprovalAsked: () => hooks().onApprovalAsked(name),
    // A root session asks about the calls of its child sessions.
    onApprovalsChanged: () => (root === name ? undefined : hooks().wake(root)),
  };
}

/** The model of the settings as they are at each call. */
function modelPort(model: () => Model): Model {
  return {
    async ask(request, options) {
      return buildModel(model).ask(request, options);
    },
    async prepare(request) {
      await buildModel(model).prepare?.(request);
    },
    prices: async (asked) => buildModel(model).prices?.(asked),
    contextWindow(asked) {
      // A missing model is reported when the model is called.
      return attempt(() => model().contextWindow?.(asked));
    },
  };
}

/** Settings may name a model that is not available, such as a missing script: that fails the run, not the daemon. */
function buildModel(model: () => Model): Model {
  try {
    return model();
  } catch (error) {
    throw new ModelError('rejected', errorText(error), { retry: false });
  }
}

type Origin = { id: string; from?: string | undefined };

type SessionSpendingOptions = {
  paths: WorkspacePaths;
  book: SpendingBook;
  /** The budgets in the `session.json` that applies. */
  own: () => PeriodBudgets | undefined;
  /** The configured model, for runs that name none. */
  model: () => string | undefined;
};

/**
 * The spending of one session. The calls of a child session count for the session at the top of its family, and for the
 * sender of the message which that one works on.
 */
function openSessionSpending(name: string, { paths, book, own, model }: SessionSpendingOptions): Spending {
  const root = rootSessionOf(name);
  const folders = openSessionFolders(paths);

  async function originOf(message: Origin): Promise<Origin> {
    if (root === name) return message;
    // Its own message is one of its parent's.
    if (!folders.has(root)) return { id: message.id };
    const { run, runEnd, messages } = await readSession(folders.get(root));
    return mapGet(messages, (run ?? runEnd)?.message ?? '') ?? { id: message.id };
  }

  return {
    async reserve({ tokens, cost, model: named, message }, signal) {
      const { id, from } = await originOf(message);
      const schedule = scheduleOfMessage(id);
      const source = {
        ...{ session: root, model: named || (model() ?? 'unknown') },
        ...(from !== undefined && { sender: from }),
        ...(schedule !== undefined && { schedule }),
      };
      return book.reserve({ tokens, cost, source, own: own() }, signal);
    },
  };
}
