import * as fs from 'node:fs';
import { dirname } from 'node:path';
import { attempt, errorText } from '../../base/user-error.ts';
import { formatPlanFile } from '../../core/plan/plan-steps.ts';
import { countCompletedSteps } from '../../core/plan/step-graph.ts';
import { runWait, sessionStanding } from '../../core/session/session-queries.ts';
import type { Session } from '../../core/session/session-state.ts';
import { ownCalls, type SessionWait, type Surroundings, waitingFor } from '../../core/session/waiting-for.ts';
import type { Plan, PlanStatus } from '../../protocol/session/plan.ts';
import type { SessionStanding, UserQuestion } from '../../protocol/session/reply.ts';
import { DaemonStatus } from '../../protocol/workspace/daemon-files.ts';
import { readableName } from '../../protocol/workspace/session-names.ts';
import { readJsonFile, readTextOrThrow } from '../../store/fs/file-reads.ts';
import { notAFolder } from '../../store/fs/store-errors.ts';
import {
  existingRootOf,
  type IgnoredFile,
  isIgnoredName,
  listIgnored,
  parentSessionOf,
  type SessionPaths,
  sessionPaths,
  type WorkspacePaths,
  workspacePaths,
} from '../../store/layout/layout.ts';
import { readPlanContent } from '../../store/plan/plan-content.ts';
import { readRunningOwner } from '../../store/workspace/owner-file.ts';
import { folderProblem, type NamedSession, readSession, type SessionFolders } from '../sessions/session-folders.ts';

/** One session in a list. */
export type SessionOverview = {
  name: string;
  /** Its name as people read it; the name of the folder is escaped. */
  label: string;
  /** The parent of this session. */
  parent: string | null;
  title: string | null;
  standing: SessionStanding;
  plan: { id: string; status: PlanStatus; completed: number; total: number } | null;
  /** The question it asked by `ask_user` and waits to be answered. */
  asks: UserQuestion | null;
  /** Why a waiting session waits, such as `approval`; of a running one: `budget`, `model limit` or `model`. */
  waits_for: string | null;
  /** When a running session that waits for a budget or its model goes on by itself. */
  waits_until: string | null;
  /** ISO 8601, UTC; null if nothing has happened yet. */
  changed: string | null;
  /** Messages in the inbox that have not been taken yet. */
  inbox: number;
  /** Why the event log cannot be read. */
  problem: string | null;
  /** Why the settings that apply are invalid, and what is in force instead. */
  settings: string | null;
  /** Why the `plan.json` of a run that is not over cannot be read, and what to do. */
  plan_problem: string | null;
  /** Why its messages are not taken although its event log can be read. */
  unserved: string | null;
  /** What it waits for, and what answers it; null while it works, and once nothing is left to do. */
  waits: SessionWait | null;
};

/** Whether a daemon is running, why it does not serve sessions, by name, and what the disk and the settings lack. */
export type Serving = Pick<Surroundings, 'isServed' | 'disk' | 'workspaceSettings'> & {
  reasons: ReadonlyMap<string, string>;
  /** How many runs are at work, if its own waits for one of them to end. */
  queuedBehind: (name: string) => number | undefined;
};

/** What the running daemon says about itself and the sessions it does not serve. */
export async function readServing(paths: WorkspacePaths): Promise<Serving> {
  const status = readDaemonStatus(paths);
  const { space = 'ok', why = null } = status?.disk ?? {};
  const queued = new Set(status?.sessions.queued);
  return {
    isServed: readRunningOwner(paths) !== undefined,
    reasons: new Map(status?.trouble.sessions.map(({ session, why }) => [session, why])),
    queuedBehind: (name) => (queued.has(name) ? status?.sessions.runs : undefined),
    disk: space === 'ok' || why === null ? null : { space, why },
    workspaceSettings: await workspaceSettingsProblem(paths),
  };
}

/** Why no message of a session is taken: its inbox cannot be read, or what the daemon says; null if all is well. */
export function whyUnserved(paths: NamedSession, { reasons }: Pick<Serving, 'reasons'>): string | null {
  return folderProblem(paths.inbox) ?? reasons.get(paths.name) ?? null;
}

