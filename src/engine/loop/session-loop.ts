import { modelForCall } from '../../core/session/session-queries.ts';
import type { Session } from '../../core/session/session-state.ts';
import type { EventBody } from '../../protocol/session/event.ts';
import type { Rules } from '../../protocol/settings/effective-settings.ts';
import { NO_NOTES, type Notes } from '../../protocol/workspace/memory-notes.ts';
import { type ApprovalSync, type Intake, openApprovalSync, openIntake } from '../intake/intake.ts';
import type { LogSubject, Model, SessionPorts } from '../ports/session-ports.ts';
import { openPlanSync, type PlanSync } from '../state/plan-sync.ts';
import { openSessionLog, type SessionLog } from '../state/session-log.ts';
import {
  type Alarm,
  type Countdown,
  createAlarm,
  createRepeatGuard,
  createRunSlot,
  createWakeSignal,
  MAX_TIMER_MS,
  type RunSlot,
  trackDeadline,
  type WakeSignal,
} from './waits.ts';

/** How soon the inbox is checked again while a file in it is not ready. */
const PENDING_RETRY_MS = 100;

/**
 * The state and tools of one session's loop. The loop is the only activity in the session: nothing else changes it,
 * except that anyone may ring `signal`, and that a stop sets `stopReason`.
 */
export type SessionLoop = {
  readonly ports: SessionPorts;
  readonly sessionLog: SessionLog;
  readonly planSync: PlanSync;
  readonly approvalSync: ApprovalSync;
  readonly intake: Intake;
  readonly signal: WakeSignal;
  readonly alarm: Alarm;
  readonly runSlot: RunSlot;
  /** Time left of a pause between retries, and until a deadline of the session. */
  readonly pauses: Countdown;
  readonly deadlines: Countdown;
  readonly isRepeating: ReturnType<typeof createRepeatGuard>;
  /** The current rules, with what this session knows of its model, its notes and its jobs. */
  readRules(): Promise<Rules>;
  /** Ends the call in flight; null if there is none. */
  call: AbortController | null;
  /** Ends the checkpoint that is being taken, or restored; null if there is none. */
  checkpoint: AbortController | null;
  /** The model is being asked what a message means, beside the call in flight. `event`: what came of it. */
  interpreting: { message: string; control: AbortController; event: EventBody | null; flight: Promise<void> } | null;
  /** What the last decision asked to look for; forgotten once another was carried out. */
  filesThere: ReadonlyMap<string, boolean> | null;
  /** Why the loop is to end; null while it is to continue. */
  stopReason: string | null;
  /** The last intake during a call failed, and was reported. */
  hasIntakeFailed: boolean;
  /**
   * A message becomes a dead letter, with its reply, before any file is read: a file may be what crashed the daemons.
   */
  isShelvingFirst: boolean;
};

/** Reads the session's event log and opens what its loop works with. `rules` is called each time they are needed. */
export async function openSessionLoop(given: SessionPorts, rules: () => Promise<Rules>): Promise<SessionLoop> {
  const { store, clock } = given;
  const { name, eventLog, snapshots } = store;
  const { createNonce, runGuarded, hooks } = given;
  const sessionLog = await openSessionLog(name, eventLog, snapshots, createNonce, runGuarded, hooks?.checkOwner);
  const ports: SessionPorts = {
    ...given,
    log: (level, text) => given.log(level, text, subjectOf(sessionLog.session)),
  };
  const signal = createWakeSignal();
  const planSync = openPlanSync(store.plan, sessionLog, clock, signal.ring);
  const approvalSync = openApprovalSync(ports, sessionLog);
  const intake = openIntake(ports, sessionLog, planSync, approvalSync);
  const wake = (): void => {
    intake.request();
    signal.ring();
  };
  const withNotes = cacheNotesPerRun(() => ports.notes?.() ?? NO_NOTES);
  const loop: SessionLoop = {
    ...{ ports, sessionLog, planSync, approvalSync, intake, signal },
    alarm: createAlarm(clock, wake),
    runSlot: createRunSlot(ports.runSemaphore),
    pauses: trackDeadline(clock, MAX_TIMER_MS),
    deadlines: trackDeadline(clock, Number.POSITIVE_INFINITY),
    isRepeating: createRepeatGuard(),
    async readRules() {
      const current = await rules();
      const { session } = sessionLog;
      const { jobs, browser, checkpoints } = ports;
      const now = {
        ...current,
        ...(jobs && { jobs: jobs.listRunning() }),
        ...(browser && { browser: browser.state }),
        ...(checkpoints && { checkpoints: checkpoints.isOn }),
        ...(loop.filesThere && { filesThere: loop.filesThere }),
      };
      return applyLearnedWindow(withNotes(session, now), ports.model, session);
    },
    call: null,
    checkpoint: null,
    interpreting: null,
    filesThere: null,
    stopReason: null,
    hasIntakeFailed: false,
    isShelvingFirst: false,
  };
  return loop;
}

const subjectOf = ({ run, plan }: Session): LogSubject => ({
  run: run?.message,
  step: run ? plan?.steps[plan.current_step_index]?.id : undefined,
});

/** Gives the browser to the person who holds it in the log, or takes it back. */
export function handOverBrowser({ sessionLog: { session }, ports }: SessionLoop): void {
  if (session.browserHold) ports.browser?.give();
  else ports.browser?.takeBack();
}

/** Reports what prevents intake during a call in flight. It does not end the call. */
export function reportIntakeTrouble(loop: SessionLoop, error: unknown): void {
  loop.hasIntakeFailed = true;
  loop.ports.reportTrouble?.(error);
}

export function clearIntakeTrouble(loop: SessionLoop): void {
  if (loop.hasIntakeFailed) loop.ports.reportTrouble?.(null);
  loop.hasIntakeFailed = false;
}

/** Takes in what has arrived, and schedules another check for the rest. Rules for it are read afterwards. */
export async function takeIn({ intake, signal, alarm, readRules }: SessionLoop): Promise<void> {
  const { isPending } = await intake.take(readRules);
  if (intake.isDue) signal.ring();
  else if (isPending) alarm.wakeIn(PENDING_RETRY_MS);
}

/**
 * Adds notes to the rules: read when a run starts or resumes, and unchanged until it ends (a run resumes for a message
 * of its own). They stand at the beginning of each request, and a changed beginning costs the provider's cache. Kept in
 * memory only: a run continued after a restart of the daemon reads them again.
 */
function cacheNotesPerRun(read: () => Notes): (session: Session, rules: Rules) => Rules {
  let cached: { run: string; notes: Notes } | null = null;
  return ({ run }, rules) => {
    if (!run) return rules;
    if (cached?.run !== run.message) cached = { run: run.message, notes: read() };
    return { ...rules, notes: cached.notes };
  };
}

/** Rules with the window of the model in use: the one that a person set for it, else what its endpoint has reported. */
function applyLearnedWindow(rules: Rules, model: Model, session: Session): Rules {
  const window = model.contextWindow?.(modelForCall(session, rules, undefined));
  return window === undefined ? rules : { ...rules, contextWindow: window };
}
