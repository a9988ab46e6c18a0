import type { Rules } from '../../protocol/settings/effective-settings.ts';
import type { SessionPorts } from '../ports/session-ports.ts';
import type { ApprovalSync } from '../state/approval-sync.ts';
import type { PlanSync } from '../state/plan-sync.ts';
import type { SessionLog } from '../state/session-log.ts';
import { admitMessages, canAdmitBatch } from './admission.ts';
import { recordChildReplies } from './child-replies.ts';

/** Takes in whatever people and child sessions have put into the session's files. */
export type Intake = {
  /** Something may have come in: the next look is due. */
  request(): void;
  readonly isDue: boolean;
  /** It is due, or the inbox holds messages that there was no room for and there is now. */
  readonly isWorthwhile: boolean;
  /** Every message that was dropped before the worker was opened is on record. */
  readonly isCaughtUp: boolean;
  /**
   * Puts on record what is ready: messages, replies of child sessions, answers to approvals, edits of `plan.json`.
   * Answers whether something is not ready yet and should be looked at again soon.
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
  /** More is in the inbox than there is room for. */
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
      // What is not taken in now stays in the inbox; the daemon wakes every such session when there is room again.
      const room = ports.diskCapacity() === 'plenty';
      const { pending, more, ...admitted } = await admitMessages(ports.store, sessionLog, {
        held: isInboxFull,
        senders,
        room,
      });
      isInboxFull = admitted.held;
      await recordChildReplies(ports, sessionLog);
      await approvalSync.readAnswers();
      const { settling } = await planSync.readEdits();
      isCaughtUp ||= !more;
      isDue ||= more;
      return { isPending: !more && (pending || settling) };
    },
  };
}
