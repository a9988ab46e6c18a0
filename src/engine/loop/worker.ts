import { getOwn } from '../../base/dictionary.ts';
import { createTaskQueue, oneLoop } from '../../base/mutex.ts';
import { mapGet } from '../../base/persistent-collections.ts';
import { errorText, isDiskFull } from '../../base/user-error.ts';
import { decide, decideDuringCall } from '../../core/decide/decide.ts';
import { shouldAbortCall } from '../../core/messages/message-actions.ts';
import { formatReplyFile } from '../../core/messages/replies.ts';
import type { Decision } from '../../core/runs/decision.ts';
import { deadLetterEvents, endStalledRunEvents, isStalled, isWaitingForSettings } from '../../core/runs/run-faults.ts';
import { CRASH_LIMIT, type Session } from '../../core/session/session-state.ts';
import type { EventBody } from '../../protocol/session/event.ts';
import type { Rules } from '../../protocol/settings/effective-settings.ts';
import { NO_NOTES } from '../../protocol/workspace/memory-notes.ts';
import { callModel } from '../calls/model-call.ts';
import { checkCall, checkCallsBegunBy } from '../calls/permission-gate.ts';
import { cleanUpCalls, runToolCall } from '../calls/tool-call.ts';
import { admitMessages, canAdmitBatch } from '../intake/admission.ts';
import { recordChildReplies, sendToChild } from '../intake/child-replies.ts';
import type { SessionPorts } from '../ports/session-ports.ts';
import { openApprovalSync } from '../state/approval-sync.ts';
import { openPlanSync } from '../state/plan-sync.ts';
import { attachOfferedFiles, openSessionLog } from '../state/session-log.ts';
import {
  describeOpenWork,
  interruptedCalls,
  type PreviousFailure,
  recordRecovery,
  recordShutdown,
} from './recovery.ts';
import { applyLearnedWindow, holdNotesPerRun } from './run-rules.ts';
import { createRepeatGuard, trackDeadline } from './scheduler.ts';

/** How soon an inbox is looked at again while a file in it is not ready. */
const PENDING_RETRY_MS = 100;
/** How soon a run that waits for room on the disk asks again. */
const DISK_RETRY_MS = 1000;
/** How soon a run that waits for child sessions looks at them again, whether it was woken or not. */
const CHILDREN_POLL_MS = 30_000;
/** No pause is longer than the longest an endpoint may wish for. */
const MAX_TIMER_MS = 3_600_000;
const STOP_REASON = 'the daemon was stopped';
const NOTHING_ADMITTED = { pending: false, more: false };

/** The one worker of a session: wakes it, beats until it rests, hears what comes in meanwhile. */
export type SessionWorker = {
  /**
   * Something may have changed: look. Costs nothing to call too often; a wake is never lost. Nothing of the session
   * runs before this returns.
   */
  wake(): void;
  /** An earlier daemon left something open in it. */
  readonly hadUnfinishedWork: boolean;
  /** Nothing is going on, and nothing is due that the session would have to stay open for. */
  readonly isIdle: boolean;
  /** Milliseconds until it has to be woken, where a time is waited for that nothing else tells. */
  readonly dueInMs: number | null;
  /**
   * Ends the beat: the call in flight may take `graceMs`, then it is aborted and put on record as interrupted, with
   * `why`.
   */
  stop(graceMs: number, stopReason?: string): Promise<void>;
};

/**
 * The beat of one session: admit, decide, perform, record, fold, until there is nothing left to do. `rules` is asked
 * anew each time it begins to beat. What goes wrong here stays here: `onFault` hears of it, and the next wake reads
 * everything from disk again; whoever opens the next worker says what it was (`last`).
 */
