import * as fs from 'node:fs';
import { join, relative } from 'node:path';
import { getOwn, propertyOf } from '../../base/collections.ts';
import { parseJson } from '../../base/json.ts';
import { UserError } from '../../base/user-error.ts';
import { formatReplyFile } from '../../core/messages/replies.ts';
import { formatPlanFile } from '../../core/plan/plan-steps.ts';
import { childSessionName, whyNoChildren } from '../../core/session/child-session.ts';
import { pendingWorkOf } from '../../core/session/session-queries.ts';
import type { Session } from '../../core/session/session-state.ts';
import type { Event } from '../../protocol/session/event.ts';
import type { Plan } from '../../protocol/session/plan.ts';
import type { Reply } from '../../protocol/session/reply.ts';
import type { McpServers } from '../../protocol/settings/mcp-config.ts';
import { readableName } from '../../protocol/workspace/session-names.ts';
import { readEventLog } from '../../store/event-log/log-reader.ts';
import { assertEndIsThere } from '../../store/event-log/lost-end.ts';
import { ensureFolder, replaceFile } from '../../store/fs/durable-write.ts';
import { readTextFile } from '../../store/fs/file-reads.ts';
import { CorruptLogError, ifExists } from '../../store/fs/store-errors.ts';
import { parentSessionOf, type SessionPaths, sessionPaths, type WorkspacePaths } from '../../store/layout/layout.ts';
import { readPlanContent } from '../../store/plan/plan-content.ts';
import { openPlanFile } from '../../store/plan/plan-file.ts';
import { openOutbox } from '../../store/session/outbox.ts';
import { filesRemovedBefore } from '../../store/session/retention.ts';
import { foldersOfSession } from '../../store/session/session-folder.ts';
import { checkConfig } from '../../store/settings/settings-check.ts';
import { readRunningOwner } from '../../store/workspace/owner-file.ts';
import { openWorkspace, type Workspace } from '../../store/workspace/workspace.ts';
import { planFileProblem } from '../inspect/session-details.ts';
import { countWaitingMessages } from '../inspect/session-overview.ts';
import { commandLine, DaemonState } from '../sessions/client-errors.ts';
import { replayLog } from '../sessions/replay.ts';
import { type KnownSession, type NamedSession, readSession, type SessionFolders } from '../sessions/session-folders.ts';

/** Another sender may create the same session at the same moment: then it exists, which is all that is needed. */
export async function createSession(workspace: Workspace, session: string): Promise<void> {
  try {
    await workspace.create(session);
  } catch (error) {
    if (!fs.existsSync(workspace.paths.session(session))) throw error;
  }
}

/**
 * What moves or deletes whole sessions, with their child sessions. Each throws `DaemonState` while a run is in progress
 * in one of them.
 */
export function openSessionAdmin(workspace: Workspace, folders: SessionFolders) {
  /** Children before their parent: after an interruption the next attempt still finds all of them by its name. */
  async function idleSessionTree(key: string, doing: string): Promise<string[]> {
    const names = folders.withChildren(folders.get(key).name).reverse();
    for (const name of names) await assertIdle(name, doing);
    return names;
  }

  async function assertIdle(name: string, doing: string): Promise<void> {
    if (!(await isRunning(folders.get(name)))) return;
    const { root } = workspace.paths;
    const start = readRunningOwner(workspace.paths)
      ? ''
      : ` once a daemon is running (${commandLine(root, ['start'])})`;
    throw new DaemonState(
      `${readableName(name)} has an active run, so it is not ${doing}. Stop the run first${start}: ${commandLine(root, ['stop-run', readableName(name), '--wait'])}`,
    );
  }

  return {
    /** Returns the folder's new path. */
    async archive(key: string): Promise<string> {
      let target = '';
      for (const name of await idleSessionTree(key, 'archived')) target = await workspace.archive(name);
      return target;
    },
    async remove(key: string): Promise<void> {
      for (const name of await idleSessionTree(key, 'removed')) await workspace.remove(name);
    },
    /** Returns the new name of the folder. */
    async rename(key: string, to: string): Promise<string> {
      const { name } = folders.get(key);
      const target = folders.folderName(to);
      const parent = parentSessionOf(name);
      if (parent !== undefined)
        throw new UserError(
          `${readableName(name)} is a child session of ${readableName(parent)} and named after it. Rename ${readableName(parent)}.`,
        );
      const tree = await idleSessionTree(key, 'renamed');
      const names = tree.length > 1 ? await treeNames(workspace.paths, name, target) : new Map<string, string>();
      const noRoom = whyNoChildren(target);
      if (tree.length > 1 && noRoom !== undefined) throw new UserError(noRoom);
      for (const one of tree) await workspace.rename(one, names.get(one) ?? target + one.slice(name.length));
      return target;
    },
  };
}

