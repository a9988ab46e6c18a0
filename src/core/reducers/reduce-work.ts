import { mapGet, mapSet, omitKey } from '../../base/collections.ts';
import type { CheckpointReason } from '../../protocol/session/checkpoint.ts';
import type { Event, EventOf } from '../../protocol/session/event.ts';
import type { Plan, Step } from '../../protocol/session/plan.ts';
import { omitFields } from '../plan/plan-steps.ts';
import { moveStep } from '../plan/step-moves.ts';
import { NO_WORK_HISTORY, type WorkHistory } from '../session/run-state.ts';
import { withoutText } from '../session/session-messages.ts';
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

/**
 * The session goes on as a copy: what people were owed, the original gives them, and what it had outside its own folder
 * it does not have.
 */
export function reduceForked(session: Session, { checkpoint, seq, at }: EventOf<'session.forked'>): Session {
  let { messages } = session;
  for (const id of session.unanswered) {
    const message = mapGet(messages, id);
    if (!message) continue;
    const replied = session.undelivered.includes(id) ? { ...message, isReplied: true } : withoutText(message);
    messages = mapSet(messages, id, replied);
  }
  return {
    ...session,
    messages,
    unanswered: [],
    queue: [],
    unpublishedReplies: {},
    children: {},
    shelvedProgress: Object.fromEntries(
      Object.entries(session.shelvedProgress).map(([id, progress]) => [id, { ...progress, children: {} }]),
    ),
    plan: session.plan && withoutChildren(session.plan, at),
    shelvedPlans: Object.fromEntries(
      Object.entries(session.shelvedPlans).map(([id, plan]) => [id, withoutChildren(plan, at)]),
    ),
    browserHold: null,
    jobsEndSeq: seq,
    work: { ...NO_WORK_HISTORY, last: checkpoint ?? session.work.last },
  };
}

const withoutChildren = (plan: Plan, at: string): Plan => ({
  ...plan,
  steps: plan.steps.map((step) => withoutChild(step, at)),
});

/** What a child session was working on is open again; what a call had given to one is left out. */
function withoutChild(step: Step, at: string): Step {
  if (step.child === undefined) return step;
  const own = omitFields(step, 'child');
  if (step.status !== 'running' && step.status !== 'pending') return own;
  return step.call === undefined
    ? moveStep(omitFields(own, 'started_at'), 'pending')
    : moveStep(own, 'skipped', { at, error: 'its child session was not copied' });
}
