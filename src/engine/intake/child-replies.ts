import type { Decision } from '../../core/runs/decision.ts';
import type { ChildSession } from '../../core/session/child-session.ts';
import type { SessionPorts } from '../ports/session-ports.ts';
import type { SessionLog } from '../state/session-log.ts';

/**
 * Sends a child session its message. The effect comes before the event: the id is made of the step and the attempt, so
 * after a crash in between the same message is sent again, which changes nothing.
 */
export async function sendToChild(
  decision: Decision & { do: 'send' },
  ports: SessionPorts,
  sessionLog: SessionLog,
): Promise<void> {
  const { step, child, attempt, message } = decision;
  await sessionLog.sync();
  const sent = await ports.children.send(child, message);
  const { id, command, options: { folder, limits } = {} } = message;
  await sessionLog.record([
    {
      type: 'child.sent',
      step,
      child,
      attempt,
      message: id,
      ...(command !== undefined && { command }),
      ...(folder !== undefined && { folder }),
      ...(limits && { limits }),
    },
  ]);
  if (sent === 'gone') await recordChildReplies(ports, sessionLog);
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
