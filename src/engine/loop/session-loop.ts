import type { Decision } from '../../core/runs/decision.ts';
import { modelForCall } from '../../core/session/session-queries.ts';
import type { Session } from '../../core/session/session-state.ts';
import type { EventBody } from '../../protocol/session/event.ts';
import type { Rules } from '../../protocol/settings/effective-settings.ts';
import { NO_NOTES, type Notes } from '../../protocol/workspace/memory-notes.ts';
import { type ApprovalSync, type Intake, openApprovalSync, openIntake } from '../intake/intake.ts';
import type { Clock, LogSubject, Model, RunSemaphore, SessionPorts } from '../ports/session-ports.ts';
import { openPlanSync, type PlanSync } from '../state/plan-sync.ts';
import { openSessionLog, type SessionLog } from '../state/session-log.ts';

/** What is waited for longer is looked at again this often: a limit may be lifted, or a budget raised. */
export const MAX_TIMER_MS = 3_600_000;

/** How soon the inbox is checked again while a file in it is not ready. */
const PENDING_RETRY_MS = 100;

type Deadline = ReturnType<typeof trackDeadline>;

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
  readonly pauses: Deadline;
  readonly deadlines: Deadline;
  readonly isRepeating: ReturnType<typeof createRepeatGuard>;
  /** The current rules, with what this session knows of its model, its notes and its jobs. */
  readRules(): Promise<Rules>;
  /** Ends the call in flight; null if there is none. */
  call: AbortController | null;
  /** Ends the checkpoint that is being taken, or restored; null if there is none. */
  checkpoint: AbortController | null;
  /** The model is being asked what a message means, beside the call in flight. `event`: what came of it. */
  interpreting: { message: string; control: AbortController; event: EventBody | null; flight: Promise<void> } | null;
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
  const sessionLog = await openSessionLog(name, eventLog, snapshots, given.createNonce, given.runGuarded);
  const ports: SessionPorts = {
    ...given,
    log: (level, text) => given.log(level, text, subjectOf(sessionLog.session)),
  };
  const signal = createWakeSignal();
  const planSync = openPlanSync(store.plan, sessionLog, clock, signal.ring);
  const approvalSync = openApprovalSync(store.approvals, sessionLog, (text) => ports.log('warn', text));
  const intake = openIntake(ports, sessionLog, planSync, approvalSync);
  const wake = (): void => {
    intake.request();
    signal.ring();
  };
  const withNotes = cacheNotesPerRun(() => ports.notes?.() ?? NO_NOTES);
  return {
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
      };
      return applyLearnedWindow(withNotes(session, now), ports.model, session);
    },
    call: null,
    checkpoint: null,
    interpreting: null,
    stopReason: null,
    hasIntakeFailed: false,
    isShelvingFirst: false,
  };
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

/**
 * Takes in what has arrived, and schedules another check for the rest. Returns the rules for what was taken in:
 * settings that were saved before a message apply to it.
 */
