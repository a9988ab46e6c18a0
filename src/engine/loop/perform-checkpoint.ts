import { errorText } from '../../base/user-error.ts';
import type { Decision } from '../../core/runs/decision.ts';
import { activePlan } from '../../core/session/session-queries.ts';
import type { Session } from '../../core/session/session-state.ts';
import type { ChangeCounts } from '../../protocol/session/checkpoint.ts';
import type { Checkpoints, SavedCheckpoint, SaveOrder } from '../ports/store-ports.ts';
import { listenDuring } from './perform-decision.ts';
import type { SessionLoop } from './session-loop.ts';

type SaveDecision = Decision & { do: 'save' };
type RestoreDecision = Decision & { do: 'restore' };

const NO_CHANGES: ChangeCounts = { added: 0, changed: 0, removed: 0 };
const DISK_IS_FULL = 'the disk is nearly full. Free some space; the next checkpoint is tried again.';

/**
 * Takes a checkpoint and logs it. What goes wrong with it is logged as well: no work waits for a checkpoint that cannot
 * be taken. Messages are taken in meanwhile. If the daemon stops first, nothing is logged, and the next one takes it.
 */
export async function saveWork(loop: SessionLoop, decision: SaveDecision): Promise<void> {
  const { ports, sessionLog } = loop;
  const { why, steps, message } = decision;
  const order = saveOrder(sessionLog.session, decision);
  const isFull = ports.diskCapacity() !== 'ok';
  const saved = isFull ? { fault: DISK_IS_FULL } : await attempt(loop, (it, signal) => it.save(order, signal));
  if (!saved) return;
  const facts = { why, steps, ...(message !== undefined && { message }) };
  if ('fault' in saved) {
    ports.log('warn', `no checkpoint of work/ was taken: ${saved.fault}`);
    await sessionLog.record([
      { type: 'work.saved', checkpoint: null, ...facts, counts: NO_CHANGES, files: [], ...saved },
    ]);
  } else await sessionLog.record([{ type: 'work.saved', ...facts, ...eventFacts(saved.value, decision) }]);
}

function eventFacts({ checkpoint, counts, files, leftOut }: SavedCheckpoint, { concurrent }: SaveDecision) {
  const marks = { ...(leftOut > 0 && { left_out: leftOut }), ...(concurrent && { concurrent: true as const }) };
  return { checkpoint, counts, files, ...marks };
}

/** Restores files and logs what came of it. After a crash the same decision completes what was begun. */
export async function restoreFiles(loop: SessionLoop, decision: RestoreDecision): Promise<void> {
  const { sessionLog } = loop;
  const { message, checkpoint, rescue, paths, changedUntil } = decision;
  await sessionLog.sync();
  const save = saveOrder(sessionLog.session, { why: 'rescue', steps: [], concurrent: false, needed: [rescue] });
  const done = await attempt(loop, (it, signal) => it.restore({ checkpoint, paths, changedUntil, save }, signal));
  if (!done) return;
  const outcome = 'fault' in done ? { counts: NO_CHANGES, fault: done.fault } : { counts: done.value };
  await sessionLog.record([{ type: 'work.restored', message, checkpoint, rescue, paths, ...outcome }]);
}

function saveOrder(session: Session, order: Omit<SaveDecision, 'do'>): SaveOrder {
  const plan = activePlan(session) ?? session.plan;
  const isOpen = plan?.status === 'running' || plan?.status === 'paused' || plan?.status === 'waiting';
  return {
    ...order,
    plan: isOpen ? plan.id : null,
    folder: (session.run ?? session.runEnd)?.folder,
    last: session.work.last,
  };
}

/** The result of work with checkpoints, or why it failed; undefined if the daemon stopped meanwhile. */
async function attempt<T>(
  loop: SessionLoop,
  run: (checkpoints: Checkpoints, signal: AbortSignal) => Promise<T>,
): Promise<{ value: T } | { fault: string } | undefined> {
  const { checkpoints } = loop.ports;
  if (!checkpoints) return { fault: 'this session has no checkpoints.' };
  const control = new AbortController();
  loop.checkpoint = control;
  try {
    return { value: await listenDuring(loop, run(checkpoints, control.signal)) };
  } catch (error) {
    return control.signal.aborted ? undefined : { fault: errorText(error) };
  } finally {
    loop.checkpoint = null;
  }
}
