import { lstatSync } from 'node:fs';
import { dirname } from 'node:path';
import { errorText } from '../../base/user-error.ts';
import { formatStatus } from '../../core/messages/status-report.ts';
import { parseEditedPlan } from '../../core/plan/edited-plan.ts';
import { runWait, sessionStanding } from '../../core/session/session-queries.ts';
import type { Session } from '../../core/session/session-state.ts';
import { type SessionWait, waitingFor } from '../../core/session/waiting-for.ts';
import type { Step } from '../../protocol/session/plan.ts';
import { readableName } from '../../protocol/workspace/session-names.ts';
import { listCuts } from '../../store/event-log/torn-tail.ts';
import { readTextFile } from '../../store/fs/file-reads.ts';
import { isProcessRunning } from '../../store/fs/process-identity.ts';
import type { IgnoredFile, SessionPaths, WorkspacePaths } from '../../store/layout/layout.ts';
import { readPlanContent } from '../../store/plan/plan-content.ts';
import {
  type RejectedFile,
  readRejectedFiles,
  readWaitingMessages,
  type WaitingMessage,
} from '../sessions/inbox-details.ts';
import { folderProblem, type NamedSession, readSession } from '../sessions/session-folders.ts';
import { type ApprovalRequest, approvalRequestOf } from './approval-requests.ts';
import {
  checkSessionSettings,
  countWaitingMessages,
  planProblem,
  readIgnoredFiles,
  readServing,
  type SessionOverview,
  whyUnserved,
} from './session-overview.ts';

/** All details of one session. */
export type SessionDetails = {
  name: string;
  title: string | null;
  /** The title that a person gave it. */
  givenTitle: string | null;
  standing: ReturnType<typeof sessionStanding>;
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
  /** What it waits for, and what answers it; null while it works, and once nothing is left to do. */
  waits: SessionWait | null;
};

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
  const serving = await readServing(workspace);
  const unserved = whyUnserved(paths, serving);
  const around = { ...serving, queuedBehind: serving.queuedBehind(paths.name) };
  const inbox = countWaitingMessages(paths);
  const asked = approvalRequestOf(paths, session);
  const children = await readChildren(session, at, workspace);
  const calls = waitingCalls({ asked, session, children });
  return {
    name: paths.name,
    title: settings.title ?? session.title,
    givenTitle: settings.title ?? null,
    standing: sessionStanding(session),
    session,
    summary: formatStatus(session, 'en'),
    planProblem: (await planProblem(paths, session.plan)) ?? session.planProblem,
    settingsProblem: settings.problem,
    workspaceProblem: serving.workspaceSettings,
    logCuts: listCuts(paths),
    unserved,
    folderProblems: findFolderProblems(paths),
    inbox,
    waiting: readWaitingMessages(paths),
    ignored: readIgnoredFiles(paths),
    rejected: readRejectedFiles(paths.rejected),
    isBrowserOpen: isBrowserOpen(paths.browserRunning),
    asked,
    children,
    waits: waitingFor(session, { ...around, settings: settings.problem, unserved, inbox, calls }),
  };
}

/** Each call that waits for a person, here and in the child sessions. */
function waitingCalls({
  asked,
  session,
  children,
}: Pick<SessionDetails, 'asked' | 'session' | 'children'>): ApprovalRequest[] {
  const below = children.flatMap(({ shown }) => (shown ? waitingCalls(shown) : []));
  // Until its run has stopped, nobody can answer.
  return asked && !session.run ? [asked, ...below] : below;
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
export function detailsAsJson(shown: SessionDetails): object {
  const { session, name, title, standing, unserved, inbox, waiting, ignored, rejected, waits } = shown;
  const { plan, runEnd, run, unanswered, shelvedPlans, question } = session;
  return {
    name,
    label: readableName(name),
    title,
    given_title: shown.givenTitle,
    standing,
    changed: session.at || null,
    plan,
    plan_problem: shown.planProblem,
    settings_problem: shown.settingsProblem,
    workspace_problem: shown.workspaceProblem,
    log_cuts: shown.logCuts,
    unserved,
    folder_problems: shown.folderProblems,
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
    browser: { open: shown.isBrowserOpen, taken: session.browserHold },
    work: {
      last: session.work.last,
      restored_for: session.work.restored?.message ?? null,
      steps: session.stepCheckpoints,
    },
    approval: shown.asked,
    waits,
    unanswered,
    inbox,
    waiting,
    ignored,
    rejected,
    children: shown.children.map((one) => ({
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
