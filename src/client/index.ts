import type { Reply } from '../protocol/session/reply.ts';
import type { DaemonStatus } from '../protocol/workspace/daemon-files.ts';
import { createUlidGenerator } from '../store/inbox/sender.ts';
import { type WorkspacePaths, workspacePaths } from '../store/layout/layout.ts';
import { readRunningOwner, type WorkspaceOwner } from '../store/workspace/owner-file.ts';
import type { Workspace } from '../store/workspace/workspace.ts';
import type { DaemonLaunch, TakeoverResult } from './actions/daemon-control.ts';
import type { OutgoingMessage, SentMessage, UploadedFile, WaitOptions } from './actions/messaging.ts';
import type { OutgoingEdit, PlanEditResult } from './actions/plan-orders.ts';
import type { TemplateSummary } from './actions/saved-templates.ts';
import type { Schedules } from './actions/schedules.ts';
import type { MessageProgress } from './actions/sent-messages.ts';
import type { RebuiltFile } from './actions/session-admin.ts';
import type { SettingsReport } from './actions/settings-edit.ts';
import { type SessionHistory, sessionHistory, streamEvents, streamFrom, streamUpdates } from './history/moments.ts';
import type { OpenWorkFile, WorkFolder } from './history/work-folder.ts';
import type { ApprovalRequest } from './inspect/approval-requests.ts';
import type { SessionDetails } from './inspect/session-details.ts';
import { readDaemonStatus, type SessionOverview } from './inspect/session-overview.ts';
import type { ConversationOptions, SessionUpdate, StreamOptions, StreamUpdate } from './inspect/stream-session.ts';
import type { FollowOptions, LogLine } from './sessions/follow-log.ts';
import { openSessionFolders, readSession, type SessionFolders } from './sessions/session-folders.ts';
import type { Rehearsal } from './upkeep/rehearse-upgrade.ts';
import type { LogRepair } from './upkeep/repair-log.ts';

/**
 * What every frontend uses. It talks to the daemon through files alone, so everything works while no daemon is running;
 * read-only methods create nothing, not even the workspace. Methods that take a session throw `NoSuchSession`, except
 * `send`. Loading modules dominates the time of a short command, so each method loads what it needs on first use.
 */
