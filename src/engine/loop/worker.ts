import { mapGet } from '../../base/collections.ts';
import { errorText } from '../../base/user-error.ts';
import { endStalledRun, withRunClosed } from '../../core/decide/close-run.ts';
import { decide } from '../../core/decide/decide.ts';
import type { Decision } from '../../core/runs/decision.ts';
import { deadLetterEvents, isStalled } from '../../core/runs/run-lifecycle.ts';
import { CRASH_LIMIT, type Session } from '../../core/session/session-state.ts';
import type { EventBody } from '../../protocol/session/event.ts';
import { RUN_END } from '../../protocol/session/reply.ts';
import { type Rules, resolveRules } from '../../protocol/settings/effective-settings.ts';
import { checkCallsBegunBy } from '../calls/permission-gate.ts';
import { cleanUpCalls } from '../calls/tool-call.ts';
import type { SessionPorts } from '../ports/session-ports.ts';
import type { SessionStore } from '../ports/store-ports.ts';
import { restoreFiles, saveWork } from './perform-checkpoint.ts';
import { type CallDecision, performCall, publishReply, sendToChild } from './perform-decision.ts';
import {
  describeOpenWork,
  endDroppedChecks,
  isPlanToBlame,
  type PreviousFailure,
  recordHoldEnded,
  recordRecovery,
  recordShutdown,
} from './recovery.ts';
import { clearIntakeTrouble, handOverBrowser, openSessionLoop, type SessionLoop, takeIn } from './session-loop.ts';
import { MAX_TIMER_MS } from './waits.ts';

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
    ports.browser?.takeBack();
    if (status !== 'failed') await recordHoldEnded(sessionLog).catch(fail);
    if (status !== 'failed') await planSync.writePlan().catch(fail);
    if (status !== 'failed') await recordShutdown(sessionLog).catch(fail);
    await sessionLog.sync().catch(onFault);
    if (status !== 'failed' && sessionLog.sinceSnapshot !== 'nothing')
      await sessionLog.saveSnapshot().catch(() => undefined);
    await ports.store.close();
  }

  const hadUnfinishedWork = describeOpenWork(sessionLog.session).length > 0;
  await recordRecovery(sessionLog, last, ports.log);
  await recordHoldEnded(sessionLog);
  loop.isShelvingFirst = sessionLog.session.crashes.count >= CRASH_LIMIT;
  if (isPlanToBlame(last)) await planSync.setAside();
  const { claim } = sessionLog.session;
  if (hadUnfinishedWork && !loop.isShelvingFirst) await planSync.readEdits();
  await endDroppedChecks(sessionLog, claim);
  await cleanUpCalls(ports, sessionLog);
  const serving = serve().catch(fail);
  return {
    wake() {
      intake.request();
      signal.ring();
    },
    hadUnfinishedWork,
    get isIdle() {
      const { session } = sessionLog;
      return (
        status === 'idle' && !intake.isDue && alarm.canSleep && session.run === null && session.browserHold === null
      );
    },
    get dueInMs() {
      return alarm.dueInMs;
    },
    async stop(graceMs, stopReason = STOP_REASON) {
      loop.stopReason = stopReason;
      alarm.cancel();
      const abort = (): void => abortCalls(loop, new Error(loop.stopReason ?? STOP_REASON));
      if (runSlot.isQueued) abort();
      const cancel = ports.clock.after(graceMs, abort);
      signal.ring();
      closing ??= close();
      await closing.finally(cancel);
    },
  };
}

function abortCalls({ call, checkpoint, interpreting }: SessionLoop, why: Error): void {
  call?.abort(why);
  checkpoint?.abort(why);
  interpreting?.control.abort(why);
}

/** How often a run that waits for child sessions checks them, even if it is not woken. */
const CHILDREN_POLL_MS = 30_000;

