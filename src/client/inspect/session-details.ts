import { basename } from 'node:path';
import { errorText } from '../../base/user-error.ts';
import { parseApprovalFile, parseConsent } from '../../core/messages/approval-answers.ts';
import { parseCommand, textWithoutCommand } from '../../core/messages/commands.ts';
import { formatStatus } from '../../core/messages/status-report.ts';
import { parseEditedPlan } from '../../core/plan/edited-plan.ts';
import { type SessionStatus, sessionStatus } from '../../core/session/session-queries.ts';
import type { Session } from '../../core/session/session-state.ts';
import type { Step } from '../../protocol/session/plan.ts';
import { readTextFile } from '../../store/fs/file-reads.ts';
import { CorruptLogError } from '../../store/fs/store-errors.ts';
import type { SessionPaths } from '../../store/layout/layout.ts';
import { readPlanContent } from '../../store/plan/plan-content.ts';
import { listApprovalIds } from '../../store/session/approval-files.ts';
import { NoSuchApproval, NoSuchSession } from '../sessions/client-errors.ts';
import { readSession } from '../sessions/read-session.ts';
import { checkSessionSettings, countWaitingMessages, type SessionOverview } from './session-overview.ts';

type NamedSession = SessionPaths & { name: string };

/** All details of one session. */
export type SessionDetails = {
  name: string;
  title: string | null;
  standing: SessionStatus;
  session: Session;
  /** Its state, as text. */
  summary: string;
  /** Why the current `plan.json` cannot be read, or what of it was not accepted. */
  planProblem: string | null;
  /** Why the `session.json` that applies is invalid: the line and what was expected. */
  settingsProblem: string | null;
  inbox: number;
  /** The call waiting for approval. */
  asked: ApprovalRequest | null;
  /** Child sessions that work, or worked, on steps of the plan: state and plan of each, in the order of the steps. */
  children: ChildDetails[];
};

export type ChildDetails = {
  step: string;
  child: string;
  standing: SessionOverview['standing'] | 'gone';
  shown: SessionDetails | null;
};

/** `at` returns the paths of another session, undefined if there is none: children are included. */
export async function readSessionDetails(
  paths: NamedSession,
  at: (name: string) => NamedSession | undefined,
): Promise<SessionDetails> {
  const session = await readSession(paths);
  const settings = await checkSessionSettings(paths);
  return {
    name: paths.name,
    title: settings.title ?? session.title,
    standing: sessionStatus(session),
    session,
    summary: formatStatus(session, 'en'),
    planProblem: planFileProblem(paths.plan, session.plan?.steps) ?? session.planProblem,
    settingsProblem: settings.problem,
    inbox: countWaitingMessages(paths),
    asked: approvalRequestOf(paths, session),
    children: await readChildren(session, at),
  };
}

/** A child that cannot be read is still listed. */
async function readChildren(
  { plan }: Session,
  at: (name: string) => NamedSession | undefined,
): Promise<ChildDetails[]> {
  const children: ChildDetails[] = [];
  for (const { id, child } of plan?.steps ?? []) {
    if (child === undefined) continue;
    const paths = at(child);
    const shown = paths ? await readSessionDetails(paths, at).catch(() => null) : null;
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
  inbox,
  asked,
  children,
}: SessionDetails): object {
  const { plan, runEnd, run, unanswered, shelvedPlans, question } = session;
  return {
    name,
    title,
    standing,
    changed: session.at || null,
    plan,
    plan_problem: planProblem,
    settings_problem: settingsProblem,
    shelved_plans: Object.keys(shelvedPlans),
    run: run && {
      message: run.message,
      since: run.startedAt,
      mode: run.mode,
      model: run.model ?? null,
      spent: run.spent,
      limits: run.limits,
    },
    run_end: runEnd && {
      message: runEnd.message,
      status: runEnd.status,
      reason: runEnd.reason,
      text: runEnd.text,
      spent: runEnd.spent,
    },
    question: question && { text: question.text, choices: question.choices },
    approval: asked,
    unanswered,
    inbox,
    children: children.map((one) => ({
      step: one.step,
      child: one.child,
      standing: one.standing,
      session: one.shown && detailsAsJson(one.shown),
    })),
  };
}

/** A call that waits for a person. */
export type ApprovalRequest = {
  session: string;
  id: number;
  tool: string;
  /** The call in readable form. */
  display: string;
  why: string;
  always: string | null;
  /** ISO 8601, UTC. */
  expires_at: string;
  /** Hash of the call: an answer that contains it applies to this call and no other. */
  hash: string;
  /** Why the content of its file is not a valid answer. */
  problem: string | null;
};

