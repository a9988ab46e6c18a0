import type { Event, EventOf } from '../../protocol/session/event.ts';
import { ASK_USER_TOOL, SPAWN_TOOL } from '../../protocol/tool-calls/own-tools.ts';
import { type CrashCounts, DEFAULT_CRASH_LIMIT, type Session } from '../session/session-state.ts';

/**
 * Counts daemons that were lost one after the other over the same thing, as far as that is proven. A stop in order,
 * trouble with the disk and a loss while others were at work too are nothing the message did. Anything it got done in
 * between begins the count anew.
 */
export function reduceCrashCounts(session: Session, event: Event): CrashCounts {
  const { crashes } = session;
  if (event.type === 'recovery.started') return recoveryStarted(session, event);
  if (!isProgress(session, event)) return crashes;
  return { ...crashes, count: 0, lastError: null, madeProgress: true, ...crashLimitsAfter(crashes, event) };
}

function recoveryStarted(session: Session, event: EventOf<'recovery.started'>): CrashCounts {
  const { crashes } = session;
  const point = { madeProgress: false, hadOpenCall: hasOpenCall(session) };
  const { after, alone } = event;
  if (after === 'stop' || after === 'trouble') return { ...crashes, ...point };
  const error = event.error ?? null;
  if (after === 'error') return { ...crashes, ...point, count: crashes.count + 1, lastError: error };
  // The daemon keeps count over sessions, and takes back what turned out to be nobody's doing; the record knows of
  // progress.
  return alone === undefined
    ? { ...crashes, ...point }
    : { ...crashes, ...point, count: Math.min(alone, crashes.count + 1), lastError: error };
}

/** Calls that are open while nothing is done. */
const WAITING_TOOLS = new Set([SPAWN_TOOL.name, ASK_USER_TOOL.name]);

const hasOpenCall = ({ turn, claim }: Session): boolean =>
  (turn?.calls.some(({ state, name }) => state === 'started' && !WAITING_TOOLS.has(name)) ?? false) ||
  (claim?.checks.some((check) => check?.state === 'started') ?? false);

/**
 * What begins or rests a run sets how much it may cost: one that the daemon tries again by itself was convicted before.
 */
function crashLimitsAfter({ timesShelved }: CrashCounts, event: Event): Partial<CrashCounts> {
  switch (event.type) {
    case 'run.started':
      return { limit: DEFAULT_CRASH_LIMIT };
    case 'run.resumed':
      return { limit: event.by === 'daemon' ? 1 : DEFAULT_CRASH_LIMIT };
    case 'run.rested':
      return { timesShelved: event.reason === 'crashes' ? timesShelved + 1 : 0 };
    default:
      return {};
  }
}

/**
 * Whether an event shows that the work at hand got further than where the daemon was lost. What recovery itself records
 * does not. Where it was lost in a call, neither does an answer that asks for another: a command that brings the daemon
 * down would be asked for again after each death, and never be counted.
 */
function isProgress({ run, crashes }: Session, event: Event): boolean {
  switch (event.type) {
    case 'run.started':
    case 'run.resumed':
    case 'run.rested':
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