/** Takes in, decides, acts and records until nothing is left to do, a time is awaited, or the loop is stopped. */
async function runUntilIdle(loop: SessionLoop): Promise<void> {
  const { sessionLog, intake } = loop;
  for (let hasLastEdits = false; ; ) {
    const { claim } = sessionLog.session;
    loop.isShelvingFirst &&= isShelving(sessionLog.session);
    if (!loop.isShelvingFirst && intake.isWorthwhile) await takeIn(loop);
    // Read each time: what a person has just forbidden applies to the next call.
    const rules = await loop.readRules();
    const decision = await nextDecision(loop, rules);
    hasLastEdits = !hasLastEdits && isLastWord(loop, decision) && (await takeInLastEdits(loop));
    // A stop dropped while no daemon was running takes precedence over work that a recovery would resume.
    const isOutdated = hasLastEdits || (isCall(decision) && !intake.isCaughtUp && intake.isDue);
    if (!isOutdated) await carryOut(loop, decision, rules);
    await endDroppedChecks(sessionLog, claim, !isOutdated && decision.do === 'record' ? decision.events : []);
    if (sessionLog.sinceSnapshot === 'due') await takeSnapshot(loop);
    if (!intake.isDue) clearIntakeTrouble(loop);
    if (loop.stopReason !== null || (decision.do === 'idle' && !intake.isDue)) return;
    if (!isOutdated && isCall(decision) && (await performCall(loop, decision, rules)) === 'wait') return;
  }
}

const isCall = (decision: Decision): decision is CallDecision =>
  decision.do === 'think' || decision.do === 'act' || decision.do === 'interpret';

/** Carries out a decision, unless it is a call, which the loop waits for afterwards. */
async function carryOut(loop: SessionLoop, decision: Decision, rules: Rules): Promise<void> {
  const { ports, sessionLog } = loop;
  loop.filesThere = decision.do === 'look' ? await lookFor(decision.files, ports.store) : null;
  if (decision.do === 'record') await recordDecision(loop, decision.events);
  else if (decision.do === 'publish') await publishReply(loop, decision.message, rules);
  else if (decision.do === 'send') await sendToChild(decision, ports, sessionLog);
  else if (decision.do === 'save') await saveWork(loop, decision);
  else if (decision.do === 'restore') await restoreFiles(loop, decision);
  else if (decision.do === 'idle') await bringFilesUpToDate(loop);
  if (!sessionLog.session.run) loop.runSlot.release();
}

/**
 * The decision that can be carried out now: what is not due yet is awaited, what rules forbid is replaced by what says
 * so, and a run that cannot go on ends.
 */
async function nextDecision(loop: SessionLoop, rules: Rules): Promise<Decision> {
  const { ports, sessionLog } = loop;
  const decided = sessionLog.runGuarded('deciding', () => decide(sessionLog.session, rules));
  const decision = waitIfNotDue(loop, endIfStalled(loop, decided, rules), rules);
  if (decision.do !== 'record') return decision;
  return { ...decision, events: await checkCallsBegunBy(decision.events, ports, sessionLog, rules) };
}

/** Ends a run that can never continue, and logs it. Child sessions it waits for are polled. */
function endIfStalled(loop: SessionLoop, decision: Decision, rules: Rules): Decision {
  const { session } = loop.sessionLog;
  if (loop.isRepeating(decision)) return endIfRepeating(loop, decision, rules);
  // A child session waits for settings silently; the code that reads the settings wakes it.
  if (decision.do !== 'idle' || !session.run || rules.settingsFault !== null) return decision;
  if (!isStalled(session, decision)) {
    loop.alarm.wakeIn(CHILDREN_POLL_MS);
    return decision;
  }
  loop.ports.log('error', `the run of ${session.run.message} has stalled at event ${session.seq}: it ends as failed`);
  return endStalledRun(session, rules);
}