/**
 * The name of a child session follows from that of its parent and its step. A long one is hashed, so only the parents'
 * event logs say which child has it. Those that an interrupted renaming has moved already are read where they are.
 */
async function treeNames(paths: WorkspacePaths, name: string, to: string): Promise<Map<string, string>> {
  const names = new Map([[name, to]]);
  for (const [parent, later] of names) {
    const folder = [parent, later].map(paths.session).find((path) => fs.existsSync(path));
    if (folder === undefined) continue;
    try {
      await replayLog({ ...sessionPaths(folder), name: parent }, (event, _, { children }) => {
        const child = event.type === 'child.sent' ? getOwn(children, event.step) : undefined;
        if (child) names.set(child.name, childSessionName(later, child.step, child.generation ?? 1));
      });
    } catch (error) {
      // Its child sessions are known as far as its log can be read; the daemon does not serve it.
      if (!(error instanceof CorruptLogError)) throw error;
    }
  }
  return names;
}

/** The daemon does not serve a session whose event log cannot be trusted: no run is in progress there. */
async function isRunning(session: KnownSession): Promise<boolean> {
  try {
    return (await readSession(session)).run !== null;
  } catch (error) {
    if (error instanceof CorruptLogError) return false;
    throw error;
  }
}

/** Rebuilds a session's files from its event log. Throws `DaemonState` while the daemon is working in it. */
export async function rebuildSession(paths: WorkspacePaths, session: KnownSession): Promise<RebuiltFile[]> {
  const isServed = readRunningOwner(paths) !== undefined;
  if (isServed) {
    const { run, unanswered } = await readSession(session);
    if (run || unanswered.length > 0 || countWaitingMessages(session) > 0) {
      throw new DaemonState(
        `The daemon is working in ${readableName(session.name)} and keeps its files up to date. Try again when the session is idle.`,
      );
    }
  }
  return rebuildFiles(session, { alone: !isServed });
}

/** The outcome for one file. `unchanged`: its bytes were right. `left`: it is a person's, or its path is taken. */
export type RebuiltFile = { path: string; is: 'written' | 'removed' | 'unchanged' | 'left'; why?: string };

/**
 * Rewrites every projection of an event log, byte for byte: `plan.json`, earlier plans, and replies that are in neither
 * `outbox/` nor `outbox/read/`. A hand edit that was not accepted yet is left alone. The caller makes sure that no run
 * is in progress, and says whether it is `alone`: a daemon may still have the session open.
 */
export async function rebuildFiles(
  paths: NamedSession,
  { alone = true }: { alone?: boolean } = {},
): Promise<RebuiltFile[]> {
  for (const folder of foldersOfSession(paths.folder)) ensureFolder(folder);
  const file = openPlanFile(paths, () => performance.now(), { alone });
  const seen = await file.detectEdits();
  const replay = collectProjections(seen.is === 'edited' ? seen.saves : []);
  const { session } = await replayLog(paths, replay.read);
  const extent = await readEventLog(paths, () => {}, 'oldest');
  if (extent !== 'unfit') await assertEndIsThere(paths, extent, pendingWorkOf(session));
  const { left, published, unknown } = replay.result();
  for (const save of replay.known()) file.markSeen(save);
  return [
    ...(await rebuildPlan(paths, file, session, unknown, left)),
    ...(await rebuildEndedPlans(paths, left)),
    ...(await rebuildReplies(paths, published)),
  ].map((one) => ({ ...one, path: relative(paths.folder, one.path) }));
}

type PublishedReply = { reply: Reply; at: string };

/**
 * Collects from an event log what it projected to files. `saves` are texts of `plan.json` to be identified: ours or a
 * person's.
 */
function collectProjections(saves: string[]) {
  const left = new Map<string, Plan>();
  const published: PublishedReply[] = [];
  const unknown = new Set(saves);
  return {
    read(event: Event, before: Session, { plan }: Session): void {
      if (before.plan && before.plan.id !== plan?.id) left.set(before.plan.id, before.plan);
      if (plan && plan !== before.plan && unknown.size > 0) unknown.delete(formatPlanFile(plan));
      const reply = event.type === 'reply.published' ? getOwn(before.unpublishedReplies, event.message) : undefined;
      if (reply) published.push({ reply, at: event.at });
    },
    known: () => saves.filter((save) => !unknown.has(save)),
    result: () => ({ left, published, unknown }),
  };
}

