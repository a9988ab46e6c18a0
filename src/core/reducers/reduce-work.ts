import { omitKey } from '../../base/collections.ts';
import type { CheckpointReason } from '../../protocol/session/checkpoint.ts';
import type { Event, EventOf } from '../../protocol/session/event.ts';
import type { WorkHistory } from '../session/run-state.ts';
import type { Session } from '../session/session-state.ts';

/** A checkpoint of `work/` was taken, or files were restored from one. */
export function reduceWork(session: Session, event: EventOf<'work.saved' | 'work.restored'>): Session {
  return event.type === 'work.saved' ? workSaved(session, event) : workRestored(session, event);
}

/** Files of a step that are kept in the state; the event has more. */
const MAX_FILES_KEPT = 5;

/** One that could not be taken removes the reason for it as well: the work goes on without. */
function workSaved(session: Session, event: EventOf<'work.saved'>): Session {
  const { work, stepCheckpoints } = session;
  const { checkpoint, fault, message } = event;
  const { added, changed, removed } = event.counts;
  const facts = { changed: added + changed + removed, files: event.files.slice(0, MAX_FILES_KEPT) };
  let steps = stepCheckpoints;
  for (const step of event.steps) {
    const others = omitKey(steps, step);
    steps = checkpoint === null ? others : { ...others, [step]: { before: work.last, after: checkpoint, ...facts } };
  }
  const isRescue = event.why === 'rescue' && message !== undefined;
  return {
    ...session,
    stepCheckpoints: steps,
    work: {
      ...work,
      last: checkpoint ?? work.last,
      due: isRescue ? work.due : null,
      rescue: isRescue ? { message, checkpoint, ...(fault !== undefined && { fault }) } : work.rescue,
    },
  };
}

/** The model hears that files changed under it. */
function workRestored(session: Session, event: EventOf<'work.restored'>): Session {
  const { message, checkpoint, rescue, paths, counts, fault, seq } = event;
  const restored = { message, checkpoint, rescue, paths, counts, ...(fault !== undefined && { fault }) };
  const files = counts.added + counts.changed + counts.removed;
  const others = session.notices.filter(({ about }) => about !== 'restored');
  return {
    ...session,
    work: { ...session.work, restored },
    notices: files > 0 ? [...others, { seq, about: 'restored', files }] : session.notices,
  };
}

/** The checkpoint that is due after an event: one at each end of a step, and at each start and end of a run. */
export function checkpointDueAfter(before: Session, event: Event): WorkHistory['due'] {
  const { due } = before.work;
  const also = (why: CheckpointReason, steps: readonly string[] = []): WorkHistory['due'] => ({
    why,
    steps: [...new Set([...(due?.steps ?? []), ...steps])],
  });
  switch (event.type) {
    case 'run.started':
    case 'run.resumed':
      // Earlier ones have not been taken, so no checkpoint shows what those steps did.
      return { why: 'run_started', steps: [] };
    case 'step.completed':
    case 'step.failed':
      return also('step_ended', [event.step]);
    case 'run.ended':
      // A run that has stopped may be marked as paused or cancelled afterwards.
      return before.run ? also('run_ended') : due;
    default:
      return due;
  }
}