/** Does not record a repeated decision once more: the run ends, or the session fails if there is no run. */
function endIfRepeating({ sessionLog: { session }, ports }: SessionLoop, decision: Decision, rules: Rules): Decision {
  const types = decision.do === 'record' ? decision.events.map(({ type }) => type).join(', ') : decision.do;
  const what = `the loop repeats the same decision at event ${session.seq}: ${types}`;
  if (!session.run) throw new Error(what);
  ports.log('error', `${what}: the run of ${session.run.message} ends as failed`);
  return endStalledRun(session, rules);
}

/** Sets the alarm for a decision that is not due yet; logs what was waited for once its time has come. */
function waitIfNotDue(loop: SessionLoop, decision: Decision, rules: Rules): Decision {
  const { pauses, deadlines, alarm, sessionLog } = loop;
  if (decision.do === 'send') {
    const wait = pauses.left(decision.notBefore);
    if (wait > 0) alarm.wakeIn(wait);
    return wait > 0 ? { do: 'idle' } : decision;
  }
  if (decision.do !== 'idle' || !decision.due) return decision;
  const wait = deadlines.left(decision.due.at, decision.due.later);
  const due: Decision = { do: 'record', events: decision.due.events };
  if (wait <= 0) return withRunClosed(sessionLog.session, due, rules);
  // Timers cannot be set many days ahead: this one is set again when it fires.
  alarm.wakeIn(Math.min(wait, MAX_TIMER_MS), sessionLog.session.run === null);
  return decision;
}

/** The most files attached to one reply. */
const MAX_REPLY_FILES = 20;

async function lookFor(paths: string[], store: SessionStore): Promise<ReadonlyMap<string, boolean>> {
  const found = await store.files(paths, MAX_REPLY_FILES);
  return new Map(paths.map((path) => [path, found.includes(path)]));
}

/** An answer that adds a rule is logged once the rule is in `session.json`; a file shows what has been logged. */
async function recordDecision(loop: SessionLoop, events: EventBody[]): Promise<void> {
  const { sessionLog, approvalSync } = loop;
  await sessionLog.record(await approvalSync.saveAllowRules(events));
  handOverBrowser(loop);
  await approvalSync.writeFiles();
}

async function bringFilesUpToDate({ planSync, approvalSync, sessionLog, ports }: SessionLoop): Promise<void> {
  await planSync.writePlan();
  await approvalSync.writeFiles();
  await sessionLog.sync();
  await cleanUpCalls(ports, sessionLog);
}

/** Whether a decision ends a run, or answers a message while none runs: edits of the plan are read before it. */
function isLastWord({ sessionLog, isShelvingFirst }: SessionLoop, decision: Decision): boolean {
  if (decision.do !== 'record' || isShelvingFirst) return false;
  const has = (type: EventBody['type']) => decision.events.some((event) => event.type === type);
  return has('run.ended') || (!sessionLog.session.run && has('reply.committed'));
}

/** Saves made until now belong to this run, and their faults into its reply, or into one about the plan. */
async function takeInLastEdits({ sessionLog, planSync }: SessionLoop): Promise<boolean> {
  const before = sessionLog.session.seq;
  await planSync.readEdits({ final: true });
  return sessionLog.session.seq !== before;
}

/** A snapshot is taken when `plan.json` is up to date, so that a save that started from it finds its version. */
async function takeSnapshot({ planSync, sessionLog, ports }: SessionLoop): Promise<void> {
  await planSync.writePlan();
  await sessionLog
    .saveSnapshot()
    .catch((error) =>
      ports.log('warn', `no snapshot was written; the next start reads more of the log: ${errorText(error)}`),
    );
}

/** Whether a message is about to become a dead letter, or its reply is still to be published. */
function isShelving(session: Session): boolean {
  const { run, runEnd, unpublishedReplies } = session;
  if (deadLetterEvents(session, resolveRules()).length > 0 || Object.keys(unpublishedReplies).length > 0) return true;
  return (
    run === null && runEnd?.reason === RUN_END.crashes && mapGet(session.messages, runEnd.message)?.isReplied === false
  );
}
