import { CRASH_LIMIT } from '../../core/session/session-state.ts';
import type { Rules } from '../../protocol/settings/effective-settings.ts';
import { cleanUpCalls } from '../calls/tool-call.ts';
import type { SessionPorts } from '../ports/session-ports.ts';
import { runUntilIdle } from './iteration.ts';
import { describeOpenWork, type PreviousFailure, recordRecovery, recordShutdown } from './recovery.ts';
import { openSessionLoop } from './session-loop.ts';

const STOP_REASON = 'the daemon was stopped';

/** Runs one session: takes in messages, decides, acts and records until nothing is left, then waits for a wake. */
export type SessionWorker = {
  /**
   * Something may have changed: check. Calling it too often costs nothing; a wake is never lost. Nothing of the session
   * runs before this returns.
   */
  wake(): void;
  /** An earlier daemon left something open in it. */
  readonly hadUnfinishedWork: boolean;
  /** Nothing is running, and nothing is due for which the session would have to stay open. */
  readonly isIdle: boolean;
  /** Milliseconds until it has to be woken, if it waits for a time and nothing else would wake it. */
  readonly dueInMs: number | null;
  /**
   * Ends the loop: the call in flight may take `graceMs`, then it is aborted and recorded as interrupted, with
   * `stopReason`.
   */
  stop(graceMs: number, stopReason?: string): Promise<void>;
};

/**
 * Opens a session and records what the last daemon left open in it. `rules` is called each time the loop continues. An
 * error ends this worker and nothing else: `onFault` receives it, and the next worker reads everything from disk again;
 * its caller passes on what happened (`last`).
 */
export async function openSessionWorker(
  ports: SessionPorts,
  rules: () => Promise<Rules>,
  onFault: (error: unknown) => void,
  last?: PreviousFailure,
): Promise<SessionWorker> {
  const loop = await openSessionLoop(ports, rules);
  const { sessionLog, planSync, intake, signal, alarm, runSlot } = loop;
  let status: 'idle' | 'running' | 'failed' = 'idle';
  let closing: Promise<void> | null = null;

  /** The only consumer of wakes: never runs in the stack of the caller, and never twice at once. */
  async function serve(): Promise<void> {
    while (loop.stopReason === null) {
      await signal.next();
      if (loop.stopReason !== null) return;
      status = 'running';
      await runUntilIdle(loop).finally(runSlot.release);
      status = 'idle';
      if (intake.isDue) signal.ring();
      else if (loop.stopReason === null) ports.reportIdle?.();
    }
  }

  function fail(error: unknown): void {
    status = 'failed';
    onFault(error);
  }

  async function close(): Promise<void> {
    await serving;
    if (status !== 'failed') await planSync.writePlan().catch(fail);
    if (status !== 'failed') await recordShutdown(sessionLog).catch(fail);
    await sessionLog.sync().catch(onFault);
    if (status !== 'failed' && sessionLog.sinceSnapshot !== 'nothing')
      await sessionLog.saveSnapshot().catch(() => undefined);
    await ports.store.close();
  }

  const hadUnfinishedWork = describeOpenWork(sessionLog.session).length > 0;
  await recordRecovery(sessionLog, last);
  loop.isShelvingFirst = sessionLog.session.crashes.count >= CRASH_LIMIT;
  if (hadUnfinishedWork && !loop.isShelvingFirst) await planSync.readEdits();
  await cleanUpCalls(ports, sessionLog);
  const serving = serve().catch(fail);
  return {
    wake() {
      intake.request();
      signal.ring();
    },
    hadUnfinishedWork,
    get isIdle() {
      return status === 'idle' && !intake.isDue && alarm.canSleep && sessionLog.session.run === null;
    },
    get dueInMs() {
      return alarm.dueInMs;
    },
    async stop(graceMs, stopReason = STOP_REASON) {
      loop.stopReason = stopReason;
      alarm.cancel();
      const abort = (): void => loop.call?.abort(new Error(loop.stopReason ?? STOP_REASON));
      if (runSlot.isQueued) abort();
      const cancel = ports.clock.after(graceMs, abort);
      signal.ring();
      closing ??= close();
      await closing.finally(cancel);
    },
  };
}
