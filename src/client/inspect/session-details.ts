import { lstatSync, readFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { truncate } from '../../base/strings.ts';
import { errorText } from '../../base/user-error.ts';
import { formatStatus } from '../../core/messages/status-report.ts';
import { parseEditedPlan } from '../../core/plan/edited-plan.ts';
import { runWait, type Standing, sessionStanding } from '../../core/session/session-queries.ts';
import type { Session } from '../../core/session/session-state.ts';
import { RejectionReason } from '../../protocol/session/message.ts';
import type { Step } from '../../protocol/session/plan.ts';
import { readableName } from '../../protocol/workspace/session-names.ts';
import { listCuts } from '../../store/event-log/torn-tail.ts';
import { listNames, readTextFile, statIfExists } from '../../store/fs/file-reads.ts';
import { isProcessRunning } from '../../store/fs/process-identity.ts';
import { parseMessage } from '../../store/inbox/dropped-file.ts';
import { type IgnoredFile, isIgnoredName, type SessionPaths, type WorkspacePaths } from '../../store/layout/layout.ts';
import { readPlanContent } from '../../store/plan/plan-content.ts';
import { parseJson } from '../../store/settings/schema-errors.ts';
import { readSession } from '../sessions/session-folders.ts';
import { type ApprovalRequest, approvalRequestOf } from './approval-requests.ts';
import {
  checkSessionSettings,
  countWaitingMessages,
  folderProblem,
  planProblem,
  readIgnoredFiles,
  readUnservedReasons,
  type SessionOverview,
  whyUnserved,
  workspaceSettingsProblem,
} from './session-overview.ts';

type NamedSession = SessionPaths & { name: string };

/** All details of one session. */
export type SessionDetails = {
  name: string;
  title: string | null;
  standing: Standing;
  session: Session;
  /** Its state, as text. */
  summary: string;
  /** Why the current `plan.json` cannot be read, or what of it was not accepted. */
  planProblem: string | null;
  /** Why the `session.json` that applies is invalid: the line and what was expected. */
  settingsProblem: string | null;
  /** The same of `agentd.json`. */
  workspaceProblem: string | null;
  /** Names of what was cut off the end of its event log, in its folder. */
  logCuts: string[];
  /** Why its messages are not taken. */
  unserved: string | null;
  /** Why its folders, besides the inbox, cannot be read: what else is in their place, and what to do. */
  folderProblems: string[];
  inbox: number;
  /** The first of these messages. */
  waiting: WaitingMessage[];
  /** Files in the inbox that are no messages by their names, and what each looks like. */
  ignored: IgnoredFile[];
  /** Files in `rejected/`: how many, and the last ones, newest first. */
  rejected: { total: number; newest: RejectedFile[] };
  /** Whether its browser is open. */
  isBrowserOpen: boolean;
  /** The call waiting for approval. */
  asked: ApprovalRequest | null;
  /** Child sessions that work, or worked, on steps of the plan: state and plan of each, in the order of the steps. */
  children: ChildDetails[];
};

/** `file`: its name in `rejected/`. */
export type RejectedFile = RejectionReason & { file: string };

export type ChildDetails = {
  step: string;
  child: string;
  standing: SessionOverview['standing'] | 'gone';
  shown: SessionDetails | null;
};

/** `at` returns the paths of another session, undefined if there is none: child sessions are included. */
export async function readSessionDetails(
  paths: NamedSession,
  at: (name: string) => NamedSession | undefined,
  workspace: WorkspacePaths,
): Promise<SessionDetails> {
  const session = await readSession(paths);
  const settings = await checkSessionSettings(paths);
  return {
    name: paths.name,
    title: settings.title ?? session.title,
    standing: sessionStanding(session),
    session,
    summary: formatStatus(session, 'en'),
    planProblem: (await planProblem(paths, session.plan)) ?? session.planProblem,
    settingsProblem: settings.problem,
    workspaceProblem: await workspaceSettingsProblem(workspace),
    logCuts: listCuts(paths),
    unserved: whyUnserved(paths, readUnservedReasons(workspace)),
    folderProblems: findFolderProblems(paths),
    inbox: countWaitingMessages(paths),
    waiting: readWaitingMessages(paths),
    ignored: readIgnoredFiles(paths),
    rejected: readRejectedFiles(paths.rejected),
    isBrowserOpen: isBrowserOpen(paths.browserRunning),
    asked: approvalRequestOf(paths, session),
    children: await readChildren(session, at, workspace),
  };
}

/** The folders of a session besides its inbox; one comes after the folder it is in. */
const FOLDERS = [
  ...(['inboxFiles', 'outbox', 'outboxRead', 'plans', 'planHistory', 'blobs', 'work', 'tools', 'done'] as const),
  ...(['rejected', 'approvals', 'approvalsAnswered', 'jobs', 'browser', 'checkpoints', 'checkpointContents'] as const),
];

function findFolderProblems(paths: SessionPaths): string[] {
  const broken = new Map<string, string>();
  for (const folder of FOLDERS.map((name) => paths[name])) {
    const around = dirname(folder);
    if (broken.has(around) || (around === paths.inbox && folderProblem(around) !== null)) continue;
    // Of these two, links to folders are followed.
    if ((folder === paths.jobs || folder === paths.browser) && isFolder(folder)) continue;
    const problem = folderProblem(folder);
    if (problem !== null) broken.set(folder, problem);
  }
  return [...broken.values()];
}

const isFolder = (path: string): boolean => lstatSync(path, { throwIfNoEntry: false })?.isDirectory() === true;

/** A daemon that was killed leaves the file behind. */
function isBrowserOpen(running: string): boolean {
  const pid = Number.parseInt(readTextFile(running) ?? '', 10);
  return pid > 0 && isProcessRunning(pid);
}

/** A message that has not been taken yet, as far as it is shown. */
type WaitingMessage = { text: string; from: string | null };
const MAX_SHOWN = { messages: 10, bytes: 65_536, chars: 2000 };

/** The first messages that wait, in the order of their names; files that are no messages are left out. */
function readWaitingMessages({ inbox }: SessionPaths): WaitingMessage[] {
  if (folderProblem(inbox) !== null) return [];
  return listNames(inbox)
    .filter((name) => !isIgnoredName(Buffer.from(name)))
    .sort()
    .slice(0, MAX_SHOWN.messages)
    .flatMap((name) => messageIn(name, `${inbox}/${name}`) ?? []);
}

function messageIn(name: string, path: string): WaitingMessage | undefined {
  try {
    const stat = lstatSync(path);
    const read = stat.isFile() && stat.size <= MAX_SHOWN.bytes ? parseMessage(name, readFileSync(path)) : null;
    if (!read?.ok) return undefined;
    const { text = '', command, from = null } = read.message;
    return { text: truncate([command && `/${command}`, text].filter(Boolean).join(' '), MAX_SHOWN.chars), from };
  } catch {
    return undefined;
  }
}

const REASON_ENDING = '.why.json';
const MAX_REJECTED_SHOWN = 3;
/** With more files than this, only their number is given: the page reads it several times a second. */
const MAX_REJECTED_COMPARED = 2000;

/** A file that a person took away to correct it is not counted, although its reason stays. */
function readRejectedFiles(folder: string): SessionDetails['rejected'] {
  if (folderProblem(folder) !== null) return { total: 0, newest: [] };
  const names = new Set(listNames(folder));
  const files = [...names].filter((name) => names.has(name + REASON_ENDING));
  if (files.length > MAX_REJECTED_COMPARED) return { total: files.length, newest: [] };
  const changed = new Map(files.map((file) => [file, statIfExists(`${folder}/${file}${REASON_ENDING}`)?.mtimeMs ?? 0]));
  const newest = files
    .sort((one, other) => (changed.get(other) ?? 0) - (changed.get(one) ?? 0))
    .slice(0, MAX_REJECTED_SHOWN)
    .flatMap((file): RejectedFile[] => {
      const json = parseJson(readTextFile(`${folder}/${file}${REASON_ENDING}`) ?? '');
      const { data } = RejectionReason.safeParse(json.ok ? json.value : undefined);
      return data ? [{ ...data, file }] : [];
    })
    // Files that arrived within a few milliseconds may have the same timestamp.
    .sort((one, other) => (one.at < other.at ? 1 : one.at > other.at ? -1 : 0));
  return { total: files.length, newest };
}

/** A child that cannot be read is still listed. */
async function readChildren(
  { plan }: Session,
  at: (name: string) => NamedSession | undefined,
  workspace: WorkspacePaths,
): Promise<ChildDetails[]> {
  const children: ChildDetails[] = [];
  for (const { id, child } of plan?.steps ?? []) {
    if (child === undefined) continue;
    const paths = at(child);
    const shown = paths ? await readSessionDetails(paths, at, workspace).catch(() => null) : null;
    const how = paths === undefined ? 'gone' : (shown?.standing ?? 'unreadable');
    children.push({ step: id, child, standing: how, shown });
  }
  return children;
}

/** A session as JSON for programs. */
export function detailsAsJson({
  name,
  title,
  standing,
  session,
  planProblem,
  settingsProblem,
  workspaceProblem,
  logCuts,
  unserved,
  folderProblems,
  inbox,
  waiting,
  ignored,
  rejected,
  isBrowserOpen,
  asked,
  children,
}: SessionDetails): object {
  const { plan, runEnd, run, unanswered, shelvedPlans, question } = session;
  return {
    name,
    label: readableName(name),
    title,
    standing,
    changed: session.at || null,
    plan,
    plan_problem: planProblem,
    settings_problem: settingsProblem,
    workspace_problem: workspaceProblem,
    log_cuts: logCuts,
    unserved,
    folder_problems: folderProblems,
    shelved_plans: Object.keys(shelvedPlans),
    run: run && {
      message: run.message,
      since: run.startedAt,
      mode: run.mode,
      model: run.model ?? null,
      spent: run.spent,
      limits: run.limits,
      waits_for: runWait(session),
    },
    run_end: runEnd && {
      message: runEnd.message,
      status: runEnd.status,
      reason: runEnd.reason,
      text: runEnd.text,
      spent: runEnd.spent,
    },
    question: question && { text: question.text, choices: question.choices },
    browser: { open: isBrowserOpen, taken: session.browserHold },
    work: {
      last: session.work.last,
      restored_for: session.work.restored?.message ?? null,
      steps: session.stepCheckpoints,
    },
    approval: asked,
    unanswered,
    inbox,
    waiting,
    ignored,
    rejected,
    children: children.map((one) => ({
      step: one.step,
      child: one.child,
      standing: one.standing,
      session: one.shown && detailsAsJson(one.shown),
    })),
  };
}

/**
 * Why the current `plan.json` cannot be read, with line and column; null if it can, or does not exist. `current`: the
 * steps of the plan it is a save of.
 */
export function planFileProblem(path: string, current: readonly Step[] = []): string | null {
  let text: string | undefined;
  try {
    text = readPlanContent(path, undefined, 0)?.text;
  } catch (error) {
    return errorText(error);
  }
  if (text === undefined) return null;
  const read = parseEditedPlan(text, current);
  return 'fault' in read ? read.fault : null;
}

/** The session commands, with what each does. */
export { SESSION_COMMANDS } from '../../core/messages/message-table.ts';
export { formatPlanSummary, formatStepFiles, formatStepLine } from '../../core/messages/status-report.ts';
/** Formats a plan for people and for `plan.json`: re-exported from core, which frontends may not import. */
export { formatPlanFile } from '../../core/plan/plan-steps.ts';
export { sessionStanding } from '../../core/session/session-queries.ts';
