import { getOwn, mapGet } from '../../base/collections.ts';
import { errorText, isDiskFull } from '../../base/user-error.ts';
import { decide, decideDuringCall } from '../../core/decide/decide.ts';
import { waitsForBrowser } from '../../core/decide/human-in-the-loop.ts';
import { messageToInterpret, shouldAbortCall } from '../../core/messages/message-actions.ts';
import { formatReplyFile } from '../../core/messages/replies.ts';
import type { Decision } from '../../core/runs/decision.ts';
import { isWaitingForSettings } from '../../core/session/session-queries.ts';
import type { EventBody } from '../../protocol/session/event.ts';
import type { Rules } from '../../protocol/settings/effective-settings.ts';
import { askMessageMeaning, callModel } from '../calls/model-call.ts';
import { checkCall, listOfferedTools, toolNames } from '../calls/permission-gate.ts';
import { runToolCall } from '../calls/tool-call.ts';
import { recordChildReplies } from '../intake/intake.ts';
import type { SessionPorts } from '../ports/session-ports.ts';
import type { SessionLog } from '../state/session-log.ts';
import { interruptedCalls } from './recovery.ts';
import { clearIntakeTrouble, handOverBrowser, reportIntakeTrouble, type SessionLoop, takeIn } from './session-loop.ts';

/** How soon a call that waits for disk space is retried. */
const DISK_RETRY_MS = 1000;

/** A run that waits for longer than this gives its slot to others. */
const FREE_SLOT_MS = 5000;

export type CallDecision = Decision & { do: 'think' | 'act' | 'interpret' };

/**
 * Calls the model or a tool and logs its end. During the call the loop keeps taking in messages and answers what it
 * can, and a stop ends the call. `wait`: the call may not start yet, and the alarm is set.
 */