export type Client = SessionHistory & {
  paths: WorkspacePaths;
  /** Folder names of all sessions, sorted. */
  sessions(): string[];
  /** The most recently changed sessions, newest first, without child sessions. */
  newestSessions(most: number): string[];
  /** The folder of the session with this key. */
  folder(key: string): string;
  /** The name of that folder; if there is no such session, the name it would get. */
  sessionName(key: string): string;
  /** Drops a message, durably. Creates the session if it does not exist, unless `mustExist` is set. */
  send(key: string, message: OutgoingMessage, options?: { mustExist?: boolean }): Promise<SentMessage>;
  /**
   * Drops a message, durably, under the id its sender chose, unless it was sent before. Throws `MessageConflict` if
   * that id belongs to another message. For messages without `files`; `attachments` are allowed.
   */
  sendOnce(
    key: string,
    message: OutgoingMessage & { id: string },
    options?: { mustExist?: boolean },
  ): Promise<SentMessage>;
  /** Messages whose id has this prefix and their progress, newest last. */
  sentMessages(key: string, prefix: string): Promise<MessageProgress[]>;
  waitForReply(key: string, name: string, options?: WaitOptions): Promise<Reply>;
  /** Moves a reply that was consumed to `outbox/read/`. */
  markReplyRead(key: string, name: string): Promise<void>;
  /**
   * Puts bytes into the inbox as a file, durably; the session is created if it does not exist. A message refers to it
   * with `attachments`. Throws `FileTooLarge`.
   */
  upload(key: string, name: string, pieces: AsyncIterable<Uint8Array>): Promise<UploadedFile>;
  /** The files in a folder of the session's `work/`; '' is `work/` itself. Throws `NoSuchFile`. */
  files(key: string, folder?: string): Promise<WorkFolder>;
  /** A file of the session's `work/`, opened. The caller reads or closes it. Throws `NoSuchFile`. */
  openFile(key: string, path: string): Promise<OpenWorkFile>;
  /** A summary of each session, one by one: each requires reading its event log. */
  list(): AsyncGenerator<SessionOverview>;
  show(key: string): Promise<SessionDetails>;
  events(key: string, options?: FollowOptions): AsyncGenerator<LogLine>;
  /** How many events retention has removed from the beginning of an event log. */
  removedEventCount(key: string): Promise<number>;
  /** The number of the last event, from the end of the event log alone; 0 if there is none. */
  lastSeq(key: string): Promise<number>;
  /** What people see of a session from now on, with its state. */
  watch(key: string, options?: ConversationOptions): AsyncGenerator<SessionUpdate>;
  /** The events from a position on and the model's text, for readers that reconnect. */
  stream(key: string, options?: StreamOptions): AsyncGenerator<StreamUpdate>;
  /** Throws `DaemonState` while the daemon is working in the session. */
  rebuild(key: string): Promise<RebuiltFile[]>;
  /** What a repair of the event log would drop. Throws UserError if there is nothing to repair. */
  planRepair(key: string): Promise<LogRepair>;
  /** Reads every file of the workspace as a daemon of this version would, and changes nothing. */
  rehearse(configFile?: string): Promise<Rehearsal>;
  /** The session and its child sessions. */
  withChildren(key: string): string[];
  /** Each throws `DaemonState` during a run, and includes the child sessions. `archive` returns the new path. */
  archive(key: string): Promise<string>;
  remove(key: string): Promise<void>;
  rename(key: string, to: string): Promise<string>;
  /**
   * The call waiting for approval in the session or one of its child sessions. Throws `NoSuchApproval` unless there is
   * exactly one.
   */
  approvalRequest(key: string, id?: number): Promise<ApprovalRequest>;
  /** The calls waiting for approval in the session and its child sessions. */
  approvalRequests(key: string): Promise<ApprovalRequest[]>;
  /** The calls waiting for approval in all sessions whose event log can be read. */
  allApprovalRequests(): Promise<ApprovalRequest[]>;
  /**
   * Orders an edit of the plan, durably; the daemon merges it with changes since its revision. Throws `PlanConflict` if
   * it is refused.
   */
  editPlan(key: string, edit: OutgoingEdit): Promise<PlanEditResult>;
  templates(): Promise<TemplateSummary[]>;
  /** Saves the completed plan of a session as a template of that name; returns the path of its file. */
  saveTemplate(key: string, name: string, options?: { force?: boolean }): Promise<string>;
  schedules(): Promise<Schedules>;
  /** The socket of a browser that a person took over, by the sender of their messages. Throws `DaemonState`. */
  browserSocket(key: string, from?: string): Promise<string>;
  /** The token that a program presents to a server of this workspace; created if there is none. */
  accessToken(): Promise<string>;
  /** The running daemon. */
  daemon(): WorkspaceOwner | undefined;
  /** What that daemon watches and cannot serve, from its status file. */
  status(): DaemonStatus | undefined;
  /** Why `agentd.json`, or the copy the daemon uses instead, is invalid; null if it is valid. */
  settingsFault(): Promise<string | null>;
  /** The settings in force and where each comes from, without secrets; of the workspace, or of a session. */
  settings(key?: string): Promise<SettingsReport>;
  start(launch: DaemonLaunch): Promise<WorkspaceOwner>;
  stop(): Promise<WorkspaceOwner>;
  /** Ends an unresponsive daemon, after `graceMs` by SIGKILL. */
  takeover(options: { graceMs: number }): Promise<TakeoverResult>;
};

