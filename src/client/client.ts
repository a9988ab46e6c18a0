import * as fs from 'node:fs';
import { UserError } from '../protocol/errors.ts';
import type { Reply } from '../protocol/reply.ts';
import type { DaemonStatus } from '../protocol/status.ts';
import { RecordCorrupt } from '../store/errors.ts';
import { parentOf } from '../store/family-names.ts';
import { type WorkspacePaths, workspacePaths } from '../store/layout.ts';
import { liveOwner, type Owner } from '../store/owner.ts';
import { ulids } from '../store/ulid.ts';
import type { Workspace } from '../store/workspace.ts';
import type { Asked } from './approvals.ts';
import type { Launch } from './daemon.ts';
import { daemonStatus } from './daemon-status.ts';
import { DaemonState } from './errors.ts';
import { sessionFolders } from './folders.ts';
import type { Following, Sight } from './follow.ts';
import type { Overview } from './overview.ts';
import type { Rebuilt } from './rebuild.ts';
import type { Waiting } from './replies.ts';
import type { Outgoing, Sent } from './send.ts';
import type { Shown } from './shown.ts';
import type { Line } from './tail.ts';
import type { TakenOver } from './takeover.ts';
import type { TemplateShown } from './templates.ts';

/**
 * What every frontend uses. It talks to the daemon through files alone, so all of it works while no daemon is running; what
 * only looks makes nothing, not even the workspace. Methods with a session throw `NoSuchSession`, except `send`. Most of a
 * short command's time is loading modules, so each method loads what it needs when it is used.
 */
export type Client = {
  paths: WorkspacePaths;
  /** Folder names of all sessions, sorted. */
  sessions(): string[];
  /** The folder of the session with this key. */
  folder(key: string): string;
  /** Drops a message, durably. A session that is not there is made unless `mustExist` is set. */
  send(key: string, message: Outgoing, options?: { mustExist?: boolean }): Promise<Sent>;
  waitForReply(key: string, name: string, options?: Waiting): Promise<Reply>;
  /** A line about each session, one by one: each costs a reading of its record. */
  list(): AsyncGenerator<Overview>;
  show(key: string): Promise<Shown>;
  events(key: string, options?: Following): AsyncGenerator<Line>;
  /** How many events at the beginning of a record retention has removed. */
  gone(key: string): Promise<number>;
  /** The number of the last event, from the end of the record alone; 0 where there is none. */
  lastSeq(key: string): Promise<number>;
  watch(key: string, signal?: AbortSignal): AsyncGenerator<Sight>;
  /** Throws `DaemonState` while a daemon is at work in the session. */
  rebuild(key: string): Promise<Rebuilt[]>;
  /** The session and its child sessions. */
  family(key: string): string[];
  /** Each throws `DaemonState` while a run is on, and takes the child sessions along. `archive` answers the path the folder has now. */
  archive(key: string): Promise<string>;
  remove(key: string): Promise<void>;
  rename(key: string, to: string): Promise<string>;
  /** The call that waits in the session, or in one that works for it. Throws `NoSuchApproval` where there is not exactly one. */
  asked(key: string, id?: number): Promise<Asked>;
  templates(): Promise<TemplateShown[]>;
  /** Keeps the completed plan of a session as a template of that name; answers the path of its file. */
  saveTemplate(key: string, name: string, options?: { force?: boolean }): Promise<string>;
  /** The daemon that runs now. */
  daemon(): Owner | undefined;
  /** What that daemon watches and cannot serve, from its status file. */
  status(): DaemonStatus | undefined;
  /** Why `agentd.json`, or what the daemon goes by in its place, does not hold; null where it does. */
  settingsFault(): Promise<string | null>;
  start(launch: Launch): Promise<Owner>;
  stop(): Promise<Owner>;
  /** Ends a daemon that hangs, after `graceMs` by SIGKILL. */
  takeover(options: { graceMs: number }): Promise<TakenOver>;
};