export async function openSessionWorker(
  ports: SessionPorts,
  rules: () => Promise<Rules>,
  onFault: (error: unknown) => void,
  last?: PreviousFailure,
): Promise<SessionWorker> {
  const { store, clock } = ports;
  const sessionLog = await openSessionLog(
    store.name,
    store.eventLog,
    store.snapshots,
    ports.createNonce,
    ports.runGuarded,
  );
  const inOrder = createTaskQueue();
  const isRepeating = createRepeatGuard();
  const planSync = openPlanSync(store.plan, sessionLog, clock, (task) =>
    inOrder(task).catch((error) => ports.log('warn', `plan.json lags behind: ${errorText(error)}`)),
  );

  const approvalSync = openApprovalSync(store.approvals, sessionLog, (text) => ports.log('warn', text));
  const pauses = trackDeadline(clock, MAX_TIMER_MS);
  const deadlines = trackDeadline(clock, Number.POSITIVE_INFINITY);
  const withNotes = holdNotesPerRun(() => ports.notes?.() ?? NO_NOTES);
  let isWoken = false;
  /** More is in the inbox than there is room for. */
  let isInboxFull = false;
  /** Everything that was dropped before this worker began is on record. */
  let isCaughtUp = false;
  const loop = oneLoop(runLoop, fail, afterLoop);
  let isStopping = false;
  let hasFailed = false;
  let inFlight: AbortController | null = null;
  let releaseRun: (() => void) | null = null;
  let isQueued = false;
  let isIntakeScheduled = false;
  /** The last look beside a call in flight failed, and was told of. */
  let hasIntakeFailed = false;
  /** A message is given up, with its reply, before any file is read: a file may be what the daemons were lost over. */
  let isShelvingFirst = false;
  let closing: Promise<void> | null = null;
  let stopReason = STOP_REASON;
  /** `patient`: whoever closes the worker may keep the time for it. */
  let alarm: { at: number; off: () => void; patient: boolean } | null = null;

  function fail(error: unknown): void {
    hasFailed = true;
    onFault(error);
  }

  /**
   * What keeps us from hearing while a call is in flight ends no call: whoever looks after it meets the same, with its
   * end on record.
   */
  function reportIntakeTrouble(error: unknown): void {
    hasIntakeFailed = true;
    ports.reportTrouble?.(error);
  }

  function clearIntakeTrouble(): void {
    if (hasIntakeFailed) ports.reportTrouble?.(null);
    hasIntakeFailed = false;
  }

  function wake(): void {
    isWoken = true;
    if (isStopping || hasFailed) return;
    if (loop.running === null) {
      loop.start();
    } else if (inFlight && !isIntakeScheduled) {
      // One glance sees all that came in before it: a hundred thousand wakes must not line up for one each.
      isIntakeScheduled = true;
      void inOrder(intakeDuringCall).catch(reportIntakeTrouble);
    }
  }

  function afterLoop(): void {
    leaveSemaphore();
    if (isWoken && !isStopping && !hasFailed) wake();
    else if (!isStopping && !hasFailed) ports.reportIdle?.();
  }

  function leaveSemaphore(): void {
    releaseRun?.();
    releaseRun = null;
  }

  /** Wakes at the earliest time that was asked for: a retry must not put off a file that is about to be ready. */
  function wakeIn(ms: number, patient = false): void {
    const at = clock.elapsed() + ms;
    if (alarm) alarm.patient &&= patient;
    if (alarm && alarm.at <= at) return;
    const isPatient = patient && (alarm?.patient ?? true);
    alarm?.off();
    const off = clock.after(ms, () => {
      alarm = null;
      wake();
    });
    alarm = { at, off, patient: isPatient };
  }

  /** A reply names what goes on after it. */
  const withJobs = (settled: Rules): Rules => (ports.jobs ? { ...settled, jobs: ports.jobs.listRunning() } : settled);

  /** Beats until the session rests, waits for a time, or the daemon goes down. */
  async function runLoop(): Promise<void> {
    for (;;) {
      // Read anew each time: what a person has just forbidden holds for the next call.
      const settled = await rules();
      const runRules = applyLearnedWindow(
        withNotes(sessionLog.session, withJobs(settled)),
        ports.model,
        sessionLog.session,
      );
      const decision = await inOrder(() => iterate(runRules));
      if (sessionLog.sinceSnapshot === 'due') await inOrder(takeSnapshot);
      if (!isWoken) clearIntakeTrouble();
      if (isStopping || decision.do === 'rest') return;
      if (decision.do === 'think' || decision.do === 'act') {
        if (!(await performCall(decision, runRules))) return;
        // What could not be read beside the call stops the work here if it still cannot be.
        if (hasIntakeFailed) await rules();
      }
    }
  }

  /** One decision, and all of it that needs no waiting. `heard`: people were listened to just before. */
  async function iterate(runRules: Rules, heard = false): Promise<Decision> {
    isShelvingFirst &&= isShelving(sessionLog.session, runRules);
    if (!isShelvingFirst && (isWoken || (isInboxFull && canAdmitBatch(sessionLog.session)))) await takeIn(runRules);
    const decision = waitIfNotDue(
      endIfStalled(
        sessionLog.runGuarded('deciding', () => decide(sessionLog.session, runRules)),
        runRules,
      ),
    );
    // A stop that was dropped while nobody was there outranks what a recovery would go on with.
    if ((decision.do === 'think' || decision.do === 'act') && !isCaughtUp && isWoken) return iterate(runRules);
    if (decision.do === 'record') {
      if (!heard && !isShelvingFirst && endsRun(decision) && (await takeInLastEdits())) return iterate(runRules, true);
      const events = await checkCallsBegunBy(decision.events, ports, sessionLog, runRules);
      await sessionLog.record(
        await approvalSync.saveAllowRules(await attachOfferedFiles(store, sessionLog.session, events)),
      );
      await approvalSync.writeFiles();
    } else if (decision.do === 'publish') await publish(decision.message, runRules);
    else if (decision.do === 'send') await sendToChild(decision, ports, sessionLog);
    else if (decision.do === 'rest') {
      await planSync.writePlan();
      await approvalSync.writeFiles();
      await sessionLog.sync();
      await cleanUpCalls(ports, sessionLog);
      if (isWoken) return iterate(runRules);
    }
    if (!sessionLog.session.run) leaveSemaphore();
    return decision;
  }

  /**
   * A run that would never go on comes to rest, and the log says so. While it waits for children, they are looked at
   * now and then.
   */
  function endIfStalled(decision: Decision, runRules: Rules): Decision {
    const { session } = sessionLog;
    if (isRepeating(decision)) return endIfRepeating(decision, runRules);
    // A child session waits for settings without a word; whoever reads them wakes it.
    if (decision.do !== 'rest' || !session.run || runRules.settingsFault !== null) return decision;
    if (!isStalled(session, decision)) {
      wakeIn(CHILDREN_POLL_MS);
      return decision;
    }
    ports.log('error', `the run of ${session.run.message} waits for nothing, at event ${session.seq}: it is ended`);
    return { do: 'record', events: endStalledRunEvents(session, runRules) };
  }

  /**
   * What was decided again and again is not recorded once more: its run ends, or the session fails where none is on.
   */
  function endIfRepeating(decision: Decision, runRules: Rules): Decision {
    const { session } = sessionLog;
    const types = decision.do === 'record' ? decision.events.map(({ type }) => type).join(', ') : decision.do;
    const what = `the same is decided again and again at event ${session.seq}: ${types}`;
    if (!session.run) throw new Error(what);
    ports.log('error', `${what}: the run of ${session.run.message} is ended`);
    return { do: 'record', events: endStalledRunEvents(session, runRules) };
  }

  /**
   * Where the time has come that a rest waits for, what was to happen then happens; a message that is not due yet is no
   * matter of now.
   */
  function waitIfNotDue(decision: Decision): Decision {
    if (decision.do === 'send') {
      const wait = pauses.left(decision.notBefore);
      if (wait > 0) wakeIn(wait);
      return wait > 0 ? { do: 'rest' } : decision;
    }
    if (decision.do !== 'rest' || !decision.due) return decision;
    const wait = deadlines.left(decision.due.at);
    if (wait <= 0) return { do: 'record', events: decision.due.events };
    // A timer of many days is none: it is set anew.
    wakeIn(Math.min(wait, MAX_TIMER_MS), sessionLog.session.run === null);
    return decision;
  }

  /** What was saved until now belongs to this run, and what is wrong with it into its reply. */
  async function takeInLastEdits(): Promise<boolean> {
    const before = sessionLog.session.seq;
    await planSync.readEdits({ final: true });
    return sessionLog.session.seq !== before;
  }

  async function takeIn({ senders: named, settingsFault }: Rules): Promise<void> {
    isWoken = false;
    const senders = settingsFault === null ? named : 'unknown';
    // What is not taken in now stays in the inbox; the daemon wakes every such session when there is room again.
    const { pending, more, ...admitted } =
      ports.diskCapacity() === 'plenty'
        ? await admitMessages(store, sessionLog, { held: isInboxFull, senders })
        : { ...NOTHING_ADMITTED, held: isInboxFull };
    isInboxFull = admitted.held;
    await recordChildReplies(ports, sessionLog);
    await approvalSync.readAnswers();
    const { settling } = await planSync.readEdits();
    isCaughtUp ||= !more;
    if (more) isWoken = true;
    else if (pending || settling) wakeIn(PENDING_RETRY_MS);
  }

  /**
   * The model or a tool: with a place among the runs, under a signal, and with an ear for what is dropped meanwhile.
   */
  async function performCall(decision: Decision & { do: 'think' | 'act' }, runRules: Rules): Promise<boolean> {
    const wait =
      ports.diskCapacity() === 'none'
        ? DISK_RETRY_MS
        : pauses.left(decision.do === 'think' ? decision.notBefore : null);
    if (wait > 0) {
      await inOrder(() => planSync.writePlan());
      wakeIn(wait);
      return false;
    }
    const control = new AbortController();
    inFlight = control;
    try {
      if (shouldAbortCall(sessionLog.session)) return true;
      const since =
        mapGet(sessionLog.session.messages, sessionLog.session.run?.message ?? '')?.at ?? sessionLog.session.at;
      isQueued = true;
      releaseRun ??= await ports.runSemaphore.acquire(Date.parse(since), control.signal);
      isQueued = false;
      planSync.scheduleWrite();
      // What is on record as begun is judged anew: the rules may have changed since.
      const stops =
        decision.do === 'act' ? await checkCall(decision.call, ports, sessionLog, runRules, control.signal) : [];
      if (decision.do === 'act' && decision.call.state === 'asked') {
        const { key, name, args } = decision.call;
        if (stops.length > 0) {
          await inOrder(() => sessionLog.record(stops));
          return true;
        }
        await inOrder(() =>
          sessionLog.record([{ type: 'tool.started', call: key, name, args, replay: ports.tools.replayPolicy(name) }]),
        );
      }
      const events =
        decision.do === 'think'
          ? await callModel(decision, ports, sessionLog, runRules, control.signal)
          : await runToolCall(decision, ports, sessionLog, control.signal, stops.length === 0);
      await recordCallEnd(
        isStopping && events.length === 0 ? interruptedCalls(sessionLog.session, stopReason) : events,
      );
    } catch (error) {
      if (!control.signal.aborted || hasFailed) throw error;
    } finally {
      inFlight = null;
      isQueued = false;
      isWoken = true;
    }
    return true;
  }

  /**
   * Puts the end of a call on record. Where there is no room even for that, it waits: the call cannot be made again.
   */
  async function recordCallEnd(events: EventBody[]): Promise<void> {
    for (;;) {
      try {
        await inOrder(() => sessionLog.record(events));
        return;
      } catch (error) {
        if (!isDiskFull(error) || isStopping) throw error;
        reportIntakeTrouble(error);
        await new Promise<void>((done) => clock.after(DISK_RETRY_MS, done));
      }
    }
  }

  /**
   * While a call is in flight: take what came in, answer what can be answered, and end the call if a person says so.
   */
  async function intakeDuringCall(): Promise<void> {
    isIntakeScheduled = false;
    try {
      await answerDuringCall();
    } finally {
      // A stop that came in is heard whatever else cannot be read.
      if (shouldAbortCall(sessionLog.session)) inFlight?.abort(new Error('stopped by a person'));
    }
  }

  async function answerDuringCall(): Promise<void> {
    const runRules = withJobs(await rules());
    if (isWoken) await takeIn(runRules);
    const next = () => sessionLog.runGuarded('deciding', () => decideDuringCall(sessionLog.session, runRules));
    for (let decision = next(); decision; decision = next()) {
      if (decision.do === 'record') await sessionLog.record(decision.events);
      else if (decision.do === 'publish') await publish(decision.message, runRules);
    }
    await sessionLog.sync();
    clearIntakeTrouble();
  }

  async function publish(message: string, runRules: Rules): Promise<void> {
    const reply = getOwn(sessionLog.session.unpublishedReplies, message);
    if (!reply) return;
    if (!isShelvingFirst) await planSync.writePlan();
    await approvalSync.writeFiles();
    await sessionLog.sync();
    await store.outbox.publish(reply.id, formatReplyFile(reply));
    const { [message]: _, ...unpublished } = sessionLog.session.unpublishedReplies;
    const next = decide({ ...sessionLog.session, unpublishedReplies: unpublished }, runRules);
    // What is due later must be known after a restart.
    const idle = next.do === 'rest' && next.due === undefined && !isWaitingForSettings(sessionLog.session);
    await sessionLog.record([{ type: 'reply.published', message, idle }]);
  }

  /** A snapshot is taken where `plan.json` is up to date, so that a save that began from it finds its version. */
  async function takeSnapshot(): Promise<void> {
    await planSync.writePlan();
    await sessionLog
      .saveSnapshot()
      .catch((error) =>
        ports.log('warn', `no snapshot; the record is read further back next time: ${errorText(error)}`),
      );
  }

  async function close(): Promise<void> {
    while (loop.running !== null) await loop.running;
    if (!hasFailed) await inOrder(() => planSync.writePlan()).catch(fail);
    if (!hasFailed) await inOrder(() => recordShutdown(sessionLog)).catch(fail);
    await sessionLog.sync().catch(onFault);
    if (!hasFailed && sessionLog.sinceSnapshot !== 'nothing') await sessionLog.saveSnapshot().catch(() => undefined);
    await store.close();
  }

  const begun = describeOpenWork(sessionLog.session).length > 0;
  await recordRecovery(sessionLog, last);
  isShelvingFirst = sessionLog.session.crashes.count >= CRASH_LIMIT;
  if (begun && !isShelvingFirst) await planSync.readEdits();
  await cleanUpCalls(ports, sessionLog);
  return {
    wake,
    hadUnfinishedWork: begun,
    get isIdle() {
      return loop.running === null && !isWoken && (alarm?.patient ?? true) && sessionLog.session.run === null;
    },
    get dueInMs() {
      return alarm?.patient ? Math.max(0, alarm.at - clock.elapsed()) : null;
    },
    async stop(graceMs, reason = STOP_REASON) {
      isStopping = true;
      stopReason = reason;
      alarm?.off();
      if (isQueued) inFlight?.abort(new Error(stopReason));
      const cancel = clock.after(graceMs, () => inFlight?.abort(new Error(stopReason)));
      closing ??= close();
      await closing.finally(cancel);
    },
  };
}

/** A message is given up here, or its reply is still to be published. */
function isShelving(session: Session, rules: Rules): boolean {
  const { run, runEnd, unpublishedReplies } = session;
  if (deadLetterEvents(session, rules).length > 0 || Object.keys(unpublishedReplies).length > 0) return true;
  return run === null && runEnd?.reason === 'crashes' && mapGet(session.messages, runEnd.message)?.isReplied === false;
}

const endsRun = (decision: Decision): boolean =>
  decision.do === 'record' && decision.events.some((event) => event.type === 'run.rested');
