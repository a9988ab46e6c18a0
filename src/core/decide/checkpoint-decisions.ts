import { getOwn } from '../../base/collections.ts';
import type { EventBody } from '../../protocol/session/event.ts';
import type { Step } from '../../protocol/session/plan.ts';
import type { Rules } from '../../protocol/settings/effective-settings.ts';
import { rootSessionOf } from '../../protocol/workspace/session-names.ts';
import { parseRestoreCommand, undoesFiles } from '../messages/commands.ts';
import { messageKind } from '../messages/message-actions.ts';
import { replyInWords } from '../messages/replies.ts';
import type { REPLY_WORDING } from '../messages/reply-wording.ts';
import { isFanOutStep, partsOf } from '../plan/fan-out.ts';
import { findStep } from '../plan/plan-steps.ts';
import type { Decision } from '../runs/decision.ts';
import { isChildBusy, sessionDepth } from '../session/child-session.ts';
import type { Message } from '../session/session-messages.ts';
import { CRASH_LIMIT, type Session } from '../session/session-state.ts';

type RestoreWords = (typeof REPLY_WORDING)['en']['restore'];

/**
 * The checkpoint that is due, before anything else happens. None is taken while a message is about to become a dead
 * letter: a checkpoint may be what crashed the daemons.
 */
export function dueCheckpoint(session: Session, rules: Rules): Decision | null {
  const { due } = session.work;
  if (!due || !keepsCheckpoints(session, rules) || session.crashes.count >= CRASH_LIMIT) return null;
  const concurrent = isWorkShared(session, rules);
  return { do: 'save', why: due.why, steps: [...due.steps], concurrent, needed: [] };
}

/** A child session that works in its parent's folder leaves the checkpoints to its parent. */
const keepsCheckpoints = (session: Session, { checkpoints }: Rules): boolean =>
  checkpoints && !isInParentFolder(session);

const isInParentFolder = ({ name, run, runEnd }: Session): boolean =>
  sessionDepth(name) > 0 && (run ?? runEnd)?.folder === undefined;

const isWorkShared = (session: Session, { jobs }: Rules): boolean =>
  jobs.length > 0 || busyChildren(session).length > 0;

const busyChildren = ({ children }: Session): string[] =>
  Object.values(children).flatMap((child) => (isChildBusy(child) ? [child.name] : []));

/**
 * What a message that restores files needs next: a checkpoint of what is there, then the restore itself. Null for any
 * other message, and once it can be answered. The message stays in the queue until then, so a crash only begins again.
 */
export function restoreDecision(session: Session, message: Message, rules: Rules): Decision | null {
  const kind = messageKind(session, message);
  const isRestore = 'kind' in kind && (kind.kind === 'restore' || (kind.kind === 'undo' && undoesFiles(message)));
  const { rescue, restored } = session.work;
  if (!isRestore || restored?.message === message.id) return null;
  const order = readOrder(session, message, rules);
  if ('refusal' in order) return null;
  const needed = [order.checkpoint, ...(order.changedUntil === undefined ? [] : [order.changedUntil])];
  if (rescue?.message !== message.id)
    return { do: 'save', why: 'rescue', steps: [], concurrent: false, message: message.id, needed };
  if (rescue.checkpoint === null) return null;
  return { do: 'restore', message: message.id, rescue: rescue.checkpoint, ...order };
}

/** The step that was closed last. A step with items that ended because they did is left to its items. */
export function lastClosedStep({ plan, closedSteps, editedByPerson }: Session): Step | undefined {
  const closed = (plan?.steps ?? []).filter(
    (step) =>
      !(isFanOutStep(step) && plan && partsOf(plan, step.id).length > 0) ||
      editedByPerson.includes(`${step.id}:status`),
  );
  const last = closedSteps.findLast((id) => closed.some((one) => one.id === id));
  return closed.find((one) => one.id === last);
}

/** The reply to `/restore`: why nothing can be restored, or what was. */
export function answerRestoreCommand(session: Session, message: Message, rules: Rules): EventBody[] {
  const outcome = restoreOutcome(session, message, rules);
  if (!outcome) return [];
  return replyInWords(session, message, rules, ({ restore }) => outcome.text(restore), outcome.is);
}

/** What came of a message that restores files, for its reply; undefined while it is under way. */
export function restoreOutcome(
  session: Session,
  message: Message,
  rules: Rules,
): { is: 'done' | 'rejected'; text: (words: RestoreWords) => string } | undefined {
  const { rescue, restored } = session.work;
  if (restored?.message === message.id) {
    const { fault, counts, checkpoint, rescue: before } = restored;
    const isNothing = counts.added + counts.changed + counts.removed === 0;
    if (fault !== undefined) return { is: 'rejected', text: (words) => words.failed(fault, before) };
    if (isNothing || before === null) return { is: 'done', text: (words) => words.same(checkpoint) };
    return { is: 'done', text: (words) => words.done(checkpoint, counts, before) };
  }
  const order = readOrder(session, message, rules);
  if ('refusal' in order) return { is: 'rejected', text: order.refusal };
  const fault = rescue?.message === message.id ? rescue.fault : undefined;
  return fault === undefined ? undefined : { is: 'rejected', text: (words) => words.failed(fault, null) };
}

type RestoreOrder =
  | { checkpoint: number; paths: string[]; changedUntil?: number }
  | { refusal: (words: RestoreWords) => string };

/** What a message asks to restore, if that can be done now: nothing else may work in `work/` meanwhile. */
function readOrder(session: Session, message: Message, rules: Rules): RestoreOrder {
  const { run, name, stepCheckpoints } = session;
  const children = busyChildren(session);
  if (isInParentFolder(session)) return { refusal: (words) => words.shared(rootSessionOf(name)) };
  if (!rules.checkpoints) return { refusal: (words) => words.off };
  if (run) return { refusal: (words) => words.running };
  if (children.length > 0) return { refusal: (words) => words.children(children.join(', ')) };
  if (rules.jobs.length > 0) return { refusal: (words) => words.jobs(rules.jobs.join(', ')) };
  const command = parseRestoreCommand(message);
  if (!command) return undoOrder(session);
  const { target, paths } = command;
  const checkpoint = findCheckpoint(session, target);
  if (checkpoint !== undefined) return { checkpoint, paths };
  const known = Object.entries(stepCheckpoints).map(([step, { after }]) => `${step} (${after})`);
  return { refusal: (words) => words.usage(known.join(', ')) };
}

/** What the step that was closed last has changed becomes what it was before. */
function undoOrder(session: Session): RestoreOrder {
  // A step that only claims to be done has no end yet.
  const step = session.claim?.step ?? lastClosedStep(session)?.id;
  const known = session.claim ? undefined : getOwn(session.stepCheckpoints, step ?? '');
  if (!known) return { refusal: (words) => words.noCheckpoint(step) };
  return { checkpoint: known.before, paths: [], changedUntil: known.after };
}

/** The checkpoint of that number, or at the end of that step. */
function findCheckpoint({ plan, stepCheckpoints }: Session, target: string): number | undefined {
  if (/^\d{1,15}$/.test(target)) return Number(target);
  const step = plan ? findStep(plan, target)?.id : undefined;
  return getOwn(stepCheckpoints, step ?? target)?.after;
}