/** The call waiting in this session, from its event log. */
function approvalRequestOf(paths: NamedSession, { approvals: { open } }: Session): ApprovalRequest | null {
  if (!open) return null;
  const { id, name: tool, display, why, always, expires_at, hash } = open;
  const text = readTextFile(`${paths.approvals}/${id}.json`);
  const answer = text === undefined ? null : parseApprovalFile(text, open);
  const problem = answer && 'fault' in answer ? `approvals/${id}.json is not a valid answer: ${answer.fault}` : null;
  return { session: paths.name, id, tool, display, why, always, expires_at, hash, problem };
}

/** The calls waiting in a session and its child sessions. */
export async function listApprovalRequests(sessions: readonly NamedSession[]): Promise<ApprovalRequest[]> {
  const open: ApprovalRequest[] = [];
  for (const paths of sessions) {
    if (paths !== sessions[0] && listApprovalIds(paths).length === 0) continue;
    const session = await readSession(paths);
    const asked = approvalRequestOf(paths, session);
    // Until its run is idle, nobody can answer.
    if (asked && !session.run) open.push(asked);
  }
  return open;
}

/** The waiting calls of these sessions, except those with a corrupt event log, where nothing can be answered. */
export async function listAllApprovalRequests(sessions: readonly NamedSession[]): Promise<ApprovalRequest[]> {
  const open: ApprovalRequest[] = [];
  for (const paths of sessions) {
    if (listApprovalIds(paths).length === 0) continue;
    try {
      open.push(...(await listApprovalRequests([paths])));
    } catch (error) {
      if (!(error instanceof CorruptLogError)) throw error;
    }
  }
  return open;
}

/** Finds the waiting call by a session, and optionally a number: its own, or that of a child session. */
export async function findApprovalRequest(
  sessions: readonly NamedSession[],
  id: number | undefined,
): Promise<ApprovalRequest> {
  const open = await listApprovalRequests(sessions);
  const meant = id === undefined ? open : open.filter((one) => one.id === id);
  const own = meant.find((one) => one.session === sessions[0]?.name);
  const only = meant.length === 1 ? meant[0] : id === undefined ? undefined : own;
  if (only) return only;
  const lines = open.map((one) => `  ${one.session} ${one.id}  ${one.tool} ${one.display.split('\n')[0]}`);
  const name = sessions[0]?.name ?? '';
  throw new NoSuchApproval(
    open.length === 0
      ? `No call is waiting for approval in ${name}.`
      : [
          id === undefined || meant.length > 1
            ? 'Several calls are waiting; name one by session and number:'
            : `Call ${id} is not waiting in ${name}. These are:`,
          ...lines,
        ].join('\n'),
  );
}

/**
 * Whether a message is a plain yes or no, or a command that gives one: in a session where a call is waiting, it decides
 * about that call.
 */
export function isApprovalAnswer({
  text = '',
  command,
}: {
  text?: string | undefined;
  command?: string | undefined;
}): boolean {
  const message = { text, ...(command !== undefined && { command }) };
  const name = parseCommand(message)?.name;
  return name === 'approve' || name === 'deny' || parseConsent(textWithoutCommand(message)) !== null;
}

/** Commands that end the wait for a person without running anything. */
const STOPPING = new Set(['pause', 'stop', 'cancel']);

type SessionReads = {
  folder(key: string): string;
  show(key: string): Promise<SessionDetails>;
  approvalRequests(key: string): Promise<ApprovalRequest[]>;
};

/**
 * The call that a session would take a message for an answer to; or `words`, where none waits yet, but the words could
 * allow or deny one that begins to wait before they are read. Undefined: the message decides about no call.
 */
export async function findAnsweredCall(
  sessions: SessionReads,
  key: string,
  message: { text?: string | undefined; command?: string | undefined },
): Promise<ApprovalRequest | 'words' | undefined> {
  if (STOPPING.has(message.command ?? '')) return undefined;
  const name = nameIfExists(sessions, key);
  const waiting = name === undefined ? [] : await sessions.approvalRequests(name);
  // A call of a child session is not answered by a message to its parent.
  const own = waiting.find(({ session }) => session === name);
  if (own || !isApprovalAnswer(message)) return own;
  // With a question open the session is at rest until that is answered.
  const asksQuestion = name !== undefined && (await sessions.show(name)).session.question !== null;
  return asksQuestion ? undefined : 'words';
}

/** The first message creates the session. */
function nameIfExists(sessions: SessionReads, key: string): string | undefined {
  try {
    return basename(sessions.folder(key));
  } catch (error) {
    if (error instanceof NoSuchSession) return undefined;
    throw error;
  }
}

/** Why the current `plan.json` cannot be read, with line and column; null if it can, or does not exist. */
export function planFileProblem(path: string, current?: readonly Step[]): string | null {
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
export { SESSION_COMMANDS } from '../../core/messages/commands.ts';
export { formatPlanSummary, formatStepLine } from '../../core/messages/status-report.ts';
/** Formats a plan for people and for `plan.json`: re-exported from core, which frontends may not import. */
export { formatPlanFile } from '../../core/plan/plan-steps.ts';