export async function performCall(loop: SessionLoop, decision: CallDecision, rules: Rules): Promise<'done' | 'wait'> {
  const { sessionLog } = loop;
  const wait = waitBeforeCall(loop, decision);
  if (wait > 0) {
    await loop.planSync.writePlan();
    // Others may work meanwhile.
    if (wait > FREE_SLOT_MS) loop.runSlot.release();
    loop.alarm.wakeIn(wait);
    return 'wait';
  }
  if (shouldAbortCall(sessionLog.session)) return 'done';
  const control = new AbortController();
  loop.call = control;
  try {
    await listenDuring(loop, loop.runSlot.acquire(Date.parse(waitingSince(loop)), control.signal));
    loop.planSync.scheduleWrite();
    const events = await beginCall(loop, decision, rules, control);
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

/** Begins the call and waits for its end. */
function beginCall(loop: SessionLoop, decision: CallDecision, rules: Rules, control: AbortController) {
  const { ports, sessionLog } = loop;
  switch (decision.do) {
    case 'think':
      return listenDuring(loop, callModel(decision, ports, sessionLog, rules, control.signal));
    case 'act':
      return beginToolCall(loop, decision, rules, control.signal);
    case 'interpret':
      return interpretMessage(loop, decision.message, rules, control);
    default:
      return decision satisfies never;
  }
}

/** Waits until the model has said what a message means; it may have been asked beside the last call. */
async function interpretMessage(loop: SessionLoop, message: string, rules: Rules, control: AbortController) {
  await loop.sessionLog.sync();
  if (loop.interpreting?.message !== message) beginInterpreting(loop, message, rules);
  const { interpreting } = loop;
  if (!interpreting) return [];
  const end = () => interpreting.control.abort(control.signal.reason);
  control.signal.addEventListener('abort', end);
  await listenDuring(loop, interpreting.flight).finally(() => control.signal.removeEventListener('abort', end));
  return takeInterpretation(loop);
}

/** Asks the model what a message means. The loop records what it said: nothing else changes the session. */
function beginInterpreting(loop: SessionLoop, message: string, rules: Rules): void {
  const { ports, sessionLog } = loop;
  const control = new AbortController();
  const asked = askMessageMeaning(message, ports, sessionLog, rules, control.signal);
  const flight = asked.then(
    (event) => {
      if (loop.interpreting?.message === message) loop.interpreting.event = event;
    },
    (error) => {
      if (loop.interpreting?.message === message) loop.interpreting = null;
      if (!control.signal.aborted) throw error;
    },
  );
  // A failure is thrown where the loop waits for it; beside another call it is asked again.
  flight.then(loop.signal.ring, loop.signal.ring);
  loop.interpreting = { message, control, event: null, flight };
}

function takeInterpretation(loop: SessionLoop): EventBody[] {
  const event = loop.interpreting?.event;
  if (!event) return [];
  loop.interpreting = null;
  return [event];
}

function waitBeforeCall({ ports, pauses }: SessionLoop, decision: CallDecision): number {
  if (ports.diskCapacity() === 'full') return DISK_RETRY_MS;
  return pauses.left(decision.do === 'think' ? decision.notBefore : null);
}

/** The run that has waited longest gets the next slot. */
const waitingSince = ({ sessionLog: { session } }: SessionLoop): string =>
  mapGet(session.messages, session.run?.message ?? '')?.at ?? session.at;

/** Checks the call, logs its start, and runs it. */
async function beginToolCall(
  loop: SessionLoop,
  decision: CallDecision & { do: 'act' },
  rules: Rules,
  signal: AbortSignal,
): Promise<EventBody[]> {
  const { ports, sessionLog } = loop;
  const { key, name, args, state } = decision.call;
  // A call already logged as started is checked again: the rules may have changed since.
  const stops = await listenDuring(loop, checkCall(decision.call, ports, sessionLog, rules, signal));
  if (state === 'asked') {
    if (stops.length > 0) return stops;
    // A person may have taken the browser over while the call was checked.
    if (waitsForBrowser(sessionLog.session, decision.call)) return [];
    const replay = ports.tools.replayPolicy(name);
    await sessionLog.record([{ type: 'tool.started', call: key, name, args, replay }]);
  }
  const offered = toolNames(listOfferedTools(sessionLog.session, ports, rules));
  const how = { mayBegin: stops.length === 0, offered };
  return listenDuring(loop, runToolCall(decision, ports, sessionLog, signal, how));
}

/** Waits for the pending work, and takes in whatever the signal announces in the meantime. */
export async function listenDuring<T>(loop: SessionLoop, flight: Promise<T>): Promise<T> {
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
    const interpreted = loop.call?.signal.aborted ? [] : takeInterpretation(loop);
    if (interpreted.length > 0) await loop.sessionLog.record(interpreted);
    if (loop.intake.isDue || interpreted.length > 0) await answerDuringCall(loop);
  } finally {
    // A stop is handled whatever else cannot be read.
    if (shouldAbortCall(loop.sessionLog.session)) loop.call?.abort(new Error('stopped by a person'));
  }
  await writePlanIfDue(loop);
}

/** A `plan.json` that cannot be written now is written later, and delays nothing else. */
async function writePlanIfDue({ planSync, ports }: SessionLoop): Promise<void> {
  await planSync
    .writePlanIfDue()
    .catch((error) => ports.log('warn', `plan.json could not be updated: ${errorText(error)}`));
}

/** Takes in what is ready and answers what can be answered during a call. */
async function answerDuringCall(loop: SessionLoop): Promise<void> {
  const { sessionLog } = loop;
  await takeIn(loop);
  const rules = await loop.readRules();
  const next = () => sessionLog.runGuarded('deciding', () => decideDuringCall(sessionLog.session, rules));
  for (let decision = next(); decision; decision = next()) {
    if (decision.do === 'record') {
      await sessionLog.record(decision.events);
      handOverBrowser(loop);
    } else if (decision.do === 'publish') await publishReply(loop, decision.message, rules);
  }
  await sessionLog.sync();
  const doubtful = messageToInterpret(sessionLog.session);
  if (doubtful && !loop.interpreting) beginInterpreting(loop, doubtful.id, rules);
  clearIntakeTrouble(loop);
}

/** Logs the end of a call. If there is no room even for that, it waits: the call cannot be repeated. */
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

/**
 * Puts the reply to `message` into the outbox. Everything it refers to is on disk first: the log, the plan, the
 * approvals.
 */
export async function publishReply(loop: SessionLoop, message: string, rules: Rules): Promise<void> {
  const { ports, sessionLog } = loop;
  const reply = getOwn(sessionLog.session.unpublishedReplies, message);
  if (!reply) return;
  if (!loop.isShelvingFirst) await loop.planSync.writePlan();
  await loop.approvalSync.writeFiles();
  await sessionLog.sync();
  await ports.store.outbox.publish(reply.id, formatReplyFile(reply));
  ports.hooks?.onReply();
  const idle = willBeIdle(loop, message, rules);
  const planBehind = loop.planSync.isBehind() && { plan_behind: true as const };
  await sessionLog.record([{ type: 'reply.published', message, idle, ...planBehind }]);
}

/** Whether nothing is left to do once that reply is published. What is due later must survive a restart. */
function willBeIdle({ sessionLog: { session } }: SessionLoop, message: string, rules: Rules): boolean {
  const { [message]: _, ...unpublishedReplies } = session.unpublishedReplies;
  const next = decide({ ...session, unpublishedReplies }, rules);
  const isFree = session.browserHold === null && !isWaitingForSettings(session);
  return next.do === 'idle' && next.due === undefined && isFree;
}

/**
 * Sends a child session its message. The effect comes before the event: the id is made of the step and the attempt, so
 * after a crash in between the same message is sent again, which changes nothing.
 */
export async function sendToChild(
  decision: Decision & { do: 'send' },
  ports: SessionPorts,
  sessionLog: SessionLog,
): Promise<void> {
  const { step, child, attempt, message } = decision;
  await sessionLog.sync();
  const sent = await ports.children.send(child, message);
  const { id, command, options: { folder, limits } = {} } = message;
  await sessionLog.record([
    {
      type: 'child.sent',
      step,
      child,
      attempt,
      message: id,
      ...(command !== undefined && { command }),
      ...(folder !== undefined && { folder }),
      ...(limits && { limits }),
    },
  ]);
  if (sent === 'gone') await recordChildReplies(ports, sessionLog);
}