/** The client of the workspace at `root`, which need not exist yet. */
export function openClient(root: string, now: () => Date = () => new Date()): Client {
  const paths = workspacePaths(root);
  const folders = openSessionFolders(paths);
  const nextId = createUlidGenerator(now);
  let opened: Workspace | undefined;
  const workspace = async () => {
    const { openWorkspace } = await import('../store/workspace/workspace.ts');
    opened ??= openWorkspace(root, { now });
    return opened;
  };
  const admin = async (key: string) => {
    folders.get(key);
    const { openSessionAdmin } = await import('./actions/session-admin.ts');
    return openSessionAdmin(await workspace(), folders);
  };
  /** The folder name of the session with this key, created if it does not exist. */
  const ensureSession = async (key: string): Promise<string> => {
    const session = folders.folderName(key);
    if (!folders.has(session)) {
      const { createSession } = await import('./actions/session-admin.ts');
      await createSession(await workspace(), session);
    }
    return session;
  };
  return {
    paths,
    sessions: folders.names,
    newestSessions: folders.newest,
    folder: (key) => folders.get(key).folder,
    sessionName: folders.folderName,
    ...messaging(folders, ensureSession, nextId),
    ...inspection(paths, folders),
    ...sessionHistory(paths, workspace, folders),
    rebuild: async (key) => (await import('./actions/session-admin.ts')).rebuildSession(paths, folders.get(key)),
    planRepair: async (key) => (await import('./upkeep/repair-log.ts')).planRepair(paths, folders.get(key)),
    rehearse: async (configFile) =>
      (await import('./upkeep/rehearse-upgrade.ts')).rehearseUpgrade(paths, folders, configFile),
    withChildren: (key) => folders.withChildren(folders.get(key).name),
    archive: async (key) => (await admin(key)).archive(key),
    remove: async (key) => (await admin(key)).remove(key),
    rename: async (key, to) => (await admin(key)).rename(key, to),
    async editPlan(key, edit) {
      const session = folders.get(key);
      const { orderPlanEdit } = await import('./actions/plan-orders.ts');
      return orderPlanEdit(session, edit, { id: nextId(), isServed: () => readRunningOwner(paths) !== undefined });
    },
    templates: async () => (await import('./actions/saved-templates.ts')).listTemplates(paths.templates),
    async saveTemplate(key, name, options = {}) {
      const { plan } = await readSession(folders.get(key));
      const { savePlanAsTemplate } = await import('./actions/saved-templates.ts');
      return savePlanAsTemplate(paths.templates, plan, name, options);
    },
    schedules: async () => (await import('./actions/schedules.ts')).openSchedules(paths.schedules, now),
    browserSocket: async (key, from) =>
      (await import('./actions/access.ts')).findBrowserSocket(paths, await readSession(folders.get(key)), from),
    async accessToken() {
      await workspace();
      return (await import('./actions/access.ts')).readAccessToken(paths);
    },
    daemon: () => readRunningOwner(paths),
    status: () => readDaemonStatus(paths),
    settingsFault: async () => (await import('./inspect/session-overview.ts')).workspaceSettingsProblem(paths),
    async settings(key) {
      const session = key === undefined ? undefined : folders.rootOf(key);
      return (await import('./actions/settings-edit.ts')).reportSettings(paths, session);
    },
    async start(launch) {
      await workspace();
      return (await import('./actions/daemon-control.ts')).launchDaemon(paths, launch);
    },
    stop: async () => (await import('./actions/daemon-control.ts')).stopDaemon(paths),
    takeover: async (options) => (await import('./actions/daemon-control.ts')).takeOverWorkspace(paths, options),
  };
}