/** A summary of each session, one after the other. */
export async function* readOverviews(paths: WorkspacePaths, folders: SessionFolders): AsyncGenerator<SessionOverview> {
  const serving = await readServing(paths);
  for (const name of folders.names()) yield await readOverview(folders.get(name), serving);
  for (const name of folders.links()) {
    const at = { ...sessionPaths(paths.session(name)), name };
    yield unreadableOverview(at, notAFolder(at.folder), { inbox: 0, parent: null });
  }
}

/** A summary of a session; an unreadable event log is reported in it, not thrown. */
export async function readOverview(paths: NamedSession, serving: Serving): Promise<SessionOverview> {
  const inbox = countWaitingMessages(paths);
  const unserved = whyUnserved(paths, serving);
  try {
    const session = await readSession(paths);
    const { plan } = session;
    const standing = sessionStanding(session);
    const wait = runWait(session);
    const question = standing === 'waiting' ? session.question : null;
    const { title, problem: settings } = await checkSessionSettings(paths);
    const around = { ...serving, queuedBehind: serving.queuedBehind(paths.name) };
    const waits = waitingFor(session, { ...around, settings, unserved, inbox, calls: ownCalls(session) });
    return {
      name: paths.name,
      label: readableName(paths.name),
      parent: parentSessionOf(paths.name) ?? null,
      title: title ?? session.title,
      standing,
      plan: plan && planProgress(plan),
      asks: question && { text: question.text, choices: question.choices },
      waits_for:
        standing === 'waiting'
          ? waitReason(session)
          : ((wait ?? (waits?.needs === 'time' ? waits : null))?.what ?? null),
      waits_until: wait?.until ?? null,
      changed: session.at || null,
      inbox,
      problem: null,
      settings,
      plan_problem: isOver(standing) ? null : await planProblem(paths, plan),
      unserved,
      waits,
    };
  } catch (error) {
    return unreadableOverview(paths, errorText(error), { inbox, parent: parentSessionOf(paths.name) ?? null });
  }
}

/** A saved plan counts only where a run can use it, so that a list of thousands of sessions reads few plans. */
const isOver = (standing: SessionStanding): boolean =>
  standing !== 'running' && standing !== 'waiting' && standing !== 'paused';

function planProgress(plan: Plan): SessionOverview['plan'] {
  return { id: plan.id, status: plan.status, completed: countCompletedSteps(plan), total: plan.steps.length };
}

/** Of a plan that was opened again after its run, the reason is in the plan. */
const waitReason = ({ runEnd, plan }: Session): string | null =>
  (runEnd?.status === 'waiting' ? runEnd.reason : plan?.reason) ?? null;

/** The overview of a session of which nothing is known, as where its folder is none: nothing in it is served. */
function unreadableOverview(
  { name }: NamedSession,
  problem: string,
  { inbox, parent }: Pick<SessionOverview, 'inbox' | 'parent'>,
): SessionOverview {
  const label = readableName(name);
  const waits = { ...{ what: 'session', needs: 'repair' as const, why: problem, until: null, say: [] } };
  const standing = 'unreadable' as const;
  const rest = { ...UNREADABLE, inbox, problem, waits: { ...waits, commands: [['show', label]] } };
  return { name, label, parent, title: null, standing, ...rest };
}

const UNREADABLE = {
  ...{ plan: null, asks: null, waits_for: null, waits_until: null, changed: null },
  ...{ settings: null, plan_problem: null, unserved: null },
};

/** Number of messages not taken yet; 0 if the inbox cannot be read. */
export const countWaitingMessages = (paths: SessionPaths): number =>
  namesInInbox(paths).filter((name) => !isIgnoredName(name)).length;

/** Files in the inbox that are no messages by their names, and what each looks like. */
export const readIgnoredFiles = (paths: SessionPaths): IgnoredFile[] => listIgnored(namesInInbox(paths));

function namesInInbox({ inbox }: SessionPaths): Buffer[] {
  return attempt(() => fs.readdirSync(inbox, { encoding: 'buffer' })) ?? [];
}

/**
 * A person's title of a session, which overrides the one made from the first message, and why the `session.json` that
 * applies is invalid. Most sessions have no such file: then the schema of settings is not loaded.
 */
