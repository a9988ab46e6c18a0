import type { Session } from '../../core/session/session-state.ts';
import type { Rules } from '../../protocol/settings/effective-settings.ts';
import type { Notes } from '../../protocol/workspace/memory-notes.ts';
import type { Model } from '../ports/model-port.ts';

/**
 * Gives rules the notes they are told with: read when a run begins or goes on after a rest, and the same until it rests
 * (a run that goes on does so for a message of its own). They stand at the beginning of each request, and a beginning
 * that changes costs the provider's cache. Held in memory only: a run that is taken up after a restart of the daemon
 * reads them once more.
 */
export function holdNotesPerRun(read: () => Notes): (session: Session, rules: Rules) => Rules {
  let held: { run: string; notes: Notes } | null = null;
  return ({ run }, rules) => {
    if (!run) return rules;
    if (held?.run !== run.message) held = { run: run.message, notes: read() };
    return { ...rules, notes: held.notes };
  };
}

/** Rules with the window of the model, where its endpoint has told it and no person has. */
export function applyLearnedWindow(rules: Rules, model: Model, { run }: Session): Rules {
  const window = rules.windowIsSet ? undefined : model.contextWindow?.(run?.model);
  return window === undefined ? rules : { ...rules, contextWindow: window };
}
