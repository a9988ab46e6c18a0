import { mapGet } from '../../base/collections.ts';
import { errorText } from '../../base/user-error.ts';
import { decide } from '../../core/decide/decide.ts';
import type { Decision } from '../../core/runs/decision.ts';
import { deadLetterEvents, endStalledRunEvents, isStalled } from '../../core/runs/run-faults.ts';
import type { Session } from '../../core/session/session-state.ts';
import type { EventBody } from '../../protocol/session/event.ts';
import { RUN_END } from '../../protocol/session/run-end.ts';
import type { Rules } from '../../protocol/settings/effective-settings.ts';
import { checkCallsBegunBy } from '../calls/permission-gate.ts';
import { cleanUpCalls } from '../calls/tool-call.ts';
import { sendToChild } from '../intake/child-replies.ts';
import { attachOfferedFiles } from '../state/session-log.ts';
import { performCall } from './call-in-flight.ts';
import { publishReply } from './publish.ts';
import { clearIntakeTrouble, MAX_TIMER_MS, type SessionLoop, takeIn } from './session-loop.ts';

/** How often a run that waits for child sessions checks them, even if it is not woken. */
const CHILDREN_POLL_MS = 30_000;

/** Takes in, decides, acts and records until nothing is left to do, a time is awaited, or the loop is stopped. */
export async function runUntilIdle(loop: SessionLoop): Promise<void> {
  for (;;) {
    // Read each time: what a person has just forbidden applies to the next call.
    const rules = await loop.readRules();
    const decision = await iterate(loop, rules);
    if (loop.sessionLog.sinceSnapshot === 'due') await takeSnapshot(loop);
    if (!loop.intake.isDue) clearIntakeTrouble(loop);
    if (loop.stopReason !== null || decision.do === 'idle') return;
    if (decision.do === 'record' || decision.do === 'publish' || decision.do === 'send') continue;
    if ((await performCall(loop, decision, rules)) === 'wait') return;
    // What could not be read during the call stops the work here if it still cannot be read.
    if (loop.hasIntakeFailed) await loop.readRules();
  }
}

/**
 * One decision, and carrying it out unless it is a call. `areEditsIn`: the last edits of the plan have just been taken
 * in.
 */
async function iterate(loop: SessionLoop, rules: Rules, areEditsIn = false): Promise<Decision> {
  const { sessionLog, intake } = loop;
  loop.isShelvingFirst &&= isShelving(sessionLog.session, rules);
  if (!loop.isShelvingFirst && intake.isWorthwhile) await takeIn(loop, rules);
  const decision = nextDecision(loop, rules);
  // A stop dropped while no daemon was running takes precedence over work that a recovery would resume.
  if ((decision.do === 'think' || decision.do === 'act') && !intake.isCaughtUp && intake.isDue)
    return iterate(loop, rules);
  if (decision.do === 'record') {
    if (!areEditsIn && !loop.isShelvingFirst && endsRun(decision) && (await takeInLastEdits(loop)))
      return iterate(loop, rules, true);
    await recordDecision(loop, decision.events, rules);
  } else if (decision.do === 'publish') await publishReply(loop, decision.message, rules);
  else if (decision.do === 'send') await sendToChild(decision, loop.ports, sessionLog);
  else if (decision.do === 'idle') {
    await bringFilesUpToDate(loop);
    if (intake.isDue) return iterate(loop, rules);
  }
  if (!sessionLog.session.run) loop.runSlot.release();
  return decision;
}

const nextDecision = (loop: SessionLoop, rules: Rules): Decision => {
  const { sessionLog } = loop;
  const decision = sessionLog.runGuarded('deciding', () => decide(sessionLog.session, rules));
  return waitIfNotDue(loop, endIfStalled(loop, decision, rules));
};

async function recordDecision(loop: SessionLoop, decided: EventBody[], rules: Rules): Promise<void> {
  const { ports, sessionLog, approvalSync } = loop;
  const events = await checkCallsBegunBy(decided, ports, sessionLog, rules);
  const withFiles = await attachOfferedFiles(ports.store, sessionLog.session, events);
  await sessionLog.record(await approvalSync.saveAllowRules(withFiles));
  await approvalSync.writeFiles();
}

async function bringFilesUpToDate({ planSync, approvalSync, sessionLog, ports }: SessionLoop): Promise<void> {
  await planSync.writePlan();
  await approvalSync.writeFiles();
  await sessionLog.sync();
  await cleanUpCalls(ports, sessionLog);
}

/** Ends a run that can never continue, and logs it. Child sessions it waits for are polled. */
function endIfStalled(loop: SessionLoop, decision: Decision, rules: Rules): Decision {
  const { session } = loop.sessionLog;
  if (loop.isRepeating(decision)) return endIfRepeating(loop, decision, rules);
  // A child session waits for settings silently; whoever reads the settings wakes it.
  if (decision.do !== 'idle' || !session.run || rules.settingsFault !== null) return decision;
  if (!isStalled(session, decision)) {
    loop.alarm.wakeIn(CHILDREN_POLL_MS);
    return decision;
  }
  loop.ports.log('error', `the run of ${session.run.message} has stalled at event ${session.seq}: it ends as failed`);
  return { do: 'record', events: endStalledRunEvents(session, rules) };
}

/** Does not record a repeated decision once more: the run ends, or the session fails if there is no run. */
function endIfRepeating({ sessionLog: { session }, ports }: SessionLoop, decision: Decision, rules: Rules): Decision {
  const types = decision.do === 'record' ? decision.events.map(({ type }) => type).join(', ') : decision.do;
  const what = `the loop repeats the same decision at event ${session.seq}: ${types}`;
  if (!session.run) throw new Error(what);
  ports.log('error', `${what}: the run of ${session.run.message} ends as failed`);
  return { do: 'record', events: endStalledRunEvents(session, rules) };
}

/** Sets the alarm for a decision that is not due yet; logs what was waited for once its time has come. */
function waitIfNotDue({ pauses, deadlines, alarm, sessionLog }: SessionLoop, decision: Decision): Decision {
  if (decision.do === 'send') {
    const wait = pauses.left(decision.notBefore);
    if (wait > 0) alarm.wakeIn(wait);
    return wait > 0 ? { do: 'idle' } : decision;
  }
  if (decision.do !== 'idle' || !decision.due) return decision;
  const wait = deadlines.left(decision.due.at);
  if (wait <= 0) return { do: 'record', events: decision.due.events };
  // Timers cannot be set many days ahead: this one is set again when it fires.
  alarm.wakeIn(Math.min(wait, MAX_TIMER_MS), sessionLog.session.run === null);
  return decision;
}

/** Saves made until now belong to this run, and their faults into its reply. */
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
function isShelving(session: Session, rules: Rules): boolean {
  const { run, runEnd, unpublishedReplies } = session;
  if (deadLetterEvents(session, rules).length > 0 || Object.keys(unpublishedReplies).length > 0) return true;
  return (
    run === null && runEnd?.reason === RUN_END.crashes && mapGet(session.messages, runEnd.message)?.isReplied === false
  );
}

const endsRun = (decision: Decision): boolean =>
  decision.do === 'record' && decision.events.some((event) => event.type === 'run.ended');
