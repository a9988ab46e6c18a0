import type { ChildSession } from '../../core/session/child-session.ts';
import type { Rules } from '../../protocol/settings/effective-settings.ts';
import type { SessionPorts } from '../ports/session-ports.ts';
import type { ApprovalSync } from '../state/approval-sync.ts';
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
  take(rules: Rules): Promise<{ isPending: boolean }>;
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
    async take({ senders: named, settingsFault }) {
      isDue = false;
      const senders = settingsFault === null ? named : 'unknown';
      // Messages not taken now stay in the inbox; the daemon wakes every such session when there is room again.
      const room = ports.diskCapacity() === 'ok';
      const { pending, more, ...admitted } = await admitMessages(ports.store, sessionLog, {
        isFull: isInboxFull,
        senders,
        room,
      });
      isInboxFull = admitted.isFull;
      await recordChildReplies(ports, sessionLog);
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
