import type { Event } from '../protocol/event.ts';
import { NO_SETBACKS, type Session, type Setbacks } from './session.ts';

/**
 * Counts daemons that were lost one after the other over the same thing. A stop in order and trouble with the disk are nothing
 * the message did. Anything the run brought about in between begins the count anew.
 */
export function foldSetbacks(session: Session, event: Event): Setbacks {
  const { setbacks } = session;
  if (event.type === 'recovery.started')
    return event.after === 'stop' || event.after === 'trouble'
      ? setbacks
      : { count: setbacks.count + 1, error: event.error ?? null };
  return setbacks.count > 0 && gotOn(session, event) ? NO_SETBACKS : setbacks;
}

/**
 * Whether an event shows that the work at hand got on. An answer with calls does not yet: a command that brings the daemon
 * down would be asked for again after each death, and never be counted. Neither does what recovery itself records.
 */
function gotOn({ run }: Session, event: Event): boolean {
  switch (event.type) {
    case 'run.started':
    case 'run.resumed':
    case 'run.rested':
      return true;
    case 'model.answered':
      return event.calls.length === 0;
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
