import type { Event, EventOf } from '../../protocol/session/event.ts';
import { ASK_USER_TOOL, SPAWN_TOOL } from '../../protocol/tool-calls/own-tools.ts';
import type { CrashCounts, Session } from '../session/session-state.ts';

/**
 * Counts daemons lost in a row over the same work, each with evidence. Orderly stops, disk errors and losses without an
 * explanation are not the message's fault and do not count. Any progress resets the count.
 */
export function reduceCrashCounts(session: Session, event: Event): CrashCounts {
  const crashes = event.type === 'recovery.started' ? recoveryStarted(session, event) : othersCounted(session, event);
  return crashes.lastEpoch === event.epoch ? crashes : { ...crashes, lastEpoch: event.epoch };
}

function othersCounted(session: Session, event: Event): CrashCounts {
  const { crashes } = session;
  return isProgress(session, event) ? { ...crashes, count: 0, lastError: null } : crashes;
}

function recoveryStarted(session: Session, event: EventOf<'recovery.started'>): CrashCounts {
  const crashes = { ...session.crashes, hadOpenCall: hasOpenCall(session) };
  const { after, crashes: inARow, error = null } = event;
  if (after === 'error') return { ...crashes, count: crashes.count + 1, lastError: error };
  if (after !== 'crash' || inARow === undefined) return crashes;
  // The daemon counts across messages; the event log knows about progress. A daemon that crashed while it opened the
  // session wrote nothing, so the epochs in between are counted too.
  const lost = crashes.lastEpoch > 0 ? Math.max(1, event.epoch - crashes.lastEpoch) : 1;
  return { ...crashes, count: Math.min(inARow, crashes.count + lost), lastError: error };
}

/** Calls that stay open while nothing is running. */
const WAITING_TOOLS = new Set([SPAWN_TOOL.name, ASK_USER_TOOL.name]);

const hasOpenCall = ({ turn, claim }: Session): boolean =>
  (turn?.calls.some(({ state, name }) => state === 'started' && !WAITING_TOOLS.has(name)) ?? false) ||
  (claim?.checks.some((check) => check?.state === 'started') ?? false);

/**
 * Whether an event shows progress beyond the point where the daemon was lost. Events logged by recovery do not. If it
 * was lost in a call, an answer that asks for another call does not either: a command that crashes the daemon would be
 * requested again after each crash and never be counted.
 */
function isProgress({ run, crashes }: Session, event: Event): boolean {
  switch (event.type) {
    case 'run.started':
    case 'run.resumed':
    case 'run.ended':
    case 'child.sent':
    case 'child.replied':
    case 'context.compacted':
    case 'approval.asked':
    case 'approval.answered':
    case 'step.completed':
    case 'step.failed':
    case 'step.blocked':
      return true;
    case 'model.answered':
      return event.calls.length === 0 || !crashes.hadOpenCall;
    case 'model.failed':
      return event.kind !== 'aborted';
    case 'tool.finished':
      return run !== null;
    case 'reply.committed':
      return run === null && event.file === undefined;
    default:
      return false;
  }
}
