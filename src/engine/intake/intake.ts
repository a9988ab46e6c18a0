import { childAskedEvents } from '../../core/children/child-calls.ts';
import { approvalAnsweredEvents, DENIED_BY_PERSON } from '../../core/decide/approval-decisions.ts';
import { formatApprovalFile, parseApprovalFile } from '../../core/messages/approval-answers.ts';
import { type ChildSession, isChildBusy, sessionDepth } from '../../core/session/child-session.ts';
import type { Session } from '../../core/session/session-state.ts';
import type { EventBody } from '../../protocol/session/event.ts';
import type { Rules } from '../../protocol/settings/effective-settings.ts';
import type { SessionPorts } from '../ports/session-ports.ts';
import type { PlanSync } from '../state/plan-sync.ts';
import type { SessionLog } from '../state/session-log.ts';
import { admitMessages, canAdmitBatch } from './admission.ts';

/** Takes in whatever people and child sessions have put into the session's files. */
export type Intake = {
  /** Something may have arrived: a check is due. */
  request(): void;
  readonly isDue: boolean;
  /** A check is due, or the inbox holds messages that now fit. */
  readonly isWorthwhile: boolean;
  /** Every message dropped before the worker was opened is in the log. */
  readonly isCaughtUp: boolean;
  /**
   * Logs what is ready: messages, replies of child sessions, answers to approvals, edits of `plan.json`. Returns
   * whether something is not ready yet and should be checked again soon.
   */
  take(readRules: () => Promise<Rules>): Promise<{ isPending: boolean }>;
};

export function openIntake(
  ports: SessionPorts,
  sessionLog: SessionLog,
  planSync: PlanSync,
  approvalSync: ApprovalSync,
): Intake {
  let isDue = false;
  /** The inbox holds more than there is room for. */
  let isInboxFull = false;
  let isCaughtUp = false;
  return {
    request() {
      isDue = true;
    },
    get isDue() {
      return isDue;
    },
    get isWorthwhile() {
      return isDue || (isInboxFull && canAdmitBatch(sessionLog.session));
    },
    get isCaughtUp() {
      return isCaughtUp;
    },
    async take(readRules) {
      isDue = false;
      // Messages not taken now stay in the inbox; the daemon wakes every such session when there is room again.
      const room = ports.diskCapacity() === 'ok';
      const { plan } = sessionLog.session;
      const given = { isFull: isInboxFull, room, readRules };
      const { pending, more, ...admitted } = await admitMessages(ports, sessionLog, given);
      isInboxFull = admitted.isFull;
      if (sessionLog.session.plan !== plan) planSync.scheduleWrite();
      await recordChildReplies(ports, sessionLog);
      await recordChildCalls(ports, sessionLog);
      await approvalSync.readAnswers();
      const { isPending } = await planSync.readEdits();
      isCaughtUp ||= !more;
      isDue ||= more;
      return { isPending: !more && (pending || isPending) };
    },
  };
}

/** Logs the replies of child sessions, then moves them out of their outboxes. */
export async function recordChildReplies(ports: SessionPorts, sessionLog: SessionLog): Promise<void> {
  for (const child of Object.values(sessionLog.session.children)) {
    if (child.state === 'working' || child.state === 'halting') await recordChildReply(child, ports, sessionLog);
  }
}

/** Logs which calls of child sessions wait for a person: a root session asks about them, since no child has anybody. */
async function recordChildCalls(ports: SessionPorts, sessionLog: SessionLog): Promise<void> {
  const { name, children, childCalls } = sessionLog.session;
  if (sessionDepth(name) > 0) return;
  if (childCalls.calls.length === 0 && !Object.values(children).some(isChildBusy)) return;
  const events = childAskedEvents(sessionLog.session, await ports.children.waitingCalls(name, childCalls.calls));
  if (events.length > 0) await sessionLog.record(events);
}