export function openClient(root: string, now: () => Date = () => new Date()): Client {
  const paths = workspacePaths(root);
  const folders = sessionFolders(paths);
  const nextId = ulids(now);
  let opened: Workspace | undefined;
  const workspace = async () => {
    const { openWorkspace } = await import('../store/workspace.ts');
    opened ??= openWorkspace(root, { now });
    return opened;
  };
  const folded = async (session: Known) => (await import('./meaning.ts')).foldRecord(session);

  /** Children before their parent: what is left half-way is a family that can be told again what to do. */
  const familyAtRest = async (key: string, doing: string): Promise<string[]> => {
    const names = folders.family(folders.known(key).name).reverse();
    for (const name of names) await atRest(name, doing);
    return names;
  };
  const atRest = async (name: string, doing: string): Promise<void> => {
    if (!(await isRunning(name))) return;
    const start = liveOwner(paths) ? '' : ' once a daemon is running (agentctl start)';
    throw new DaemonState(
      `A run is on in ${name}, so it is not ${doing}. Stop the run first${start}: agentctl stop-run ${name} --wait`,
    );
  };
  /** A record that cannot be trusted is let alone by the daemon too: nothing is on there. */
  const isRunning = async (key: string): Promise<boolean> => {
    try {
      return (await folded(folders.known(key))).run !== null;
    } catch (error) {
      if (error instanceof RecordCorrupt) return false;
      throw error;
    }
  };

  return {
    paths,
    sessions: folders.names,
    folder: (key) => folders.known(key).folder,
    async send(key, message, { mustExist = false } = {}) {
      if (mustExist) folders.known(key);
      const { checkOutgoing, putIntoInbox } = await import('./send.ts');
      checkOutgoing(message);
      const session = folders.nameOf(key);
      if (!folders.names().includes(session)) await create(await workspace(), session);
      const id = nextId();
      return { session, id, name: await putIntoInbox(paths.session(session), id, message) };
    },
    async waitForReply(key, name, options = {}) {
      const session = folders.known(key);
      return (await import('./replies.ts')).waitForReply(session, name, options);
    },
    async *list() {
      const { overview } = await import('./overview.ts');
      for (const name of folders.names()) yield await overview(folders.known(name));
    },
    async show(key) {
      const session = folders.known(key);
      const { show } = await import('./shown.ts');
      return show(session, (name) => (folders.names().includes(name) ? folders.known(name) : undefined));
    },
    events: (key, options = {}) => eventsOf(folders.known(key), options),
    async gone(key) {
      const session = folders.known(key);
      return (await import('../store/retention.ts')).removedEvents(session);
    },
    async lastSeq(key) {
      const session = folders.known(key);
      return (await import('../store/last-event.ts')).lastEventOf(session)?.seq ?? 0;
    },
    watch: (key, signal) => sightsOf(folders.known(key), signal),
    async rebuild(key) {
      const session = folders.known(key);
      const isServed = liveOwner(paths) !== undefined;
      if (isServed) {
        const { run, unanswered } = await folded(session);
        const { waitingIn } = await import('./overview.ts');
        if (run || unanswered.length > 0 || waitingIn(session) > 0) {
          throw new DaemonState(
            `The daemon is at work in ${session.name}; it keeps the files up to date itself. Try again when the session rests.`,
          );
        }
      }
      return (await import('./rebuild.ts')).rebuild(session, { alone: !isServed });
    },
    family: (key) => folders.family(folders.known(key).name),
    async archive(key) {
      let target = '';
      for (const name of await familyAtRest(key, 'archived')) target = await (await workspace()).archive(name);
      return target;
    },
    async remove(key) {
      for (const name of await familyAtRest(key, 'removed')) await (await workspace()).remove(name);
    },
    async rename(key, to) {
      const { name } = folders.known(key);
      const target = folders.nameOf(to);
      const parent = parentOf(name);
      if (parent !== undefined)
        throw new UserError(`${name} works for ${parent} and is called after it. Rename ${parent}.`);
      for (const one of await familyAtRest(key, 'renamed'))
        await (await workspace()).rename(one, target + one.slice(name.length));
      return target;
    },
    asked: async (key, id) =>
      (await import('./approvals.ts')).meantBy(folders.family(folders.known(key).name).map(folders.known), id),
    templates: async () => (await import('./templates.ts')).templatesShown(paths.templates),
    async saveTemplate(key, name, options = {}) {
      const { plan } = await folded(folders.known(key));
      const { planSaved } = await import('./templates.ts');
      return planSaved(paths.templates, plan, name, options);
    },
    daemon: () => liveOwner(paths),
    status: () => daemonStatus(paths),
    settingsFault: async () => (await import('./settings-on-disk.ts')).workspaceSettings(paths),
    async start(launch) {
      await workspace();
      return (await import('./daemon.ts')).startDaemon(paths, launch);
    },
    stop: async () => (await import('./daemon.ts')).stopDaemon(paths),
    takeover: async (options) => (await import('./takeover.ts')).takeOver(paths, options),
  };
}

/** Another sender may make the same session at the same moment: then it is there, which is all that is wanted. */
async function create(workspace: Workspace, session: string): Promise<void> {
  try {
    await workspace.create(session);
  } catch (error) {
    if (!fs.existsSync(workspace.paths.session(session))) throw error;
  }
}

type Known = ReturnType<ReturnType<typeof sessionFolders>['known']>;

async function* eventsOf(session: Known, options: Following): AsyncGenerator<Line> {
  yield* (await import('./follow.ts')).events(session, options);
}

async function* sightsOf(session: Known, signal: AbortSignal | undefined): AsyncGenerator<Sight> {
  yield* (await import('./follow.ts')).watch(session, signal);
}
