import { getOwn } from '../../base/collections.ts';
import { decide } from '../../core/decide/decide.ts';
import { formatReplyFile } from '../../core/messages/replies.ts';
import { isWaitingForSettings } from '../../core/runs/run-faults.ts';
import type { Rules } from '../../protocol/settings/effective-settings.ts';
import type { SessionLoop } from './session-loop.ts';

/**
 * Puts the reply to `message` into the outbox. Everything it refers to is on disk first: the log, the plan, the
 * approvals.
 */
export async function publishReply(loop: SessionLoop, message: string, rules: Rules): Promise<void> {
  const { ports, sessionLog } = loop;
  const reply = getOwn(sessionLog.session.unpublishedReplies, message);
  if (!reply) return;
  if (!loop.isShelvingFirst) await loop.planSync.writePlan();
  await loop.approvalSync.writeFiles();
  await sessionLog.sync();
  await ports.store.outbox.publish(reply.id, formatReplyFile(reply));
  const idle = willBeIdle(loop, message, rules);
  const planBehind = loop.planSync.isBehind() && { plan_behind: true as const };
  await sessionLog.record([{ type: 'reply.published', message, idle, ...planBehind }]);
}

/** Whether nothing is left to do once that reply is published. What is due later must survive a restart. */
function willBeIdle({ sessionLog: { session } }: SessionLoop, message: string, rules: Rules): boolean {
  const { [message]: _, ...unpublishedReplies } = session.unpublishedReplies;
  const next = decide({ ...session, unpublishedReplies }, rules);
  return next.do === 'idle' && next.due === undefined && !isWaitingForSettings(session);
}