/** What is dropped into a session, and the replies to it. */
function messaging(
  folders: SessionFolders,
  ensureSession: (key: string) => Promise<string>,
  nextId: () => string,
): Pick<Client, 'send' | 'sendOnce' | 'sentMessages' | 'markReplyRead' | 'waitForReply' | 'upload'> {
  return {
    async send(key, message, { mustExist = false } = {}) {
      if (mustExist) folders.get(key);
      const { validateOutgoing, dropIntoInbox } = await import('./actions/messaging.ts');
      validateOutgoing(message);
      const session = await ensureSession(key);
      const id = message.id ?? nextId();
      return { session, id, name: await dropIntoInbox(folders.get(session).folder, id, message) };
    },
    async sendOnce(key, message, { mustExist = false } = {}) {
      if (mustExist) folders.get(key);
      (await import('./actions/messaging.ts')).validateOutgoing(message);
      const session = await ensureSession(key);
      const { dropOnce } = await import('./actions/sent-messages.ts');
      return { session, id: message.id, name: await dropOnce(folders.get(session), message) };
    },
    async sentMessages(key, prefix) {
      const session = folders.get(key);
      return (await import('./actions/sent-messages.ts')).listSentMessages(session, prefix);
    },
    async markReplyRead(key, name) {
      const session = folders.get(key);
      (await import('./actions/sent-messages.ts')).markReplyRead(session, name);
    },
    async waitForReply(key, name, options = {}) {
      const session = folders.get(key);
      return (await import('./actions/messaging.ts')).waitForReply(session, name, options);
    },
    async upload(key, name, pieces) {
      const session = await ensureSession(key);
      const { receiveUpload } = await import('./actions/messaging.ts');
      return { session, ...(await receiveUpload(folders.get(session), name, pieces)) };
    },
  };
}

/** What can be read; nothing is created. */
function inspection(paths: WorkspacePaths, folders: SessionFolders) {
  const family = (key: string) => folders.withChildren(folders.get(key).name).map(folders.get);
  return {
    async files(key, folder = '') {
      const { work } = folders.rootOf(key);
      return (await import('./history/work-folder.ts')).listWorkFolder(work, folder);
    },
    async openFile(key, path) {
      const { work } = folders.rootOf(key);
      return (await import('./history/work-folder.ts')).openWorkFile(work, path);
    },
    async *list() {
      yield* (await import('./inspect/session-overview.ts')).readOverviews(paths, folders);
    },
    async show(key) {
      const session = folders.get(key);
      const { readSessionDetails } = await import('./inspect/session-details.ts');
      return readSessionDetails(session, (name) => (folders.has(name) ? folders.get(name) : undefined), paths);
    },
    events: (key, options = {}) => streamEvents(folders.get(key), options),
    async removedEventCount(key) {
      const session = folders.get(key);
      return (await import('../store/session/retention.ts')).countRemovedEvents(session);
    },
    async lastSeq(key) {
      const session = folders.get(key);
      return (await import('../store/event-log/log-reader.ts')).readLastEvent(session)?.seq ?? 0;
    },
    watch: (key, options = {}) => streamUpdates(folders.get(key), options),
    stream: (key, options = {}) => streamFrom(folders.get(key), options),
    approvalRequest: async (key, id) =>
      (await import('./inspect/approval-requests.ts')).findApprovalRequest(family(key), id),
    approvalRequests: async (key) => (await import('./inspect/approval-requests.ts')).listApprovalRequests(family(key)),
    allApprovalRequests: async () =>
      (await import('./inspect/approval-requests.ts')).listAllApprovalRequests(folders.names().map(folders.get)),
  } satisfies Partial<Client>;
}

export type { SentMessage } from './actions/messaging.ts';
export type { PlanWorkingCopy } from './actions/plan-working-copy.ts';
export type { MessageProgress } from './actions/sent-messages.ts';
export type { ApprovalRequest } from './inspect/approval-requests.ts';
export type { StepExplanation } from './inspect/explain-steps.ts';
export type { FieldChange, PlanDiff, PlanHistoryEntry } from './inspect/plan-history.ts';
export type { ChildDetails, SessionDetails } from './inspect/session-details.ts';
export type { SessionOverview } from './inspect/session-overview.ts';
export type { SessionUpdate } from './inspect/stream-session.ts';