/** Why a hand edit is left alone: the daemon will read it, or cannot. */
function leaveHandEdit(path: string, plan: Plan | null): RebuiltFile {
  const problem = planFileProblem(path, plan?.steps);
  const why = problem
    ? `a hand edit that cannot be read: ${problem}`
    : 'a hand edit; the daemon applies it at its next check';
  return { path, is: 'left', why };
}

async function rebuildPlan(
  { plan: path }: SessionPaths,
  file: ReturnType<typeof openPlanFile>,
  { plan }: Session,
  unknown: ReadonlySet<string>,
  left: ReadonlyMap<string, Plan>,
): Promise<RebuiltFile[]> {
  const before = await file.detectEdits();
  if (before.is === 'blocked') return [{ path, is: 'left', why: before.why }];
  const there = readPlanContent(path, undefined, 0)?.text;
  const wanted = plan ? formatPlanFile(plan) : undefined;
  if (there === wanted) return there === undefined ? [] : [{ path, is: 'unchanged' }];
  if (unknown.size > 0) return [leaveHandEdit(path, plan)];
  if (wanted !== undefined) {
    const seen = await file.write(wanted);
    return [seen.is === 'edited' || seen.is === 'blocked' ? leaveHandEdit(path, plan) : { path, is: 'written' }];
  }
  const last = [...left.values()].at(-1);
  if (!last) return [{ path, is: 'left', why: 'the event log has no plan' }];
  await file.archive(last.id, formatPlanFile(last));
  return [{ path, is: 'removed', why: `its plan is in plans/${last.id}.json` }];
}

async function rebuildEndedPlans(paths: SessionPaths, left: ReadonlyMap<string, Plan>): Promise<RebuiltFile[]> {
  const rebuilt: RebuiltFile[] = [];
  for (const plan of left.values()) {
    const path = join(paths.plans, `${plan.id}.json`);
    const text = formatPlanFile(plan);
    const isRight = ifExists(() => fs.readFileSync(path, 'utf8')) === text;
    if (!isRight) await replaceFile(path, text, { durable: true });
    rebuilt.push({ path, is: isRight ? 'unchanged' : 'written' });
  }
  return rebuilt;
}

async function rebuildReplies(paths: SessionPaths, published: readonly PublishedReply[]): Promise<RebuiltFile[]> {
  const outbox = openOutbox(paths);
  const rebuilt: RebuiltFile[] = [];
  const removed = filesRemovedBefore(paths) ?? '';
  for (const { reply, at } of published) {
    const places = [join(paths.outbox, reply.id), join(paths.outboxRead, reply.id)];
    const [place] = places.filter((path) => fs.existsSync(path));
    if (place === undefined && at < removed) {
      rebuilt.push({ path: places[1] ?? '', is: 'left', why: 'it was read, and its retention period is over' });
      continue;
    }
    if (place === undefined) await outbox.publish(reply.id, formatReplyFile(reply));
    rebuilt.push(replyFileState(place, places[0] ?? '', reply));
  }
  return rebuilt;
}

/** An existing reply stays as it is: readers must never see a reply change. */
function replyFileState(place: string | undefined, path: string, reply: Reply): RebuiltFile {
  if (place === undefined) return { path, is: 'written' };
  if (fs.readFileSync(place, 'utf8') === formatReplyFile(reply)) return { path: place, is: 'unchanged' };
  return { path: place, is: 'left', why: 'it differs from the event log; move it away to get the reply again' };
}

/**
 * Creates an empty session for an editor, and stores its project in `editor.json`: `{"cwd": "<absolute path>"}`. The
 * agent does not work there; editors list their sessions by it. Throws UserError if the name is taken.
 */
export async function createForEditor({ root, session }: WorkspacePaths, name: string, cwd: string): Promise<void> {
  await openWorkspace(root, { now: () => new Date() }).create(name);
  const { editor } = sessionPaths(session(name));
  await replaceFile(editor, `${JSON.stringify({ cwd }, null, 2)}\n`, { durable: true });
}

/** The project an editor created the session for; undefined if none did, or the file cannot be read. */
export function readEditorProject(folder: string): string | undefined {
  const cwd = propertyOf(parseJson(readTextFile(sessionPaths(folder).editor) ?? ''), 'cwd');
  return typeof cwd === 'string' ? cwd : undefined;
}

/** The MCP servers configured in `agentd.json`. Throws UserError if it is invalid. */
export function configuredMcpServers({ config }: WorkspacePaths): McpServers {
  return checkConfig(readTextFile(config), 'agentd.json').value.mcpServers ?? {};
}
