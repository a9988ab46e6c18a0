import { ASK_TOOL } from '../protocol/ask-call.ts';
import type { Event, EventOf } from '../protocol/event.ts';
import { SPAWN_TOOL } from '../protocol/spawn-call.ts';
import { MOST_SETBACKS, type Session, type Setbacks } from './session.ts';

/**
 * Counts daemons that were lost one after the other over the same thing, as far as that is proven. A stop in order, trouble with the
 * disk and a loss while others were at work too are nothing the message did. Anything it got done in between begins the count anew.
 */
export function foldSetbacks(session: Session, event: Event): Setbacks {
  const { setbacks } = session;
  if (event.type === 'recovery.started') return recovered(session, event);
  if (!isProgress(session, event)) return setbacks;
  return { ...setbacks, count: 0, error: null, gotOn: true, ...after(setbacks, event) };
}

function recovered(session: Session, event: EventOf<'recovery.started'>): Setbacks {
  const { setbacks } = session;
  const point = { gotOn: false, inCall: hasOpenCall(session) };
  const { after, alone } = event;
  if (after === 'stop' || after === 'trouble') return { ...setbacks, ...point };
  const error = event.error ?? null;
  if (after === 'error') return { ...setbacks, ...point, count: setbacks.count + 1, error };
  // The daemon keeps count over sessions, and takes back what turned out to be nobody's doing; the record knows of progress.
  return alone === undefined
    ? { ...setbacks, ...point }
    : { ...setbacks, ...point, count: Math.min(alone, setbacks.count + 1), error };
}

/** Calls that are open while nothing is done. */
const WAITING = new Set([SPAWN_TOOL.name, ASK_TOOL.name]);

const hasOpenCall = ({ turn, claim }: Session): boolean =>
  (turn?.calls.some(({ state, name }) => state === 'started' && !WAITING.has(name)) ?? false) ||
  (claim?.checks.some((check) => check?.state === 'started') ?? false);

/** What begins or rests a run sets how much it may cost: one that the daemon tries again by itself was convicted before. */
function after({ shelved }: Setbacks, event: Event): Partial<Setbacks> {
  switch (event.type) {
    case 'run.started':
      return { most: MOST_SETBACKS };
    case 'run.resumed':
      return { most: event.by === 'daemon' ? 1 : MOST_SETBACKS };
    case 'run.rested':
      return { shelved: event.reason === 'crashes' ? shelved + 1 : 0 };
    default:
      return {};
  }
}

/**
 * Whether an event shows that the work at hand got further than where the daemon was lost. What recovery itself records does not. Where it was
 * lost in a call, neither does an answer that asks for another: a command that brings the daemon down would be asked for again
 * after each death, and never be counted.
 */
function isProgress({ run, setbacks }: Session, event: Event): boolean {
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
      return event.calls.length === 0 || !setbacks.inCall;
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