export async function takeIn(
  { intake, signal, alarm, sessionLog, readRules }: SessionLoop,
  rules: Rules,
): Promise<Rules> {
  const before = sessionLog.session.seq;
  const { isPending } = await intake.take(rules, readRules);
  if (intake.isDue) signal.ring();
  else if (isPending) alarm.wakeIn(PENDING_RETRY_MS);
  return sessionLog.session.seq === before ? rules : readRules();
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

/** Rung by anyone who wants the loop to check for work; one check answers all rings before it. */
type WakeSignal = {
  /** Costs nothing, is never lost, and runs nothing before it returns. */
  ring(): void;
  /** Resolves at once if rung since the last call. One waiter at a time. */
  next(): Promise<void>;
};

function createWakeSignal(): WakeSignal {
  let isRung = false;
  let release = () => {};
  return {
    ring() {
      isRung = true;
      release();
    },
    async next() {
      if (!isRung) await new Promise<void>((done) => (release = done));
      isRung = false;
    },
  };
}

/** One timer, set to the earliest of the requested times. */
type Alarm = {
  /** `canSleep`: the daemon may close the session and keep the time itself. */
  wakeIn(ms: number, canSleep?: boolean): void;
  /** Nothing is due for which the session would have to stay open. */
  readonly canSleep: boolean;
  /** Milliseconds until it fires, if somebody else may keep the time; else null. */
  readonly dueInMs: number | null;
  cancel(): void;
};

function createAlarm(clock: Clock, ring: () => void): Alarm {
  let set: { at: number; cancel: () => void; canSleep: boolean } | null = null;
  return {
    wakeIn(ms, canSleep = false) {
      const at = clock.elapsed() + ms;
      if (set) set.canSleep &&= canSleep;
      // A retry must not postpone a file that is about to be ready.
      if (set && set.at <= at) return;
      const both = canSleep && (set?.canSleep ?? true);
      set?.cancel();
      const cancel = clock.after(ms, () => {
        set = null;
        ring();
      });
      set = { at, cancel, canSleep: both };
    },
    get canSleep() {
      return set?.canSleep ?? true;
    },
    get dueInMs() {
      return set?.canSleep ? Math.max(0, set.at - clock.elapsed()) : null;
    },
    cancel: () => set?.cancel(),
  };
}

/** The session's slot among the active runs: acquired before its first call, released when it is idle. */
type RunSlot = {
  acquire(since: number, signal: AbortSignal): Promise<void>;
  release(): void;
  /** It waits for a slot; no call has started. */
  readonly isQueued: boolean;
};

function createRunSlot(semaphore: RunSemaphore): RunSlot {
  let release: (() => void) | null = null;
  let isQueued = false;
  return {
    async acquire(since, signal) {
      if (release) return;
      isQueued = true;
      try {
        release = await semaphore.acquire(since, signal);
      } finally {
        isQueued = false;
      }
    },
    release() {
      release?.();
      release = null;
    },
    get isQueued() {
      return isQueued;
    },
  };
}

/**
 * Time left until a deadline, in ms, and at most `longest`: a clock that was set back while the daemon was down cannot
 * make it more. The log has the deadline as a time of day, which may jump, so it is compared once, when the pause is
 * first seen, and from then on the monotonic clock counts. `later`: further deadlines that are seen now.
 */
function trackDeadline(
  clock: Clock,
  longest: number,
): { left(until: string | null, later?: readonly string[]): number } {
  let met = new Map<string, number>();
  const dueAt = (until: string): number => {
    const pause = Date.parse(until) - clock.now().getTime();
    return met.get(until) ?? clock.elapsed() + Math.min(Math.max(0, pause), longest);
  };
  return {
    left(until, later = []) {
      if (until === null) return 0;
      met = new Map([until, ...later].map((one) => [one, dueAt(one)]));
      return (met.get(until) ?? 0) - clock.elapsed();
    },
  };
}

/**
 * Every event removes the reason for it, so the same events are never decided twice in a row; after this many times
 * nothing will change. A decision may be made more than once without being carried out.
 */
const MAX_REPEATS = 10;

/**
 * Detects that the same events are decided over and over: a bug that would fill the log until the disk is full.
 * Receives every decision of a session in order; returns whether this one repeats endlessly.
 */
function createRepeatGuard(): (decision: Decision) => boolean {
  let last: readonly EventBody[] = [];
  let times = 0;
  return (decision) => {
    const events = decision.do === 'record' ? decision.events : [];
    times = isSameEvents(events, last) ? times + 1 : 1;
    last = events;
    return events.length > 0 && times >= MAX_REPEATS;
  };
}

/** Types first: whole events are compared only if these match, which is rare. */
function isSameEvents(events: readonly EventBody[], others: readonly EventBody[]): boolean {
  const sameTypes = events.length === others.length && events.every(({ type }, at) => type === others[at]?.type);
  return sameTypes && JSON.stringify(events) === JSON.stringify(others);
}
