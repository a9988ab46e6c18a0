import { mapGet } from '../../base/persistent-collections.ts';
import { errorText, isDiskFull } from '../../base/user-error.ts';
import { decideDuringCall } from '../../core/decide/decide.ts';
import { shouldAbortCall } from '../../core/messages/message-actions.ts';
import type { Decision } from '../../core/runs/decision.ts';
import type { EventBody } from '../../protocol/session/event.ts';
import type { Rules } from '../../protocol/settings/effective-settings.ts';
import { callModel } from '../calls/model-call.ts';
import { checkCall } from '../calls/permission-gate.ts';
import { runToolCall } from '../calls/tool-call.ts';
import { publishReply } from './publish.ts';
import { interruptedCalls } from './recovery.ts';
import { clearIntakeTrouble, reportIntakeTrouble, type SessionLoop, takeIn } from './session-loop.ts';

/** How soon a call that waits for room on the disk is tried again. */
const DISK_RETRY_MS = 1000;

type CallDecision = Decision & { do: 'think' | 'act' };

/**
 * Calls the model or a tool and puts its end on record. While the call is in flight the loop listens: messages are
 * taken in, what can be answered is answered, and a stop ends the call. `wait`: it may not begin yet, and the alarm is
 * set.
 */
export async function performCall(loop: SessionLoop, decision: CallDecision, rules: Rules): Promise<'done' | 'wait'> {
  const { ports, sessionLog } = loop;
  const wait = waitBeforeCall(loop, decision);
  if (wait > 0) {
    await loop.planSync.writePlan();
    loop.alarm.wakeIn(wait);
    return 'wait';
  }
  if (shouldAbortCall(sessionLog.session)) return 'done';
  const control = new AbortController();
  loop.call = control;
  try {
    await listenDuring(loop, loop.runSlot.acquire(Date.parse(waitingSince(loop)), control.signal));
    loop.planSync.scheduleWrite();
    const events =
      decision.do === 'think'
        ? await listenDuring(loop, callModel(decision, ports, sessionLog, rules, control.signal))
        : await beginToolCall(loop, decision, rules, control.signal);
    const isCut = loop.stopReason !== null && events.length === 0;
    await recordCallEnd(loop, isCut ? interruptedCalls(sessionLog.session, loop.stopReason ?? '') : events);
  } catch (error) {
    if (!control.signal.aborted) throw error;
  } finally {
    loop.call = null;
    loop.intake.request();
  }
  return 'done';
}

function waitBeforeCall({ ports, pauses }: SessionLoop, decision: CallDecision): number {
  if (ports.diskCapacity() === 'none') return DISK_RETRY_MS;
  return pauses.left(decision.do === 'think' ? decision.notBefore : null);
}

/** Whoever has waited longest gets the next place among the runs. */
const waitingSince = ({ sessionLog: { session } }: SessionLoop): string =>
  mapGet(session.messages, session.run?.message ?? '')?.at ?? session.at;

/** Checks the call, puts its beginning on record, and runs it. */
async function beginToolCall(
  loop: SessionLoop,
  decision: CallDecision & { do: 'act' },
  rules: Rules,
  signal: AbortSignal,
): Promise<EventBody[]> {
  const { ports, sessionLog } = loop;
  const { key, name, args, state } = decision.call;
  // What is on record as begun is judged anew: the rules may have changed since.
  const stops = await listenDuring(loop, checkCall(decision.call, ports, sessionLog, rules, signal));
  if (state === 'asked') {
    if (stops.length > 0) return stops;
    const replay = ports.tools.replayPolicy(name);
    await sessionLog.record([{ type: 'tool.started', call: key, name, args, replay }]);
  }
  return listenDuring(loop, runToolCall(decision, ports, sessionLog, signal, stops.length === 0));
}

/** Waits for what is in flight, and takes in meanwhile whatever the signal tells of. */
async function listenDuring<T>(loop: SessionLoop, flight: Promise<T>): Promise<T> {
  let isOver = false;
  const land = (): void => {
    isOver = true;
    loop.signal.ring();
  };
  void flight.then(land, land);
  while (!isOver) {
    await loop.signal.next();
    if (!isOver && loop.stopReason === null)
      await takeInDuringCall(loop).catch((error) => reportIntakeTrouble(loop, error));
  }
  return flight;
}

async function takeInDuringCall(loop: SessionLoop): Promise<void> {
  try {
    if (loop.intake.isDue) await answerDuringCall(loop);
  } finally {
    // A stop that came in is heard whatever else cannot be read.
    if (shouldAbortCall(loop.sessionLog.session)) loop.call?.abort(new Error('stopped by a person'));
  }
  await writePlanIfDue(loop);
}

/** A `plan.json` that cannot be written now lags behind, and holds up nothing. */
async function writePlanIfDue({ planSync, ports }: SessionLoop): Promise<void> {
  await planSync.writePlanIfDue().catch((error) => ports.log('warn', `plan.json lags behind: ${errorText(error)}`));
}

/** Takes in what is ready and answers what can be answered beside a call. */
async function answerDuringCall(loop: SessionLoop): Promise<void> {
  const { sessionLog } = loop;
  const rules = await loop.readRules();
  await takeIn(loop, rules);
  const next = () => sessionLog.runGuarded('deciding', () => decideDuringCall(sessionLog.session, rules));
  for (let decision = next(); decision; decision = next()) {
    if (decision.do === 'record') await sessionLog.record(decision.events);
    else if (decision.do === 'publish') await publishReply(loop, decision.message, rules);
  }
  await sessionLog.sync();
  clearIntakeTrouble(loop);
}

/**
 * Puts the end of a call on record. Where there is no room even for that, it waits: the call cannot be made again.
 */
async function recordCallEnd(loop: SessionLoop, events: EventBody[]): Promise<void> {
  for (;;) {
    try {
      await loop.sessionLog.record(events);
      return;
    } catch (error) {
      if (!isDiskFull(error) || loop.stopReason !== null) throw error;
      reportIntakeTrouble(loop, error);
      await listenDuring(loop, new Promise<void>((done) => loop.ports.clock.after(DISK_RETRY_MS, done)));
    }
  }
}
