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

/** How soon the inbox is looked at again while a file in it is not ready. */
const PENDING_RETRY_MS = 100;

type Deadline = ReturnType<typeof trackDeadline>;

/**
 * What the loop of one session works with. The loop is the only activity in the session: nothing else changes what is
 * in here, except that anybody may ring `signal`, and that a stop sets `stopReason`.
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
  /** How long is left of a pause between tries, and of a time that the session waits for. */
  readonly pauses: Deadline;
  readonly deadlines: Deadline;
  readonly isRepeating: ReturnType<typeof createRepeatGuard>;
  /** The rules as they are now, with what this session knows of its model, its notes and its jobs. */
  readRules(): Promise<Rules>;
  /** Ends the call in flight; null where there is none. */
  call: AbortController | null;
  /** Why it is to end; null while it is to go on. */
  stopReason: string | null;
  /** The last intake beside a call failed, and was reported. */
  hasIntakeFailed: boolean;
  /** A message is given up, with its reply, before any file is read: a file may be what the daemons crashed over. */
  isShelvingFirst: boolean;
};

/** Reads the session's record and opens what its loop works with. `rules` is asked anew each time. */
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
  const withNotes = holdNotesPerRun(() => ports.notes?.() ?? NO_NOTES);
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
      const withJobs = ports.jobs ? { ...current, jobs: ports.jobs.listRunning() } : current;
      return applyLearnedWindow(withNotes(session, withJobs), ports.model, session);
    },
    call: null,
    stopReason: null,
    hasIntakeFailed: false,
    isShelvingFirst: false,
  };
}

/** Reports what keeps the session from being heard beside a call in flight. It ends no call. */
export function reportIntakeTrouble(loop: SessionLoop, error: unknown): void {
  loop.hasIntakeFailed = true;
  loop.ports.reportTrouble?.(error);
}

export function clearIntakeTrouble(loop: SessionLoop): void {
  if (loop.hasIntakeFailed) loop.ports.reportTrouble?.(null);
  loop.hasIntakeFailed = false;
}

/** Takes in what came, and sees to it that what is left is looked at again. */
export async function takeIn({ intake, signal, alarm }: SessionLoop, rules: Rules): Promise<void> {
  const { isPending } = await intake.take(rules);
  if (intake.isDue) signal.ring();
  else if (isPending) alarm.wakeIn(PENDING_RETRY_MS);
}

/**
 * Gives rules the notes they are told with: read when a run begins or goes on after a rest, and the same until it rests
 * (a run that goes on does so for a message of its own). They stand at the beginning of each request, and a beginning
 * that changes costs the provider's cache. Held in memory only: a run that is taken up after a restart of the daemon
 * reads them once more.
 */
function holdNotesPerRun(read: () => Notes): (session: Session, rules: Rules) => Rules {
  let held: { run: string; notes: Notes } | null = null;
  return ({ run }, rules) => {
    if (!run) return rules;
    if (held?.run !== run.message) held = { run: run.message, notes: read() };
    return { ...rules, notes: held.notes };
  };
}

/** Rules with the window of the model, where its endpoint has told it and no person has. */
function applyLearnedWindow(rules: Rules, model: Model, { run }: Session): Rules {
  const window = rules.windowIsSet ? undefined : model.contextWindow?.(run?.model);
  return window === undefined ? rules : { ...rules, contextWindow: window };
}