export async function checkSessionSettings(
  paths: NamedSession,
): Promise<{ title: string | undefined; problem: string | null }> {
  const at = (name: string) => sessionPaths(`${dirname(paths.folder)}/${name}`);
  const root = existingRootOf(paths.name, (name) => fs.existsSync(at(name).folder));
  const { title, fault } = await checkSettingsFile(at(root).settings, `${root}/session.json`);
  const status = fault === null ? undefined : readDaemonStatus(workspacePaths(dirname(dirname(paths.folder))));
  const from = status && (status.settings.sessions.find(({ session }) => session === root)?.from ?? 'file');
  return {
    title: root === paths.name ? title : undefined,
    problem: fault === null ? null : `${fault}\n${fallbackNotice(from)}`,
  };
}

/**
 * Why the current `plan.json` cannot be read, with line and column, and what to do; null if it can, or does not exist.
 * The schema of edits is loaded only for a file that differs from the plan.
 */
export async function planProblem({ plan: path }: SessionPaths, plan: Plan | null): Promise<string | null> {
  try {
    const text = readPlanContent(path, undefined, 0)?.text;
    if (text === undefined || plan === null || text === formatPlanFile(plan)) return null;
    const { parseEditedPlan, withRemedy } = await import('../../core/plan/edited-plan.ts');
    const read = parseEditedPlan(text, plan.steps);
    return 'fault' in read ? withRemedy(read.fault) : null;
  } catch (error) {
    return errorText(error);
  }
}

/**
 * Why the workspace's settings are invalid, from the current file: what the daemon reports is up to a second old. Only
 * the daemon knows the path of a file given by `--config`.
 */
export async function workspaceSettingsProblem(paths: WorkspacePaths): Promise<string | null> {
  const reported = readDaemonStatus(paths)?.settings;
  const hasOwnFile = reported !== undefined && reported.file !== 'agentd.json';
  const fault = hasOwnFile
    ? reported.fault
    : await configProblem(paths, reported?.fault === null ? reported.since : null);
  return fault === null ? null : `${fault}\n${fallbackNotice(reported?.from)}`;
}

/** What the daemon does about an invalid file, by what it says itself; undefined if none is running. */
function fallbackNotice(from: DaemonStatus['settings']['from'] | undefined): string {
  const force = { 'last good': 'The last valid settings remain in force. ', file: '', nothing: WAIT }[
    from ?? 'nothing'
  ];
  return `${force}Fix the file; changes apply immediately.`;
}

const WAIT = 'Sessions that use it wait until it is fixed. ';

/**
 * A file the daemon found valid, and that did not change since, is not checked again: the schema takes longer to load
 * than the rest of a short command.
 */
async function configProblem({ config }: WorkspacePaths, validSince: string | null): Promise<string | null> {
  try {
    const changed = fs.statSync(config, { throwIfNoEntry: false })?.ctimeMs ?? 0;
    if (validSince !== null && changed < Date.parse(validSince)) return null;
    const text = readTextOrThrow(config, 'settings as JSON', 'follow');
    if (text !== undefined) (await import('../../store/settings/settings-check.ts')).checkConfig(text, 'agentd.json');
    return null;
  } catch (error) {
    return errorText(error);
  }
}

async function checkSettingsFile(
  path: string,
  label: string,
): Promise<{ title: string | undefined; fault: string | null }> {
  try {
    const text = readTextOrThrow(path, 'settings as JSON', 'refuse');
    if (text === undefined) return { title: undefined, fault: null };
    const { checkSettings } = await import('../../store/settings/settings-check.ts');
    return { title: checkSettings(text, label).value.title, fault: null };
  } catch (error) {
    return { title: undefined, fault: errorText(error) };
  }
}

export { ownWait, type SessionWait } from '../../core/session/waiting-for.ts';
export { describeLock } from '../../store/workspace/owner-file.ts';

/** The status of the running daemon; undefined if none is running, or if it has not written one yet. */
export function readDaemonStatus(paths: WorkspacePaths): DaemonStatus | undefined {
  const owner = readRunningOwner(paths);
  if (!owner) return undefined;
  // It is written while the daemon works; on a full disk a half-written file may be seen.
  const parsed = readJsonFile(paths.status, DaemonStatus);
  return parsed?.pid === owner.pid ? parsed : undefined;
}