async function recordChildReply(
  { step, name, attempt, awaitedMessage: message }: ChildSession,
  ports: SessionPorts,
  sessionLog: SessionLog,
): Promise<void> {
  const reply = await ports.children.reply(name, message);
  if (!reply) return;
  await sessionLog.record([{ type: 'child.replied', step, child: name, attempt, message, reply }]);
  await sessionLog.sync();
  await ports.children.consume(name, step);
}

/**
 * Keeps `approvals/` and the event log in step: an answer written into a file becomes an event, a question becomes a
 * file.
 */
export type ApprovalSync = {
  /** Takes in an answer that a person wrote. One read while a call waits, nothing otherwise. */
  readAnswers(): Promise<void>;
  /** Updates the files from the log: one for the call that waits, none in its place for those that were answered. */
  writeFiles(): Promise<void>;
  /** Returns the same events, once the rules they add are in `session.json`: a logged answer is carried out in full. */
  saveAllowRules(events: EventBody[]): Promise<EventBody[]>;
};

export function openApprovalSync({ store, hooks, log }: SessionPorts, sessionLog: SessionLog): ApprovalSync {
  const files = store.approvals;
  let writtenState: Session['approvals'] | null = null;
  let lastLogged = '';

  const logOnce = (text: string): void => {
    if (text !== lastLogged) log('warn', text);
    lastLogged = text;
  };

  const kept = async (events: EventBody[]): Promise<EventBody[]> => {
    const ready: EventBody[] = [];
    for (const event of events) {
      if (event.type !== 'approval.answered' || event.always === undefined) ready.push(event);
      else {
        const { always, ...rest } = event;
        const why = await files.addAllowRule(always);
        if (why !== null)
          log('warn', `the rule { "allow": ${JSON.stringify(always)} } was not added: ${why}. The call runs once`);
        ready.push(why === null ? event : rest);
      }
    }
    return ready;
  };

  const archive = async (id: number, content: string | undefined): Promise<void> => {
    await files.archive(id, content);
    hooks?.onApprovalsChanged();
  };

  const bringUpToDate = async (): Promise<void> => {
    const { open, lastDecided } = sessionLog.session.approvals;
    const there = await files.list();
    if (there.length > 0) hooks?.onApprovalAsked();
    for (const id of there) if (id !== open?.id && id !== lastDecided?.id) await archive(id, undefined);
    // If nobody could be asked, there never was a file.
    const isNewDecision = writtenState !== null && writtenState.lastDecided !== lastDecided;
    if (lastDecided && lastDecided.id > 0 && (isNewDecision || there.includes(lastDecided.id)))
      await archive(lastDecided.id, formatApprovalFile(lastDecided));
    if (!open || (await files.read(open.id)) !== undefined) return;
    await files.write(open.id, formatApprovalFile(open));
    hooks?.onApprovalAsked();
    hooks?.onApprovalsChanged();
  };

  return {
    saveAllowRules: kept,
    async readAnswers() {
      const { approvals } = sessionLog.session;
      const text = approvals.open ? await files.read(approvals.open.id) : undefined;
      // A file that somebody removed is written again.
      if (approvals.open && text === undefined) writtenState = null;
      if (!approvals.open || text === undefined) return;
      const answer = parseApprovalFile(text, approvals.open);
      if ('fault' in answer) logOnce(`approvals/${approvals.open.id}.json is not a valid answer: ${answer.fault}`);
      else if (answer.decision !== null) {
        const deny = answer.decision === 'deny';
        const always = answer.decision === 'always' ? answer.always : null;
        const decided = {
          decision: deny ? 'deny' : 'allow',
          by: 'file',
          why: deny ? DENIED_BY_PERSON : '',
          always,
        } as const;
        await sessionLog.record(await kept(approvalAnsweredEvents(sessionLog.session, decided)));
      }
    },
    async writeFiles() {
      const { approvals } = sessionLog.session;
      if (approvals === writtenState) return;
      // Questions and answers are on disk before a file shows them.
      await sessionLog.sync();
      await bringUpToDate();
      writtenState = approvals;
    },
  };
}
