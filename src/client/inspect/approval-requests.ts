import { basename } from 'node:path';
import { escapeInvisible } from '../../base/strings.ts';
import { UserError } from '../../base/user-error.ts';
import { parseApprovalFile, parseConsent } from '../../core/messages/approval-answers.ts';
import { parseCommand, textWithoutCommand } from '../../core/messages/commands.ts';
import { commandInfo } from '../../core/messages/message-table.ts';
import type { Session } from '../../core/session/session-state.ts';
import { readableName } from '../../protocol/workspace/session-names.ts';
import { readTextFile } from '../../store/fs/file-reads.ts';
import { listApprovalIds } from '../../store/session/approval-files.ts';
import { NoSuchApproval, NoSuchSession } from '../sessions/client-errors.ts';
import { type NamedSession, readSession } from '../sessions/session-folders.ts';

/** How long an answer waits until the run that asks is idle, and how often it looks, in ms. */
const IDLE_WAIT_MS = 2000;
const IDLE_RETRY_MS = 20;

/** A call that waits for a person: what they decide on has its invisible characters escaped. */
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
export function approvalRequestOf(paths: NamedSession, { approvals: { open } }: Session): ApprovalRequest | null {
  if (!open) return null;
  const { id, name: tool, always, expires_at, hash } = open;
  const text = readTextFile(`${paths.approvals}/${id}.json`);
  const answer = text === undefined ? null : parseApprovalFile(text, open);
  const problem = answer && 'fault' in answer ? `approvals/${id}.json is not a valid answer: ${answer.fault}` : null;
  const shown = {
    display: escapeInvisible(open.display),
    why: escapeInvisible(open.why),
    always: always === null ? null : escapeInvisible(always),
  };
  return { session: paths.name, id, tool, ...shown, expires_at, hash, problem };
}

/** The calls waiting in a session and its child sessions. */
export async function listApprovalRequests(sessions: readonly NamedSession[]): Promise<ApprovalRequest[]> {
  return (await readApprovalRequests(sessions)).open;
}

/** `open`: those that can be answered. `early`: numbers of those that cannot be answered until their run is idle. */
async function readApprovalRequests(sessions: readonly NamedSession[]) {
  const open: ApprovalRequest[] = [];
  const early: number[] = [];
  for (const paths of sessions) {
    if (paths !== sessions[0] && listApprovalIds(paths).length === 0) continue;
    const session = await readSession(paths);
    const asked = approvalRequestOf(paths, session);
    if (asked && session.run) early.push(asked.id);
    else if (asked) open.push(asked);
  }
  return { open, early };
}

/** The waiting calls of these sessions, except those whose files cannot be read, where nothing can be answered. */
export async function listAllApprovalRequests(sessions: readonly NamedSession[]): Promise<ApprovalRequest[]> {
  const open: ApprovalRequest[] = [];
  for (const paths of sessions) {
    try {
      if (listApprovalIds(paths).length === 0) continue;
      open.push(...(await listApprovalRequests([paths])));
    } catch (error) {
      if (!(error instanceof UserError)) throw error;
    }
  }
  return open;
}

/**
 * Finds the waiting call by a session, and optionally a number: its own, or that of a child session. A call of that
 * number that is in the log while its run is not idle yet is waited for, two seconds at most: a program that follows
 * the log may answer that fast. Throws NoSuchApproval.
 */
export async function findApprovalRequest(
  sessions: readonly NamedSession[],
  id: number | undefined,
): Promise<ApprovalRequest> {
  let { open, early } = await readApprovalRequests(sessions);
  const end = performance.now() + IDLE_WAIT_MS;
  while (id !== undefined && early.includes(id) && performance.now() < end) {
    await new Promise((later) => setTimeout(later, IDLE_RETRY_MS));
    ({ open, early } = await readApprovalRequests(sessions));
  }
  const meant = id === undefined ? open : open.filter((one) => one.id === id);
  const own = meant.find((one) => one.session === sessions[0]?.name);
  const only = meant.length === 1 ? meant[0] : id === undefined ? undefined : own;
  if (only) return only;
  const lines = open.map(
    (one) => `  ${readableName(one.session)} ${one.id}  ${one.tool} ${one.display.split('\n')[0]}`,
  );
  const name = readableName(sessions[0]?.name ?? '');
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
  return (
    commandInfo(parseCommand(message)?.name)?.whileAsked === 'answers' ||
    parseConsent(textWithoutCommand(message)) !== null
  );
}

type SessionReads = {
  folder(key: string): string;
  show(key: string): Promise<{ session: Session }>;
  approvalRequests(key: string): Promise<ApprovalRequest[]>;
};

/**
 * The call that a session would take this message to answer; or `words`, if no call waits yet but the words could allow
 * or deny one that starts to wait before they are read. Undefined: the message decides about no call.
 */
export async function findAnsweredCall(
  sessions: SessionReads,
  key: string,
  message: { text?: string | undefined; command?: string | undefined },
): Promise<ApprovalRequest | 'words' | undefined> {
  // It ends the wait for a person without running anything.
  if (commandInfo(message.command)?.stopsWork) return undefined;
  const name = nameIfExists(sessions, key);
  const waiting = name === undefined ? [] : await sessions.approvalRequests(name);
  const session = name === undefined ? undefined : (await sessions.show(name)).session;
  // A call of a child session is answered by a message to its root once that asks about it.
  const asked = session?.childCalls.run ? waiting[0] : undefined;
  const answered = waiting.find((one) => one.session === name) ?? asked;
  if (answered || !isApprovalAnswer(message)) return answered;
  // With a question open the session is idle until that is answered.
  return (session?.question ?? null) !== null ? undefined : 'words';
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
