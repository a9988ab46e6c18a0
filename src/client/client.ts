import * as fs from 'node:fs';
import { UserError } from '../protocol/errors.ts';
import type { Reply } from '../protocol/reply.ts';
import type { DaemonStatus } from '../protocol/status.ts';
import { parentOf } from '../store/children.ts';
import { RecordCorrupt } from '../store/errors.ts';
import { lastEventOf } from '../store/last-event.ts';
import { type WorkspacePaths, workspacePaths } from '../store/layout.ts';
import { liveOwner, type Owner } from '../store/owner.ts';
import { removedEvents } from '../store/retention.ts';
import { ulids } from '../store/ulid.ts';
import { openWorkspace, type Workspace } from '../store/workspace.ts';
import { type Launch, startDaemon, stopDaemon } from './daemon.ts';
import { daemonStatus } from './daemon-status.ts';
import { DaemonState } from './errors.ts';
import { sessionFolders } from './folders.ts';
import { events, type Following, type Sight, watch } from './follow.ts';
import { foldRecord } from './meaning.ts';
import { type Overview, overview, type Shown, show, waitingIn } from './overview.ts';
import { type Rebuilt, rebuild } from './rebuild.ts';
import { type Waiting, waitForReply } from './replies.ts';
import { checkOutgoing, type Outgoing, putIntoInbox, type Sent } from './send.ts';
import type { Line } from './tail.ts';
import { type TakenOver, takeOver } from './takeover.ts';
import { planSaved, type TemplateShown, templatesShown } from './templates.ts';

/**
 * What every frontend uses. It talks to the daemon through files alone, so all of it works while no daemon is running; what
 * only looks makes nothing, not even the workspace. Methods with a session throw `NoSuchSession`, except `send`.
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
  gone(key: string): number;
  /** The number of the last event, from the end of the record alone; 0 where there is none. */
  lastSeq(key: string): number;
  watch(key: string, signal?: AbortSignal): AsyncGenerator<Sight>;
  /** Throws `DaemonState` while a daemon is at work in the session. */
  rebuild(key: string): Promise<Rebuilt[]>;
  /** The session and its child sessions. */
  family(key: string): string[];
  /** Each throws `DaemonState` while a run is on, and takes the child sessions along. `archive` answers the path the folder has now. */
  archive(key: string): Promise<string>;
  remove(key: string): Promise<void>;
  rename(key: string, to: string): Promise<string>;
  templates(): Promise<TemplateShown[]>;
  /** Keeps the completed plan of a session as a template of that name; answers the path of its file. */
  saveTemplate(key: string, name: string, options?: { force?: boolean }): Promise<string>;
  /** The daemon that runs now. */
  daemon(): Owner | undefined;
  /** What that daemon watches and cannot serve, from its status file. */
  status(): DaemonStatus | undefined;
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
  const workspace = () => {
    opened ??= openWorkspace(root, { now });
    return opened;
  };

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
      return (await foldRecord(folders.known(key))).run !== null;
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
      checkOutgoing(message);
      const session = folders.nameOf(key);
      if (!folders.names().includes(session)) await create(workspace(), session);
      const id = nextId();
      return { session, id, name: await putIntoInbox(paths.session(session), id, message) };
    },
    waitForReply: (key, name, options = {}) => waitForReply(folders.known(key), name, options),
    async *list() {
      for (const name of folders.names()) yield await overview(folders.known(name));
    },
    show: (key) =>
      show(folders.known(key), (name) => (folders.names().includes(name) ? folders.known(name) : undefined)),
    events: (key, options = {}) => events(folders.known(key), options),
    gone: (key) => removedEvents(folders.known(key)),
    lastSeq: (key) => lastEventOf(folders.known(key))?.seq ?? 0,
    watch: (key, signal) => watch(folders.known(key), signal),
    async rebuild(key) {
      const session = folders.known(key);
      if (liveOwner(paths)) {
        const { run, unanswered } = await foldRecord(session);
        if (run || unanswered.length > 0 || waitingIn(session) > 0) {
          throw new DaemonState(
            `The daemon is at work in ${session.name}; it keeps the files up to date itself. Try again when the session rests.`,
          );
        }
      }
      return rebuild(session);
    },
    family: (key) => folders.family(folders.known(key).name),
    async archive(key) {
      let target = '';
      for (const name of await familyAtRest(key, 'archived')) target = await workspace().archive(name);
      return target;
    },
    async remove(key) {
      for (const name of await familyAtRest(key, 'removed')) await workspace().remove(name);
    },
    async rename(key, to) {
      const { name } = folders.known(key);
      const target = folders.nameOf(to);
      const parent = parentOf(name);
      if (parent !== undefined)
        throw new UserError(`${name} works for ${parent} and is called after it. Rename ${parent}.`);
      for (const one of await familyAtRest(key, 'renamed'))
        await workspace().rename(one, target + one.slice(name.length));
      return target;
    },
    templates: () => templatesShown(paths.templates),
    async saveTemplate(key, name, options = {}) {
      const { plan } = await foldRecord(folders.known(key));
      return planSaved(paths.templates, plan, name, options);
    },
    daemon: () => liveOwner(paths),
    status: () => daemonStatus(paths),
    async start(launch) {
      workspace();
      return startDaemon(paths, launch);
    },
    stop: () => stopDaemon(paths),
    takeover: (options) => takeOver(paths, options),
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
