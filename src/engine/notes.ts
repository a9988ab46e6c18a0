import type { Session } from '../core/session.ts';
import type { Rules } from '../protocol/config.ts';
import type { Notes } from '../protocol/notes.ts';

/**
 * Gives rules the notes they are told with: read when a run begins or goes on after a rest, and the same until it rests (a run
 * that goes on does so for a message of its own). They
 * stand at the beginning of each request, and a beginning that changes costs the provider's cache. Held in memory only: a run
 * that is taken up after a restart of the daemon reads them once more.
 */
export function steadyNotes(read: () => Notes): (session: Session, rules: Rules) => Rules {
  let held: { run: string; notes: Notes } | null = null;
  return ({ run }, rules) => {
    if (!run) return rules;
    if (held?.run !== run.message) held = { run: run.message, notes: read() };
    return { ...rules, notes: held.notes };
  };
}
