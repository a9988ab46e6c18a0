import type { Session } from '../../core/session/session-state.ts';
import type { Rules } from '../../protocol/settings/effective-settings.ts';
import { NO_NOTES, type Notes } from '../../protocol/workspace/memory-notes.ts';
import { type Intake, openIntake } from '../intake/intake.ts';
import type { Model } from '../ports/model-port.ts';
import type { SessionPorts } from '../ports/session-ports.ts';
import { type ApprovalSync, openApprovalSync } from '../state/approval-sync.ts';
import { openPlanSync, type PlanSync } from '../state/plan-sync.ts';
import { openSessionLog, type SessionLog } from '../state/session-log.ts';
import {
  type Alarm,
  createAlarm,
  createRepeatGuard,
  createRunSlot,
  createWakeSignal,
  type RunSlot,
  trackDeadline,
  type WakeSignal,
} from './scheduler.ts';

/** No pause is longer than the longest an endpoint may ask for. */
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
export async function openSessionLoop(ports: SessionPorts, rules: () => Promise<Rules>): Promise<SessionLoop> {
  const { store, clock } = ports;
  const { name, eventLog, snapshots } = store;
  const sessionLog = await openSessionLog(name, eventLog, snapshots, ports.createNonce, ports.runGuarded);
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
      const { jobs, browser, terminal } = ports;
      const now = {
        ...current,
        ...(jobs && { jobs: jobs.listRunning() }),
        ...(browser && { browser: browser.state }),
        ...(terminal && { terminal: terminal.state }),
      };
      return applyLearnedWindow(withNotes(session, now), ports.model, session);
    },
    call: null,
    stopReason: null,
    hasIntakeFailed: false,
    isShelvingFirst: false,
  };
}

/** Whoever has the browser or the terminal by the log has it in fact. */
export function giveToHolders({ sessionLog: { session }, ports }: SessionLoop): void {
  if (session.browserHold) ports.browser?.give();
  else ports.browser?.takeBack();
  if (session.terminal) ports.terminal?.give();
  else ports.terminal?.takeBack();
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

/** Takes in what has arrived, and schedules another check for the rest. */
export async function takeIn({ intake, signal, alarm }: SessionLoop, rules: Rules): Promise<void> {
  const { isPending } = await intake.take(rules);
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

/** Rules with the model's window, if its endpoint has reported one and no person has set one. */
function applyLearnedWindow(rules: Rules, model: Model, { run }: Session): Rules {
  const window = rules.windowIsSet ? undefined : model.contextWindow?.(run?.model);
  return window === undefined ? rules : { ...rules, contextWindow: window };
}
