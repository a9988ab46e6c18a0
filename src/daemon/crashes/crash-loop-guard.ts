import { getOwn } from '../../base/collections.ts';
import { formatUtcTime } from '../../base/strings.ts';
import { errorText } from '../../base/user-error.ts';
import type { PreviousFailure } from '../../engine/loop/recovery.ts';
import type { Clock, SessionPorts } from '../../engine/ports/session-ports.ts';
import type { CrashRecord } from '../../protocol/workspace/daemon-files.ts';
import { rootSessionOf } from '../../protocol/workspace/session-names.ts';
import type { BlameResult } from './crash-notes.ts';
import type { UnservedSession } from './failing-sessions.ts';

/** After evidence of this many lost daemons in a row, a session without a message to give up is not opened at once. */
const MAX_CRASHES = 3;
/** The step in which a session's settings are read: before it is opened, so that no message could be given up first. */
export const READING_SETTINGS = 'reading session.json';
const HOLD_FIRST_MS = 60_000;
const HOLD_MAX_MS = 24 * 3_600_000;
/** From this many consecutive crashes without a note on, the daemon opens sessions one at a time. */
const CRASH_LOOP_LENGTH = 2;
const SLOW_START = 'Sessions are opened one at a time';
/** How often it is checked whether all sessions with work are known; the first one is opened after `GAP_MS` anyway. */
const CHECK_MS = 50;
/**
 * Upper limit of the delay before the next session is opened; shorter if the queue would otherwise take over a minute.
 */
const GAP_MS = 2000;
const ALL_OPENED_MS = 60_000;
/** A daemon that has run this long breaks the series of crashes. */
const STABLE_AFTER_MS = 10 * 60_000;

/** The sessions waiting to be opened, as the guard sees them. */
export type OpeningQueue = {
  waiting(): Iterable<string>;
  /** Every session with work to do is waiting or open by now. */
  isComplete(): boolean;
  openWaiting(): void;
};

/** Decides which sessions may be opened after daemons were lost. */
export type CrashLoopGuard = {
  start(queue: OpeningQueue): void;
  mayOpen(name: string): boolean;
  /** How the last daemon ended for this session; consumed by the first call when it is opened. */
  takePreviousFailure(name: string): PreviousFailure | undefined;
  /** The session became idle: its crash count is reset. */
  onIdle(name: string): void;
  onClose(name: string): void;
  /** Delays a session that was blamed and has no work on record that could be given up. */
  suspendIfBlamed(name: string, hasOpenWork: boolean): boolean;
  listSuspended(): UnservedSession[];
  stop(): void;
};

type CrashLoopOptions = {
  assessed: BlameResult;
  /** Saves the crashes for the next daemon. */
  write: (crashes: CrashRecord) => Promise<void>;
  /** When the session's event log was last written, in ms; 0 if there is none. */
  lastWritten: (name: string) => number;
  clock: Clock;
  log: SessionPorts['log'];
};

/**
 * After unexplained crashes the daemon opens sessions one at a time: one at once, a different one after each crash, so
 * that every session gets its turn even if no daemon lives for long. The others follow slowly, the one whose event log
 * was written last at the end: if it is the one that exhausts memory, the others were served before. Nobody is blamed.
 */
export function openCrashLoopGuard({ assessed, write, lastWritten, clock, log }: CrashLoopOptions): CrashLoopGuard {
  const { blamed } = assessed;
  const crashes = recordCrashes(assessed.crashes, write, log);
  const suspended = openSuspendedSessions(assessed, crashes.of, clock);
  let phase: 'one at a time' | 'all' = crashes.inARow() >= CRASH_LOOP_LENGTH ? 'one at a time' : 'all';
  let queue: OpeningQueue = { waiting: () => [], isComplete: () => true, openWaiting: () => {} };
  let order: string[] = [];
  let gapMs = GAP_MS;
  const latestStart = clock.elapsed() + GAP_MS;
  let current: string | undefined;
  let cancelNext = (): void => {};
  let cancelStable = (): void => {};
  let isStopped = false;

  function openNext(): void {
    cancelNext();
    if (isStopped || phase !== 'one at a time') return;
    const waiting = new Set(queue.waiting());
    if (!order.some((name) => waiting.has(name))) {
      const isComplete = queue.isComplete();
      if (!isComplete && clock.elapsed() < latestStart) {
        cancelNext = clock.after(CHECK_MS, openNext);
        return;
      }
      const found = [...waiting].filter((name) => suspended.leftMs(name) === 0);
      if (found.length === 0 && isComplete) {
        serveAll();
        return;
      }
      order = orderOfOpening(found, crashes.inARow(), lastWritten);
      gapMs = Math.min(GAP_MS, ALL_OPENED_MS / Math.max(1, order.length));
    }
    while (order[0] !== undefined && !waiting.has(order[0])) order.shift();
    current = order.shift();
    cancelNext = clock.after(gapMs, openNext);
    queue.openWaiting();
  }

  function serveAll(): void {
    phase = 'all';
    current = undefined;
    log('info', 'every session with pending work has been opened; serving all sessions');
    queue.openWaiting();
  }

  /** The next one follows at once, but not synchronously in the caller. */
  function advance(name: string): void {
    if (name !== current || phase !== 'one at a time') return;
    cancelNext();
    cancelNext = clock.after(0, openNext);
  }

  return {
    start(given) {
      queue = given;
      if (blamed) log('warn', `The session ${blamed.session} crashed the last daemon: ${blamed.why}`);
      if (phase === 'one at a time') {
        log('warn', `${crashes.inARow()} daemons in a row crashed without a known cause. ${SLOW_START}`);
        openNext();
      }
      cancelStable = clock.after(STABLE_AFTER_MS, crashes.endSeries);
    },
    mayOpen: (name) => suspended.leftMs(name) === 0 && (phase === 'all' || name === current),
    takePreviousFailure: previousFailures(blamed),
    onIdle(name) {
      crashes.forgive(name);
      advance(name);
    },
    onClose: advance,
    suspendIfBlamed: suspended.addIfBlamed,
    listSuspended: suspended.list,
    stop() {
      isStopped = true;
      cancelNext();
      cancelStable();
    },
  };
}

/** Another one first after each crash, then in order of the last write, asked once for each. */
function orderOfOpening(names: string[], inARow: number, lastWritten: (name: string) => number): string[] {
  const first = names.sort()[inARow % names.length];
  const written = new Map(names.map((name) => [name, name === first ? -1 : lastWritten(name)]));
  return names.sort((a, b) => (written.get(a) ?? 0) - (written.get(b) ?? 0));
}

/** The crashes on record. What changes is saved for the next daemon. */
function recordCrashes(crashes: CrashRecord, write: CrashLoopOptions['write'], log: SessionPorts['log']) {
  let current = crashes;
  let writing: Promise<void> = Promise.resolve();
  const of = (name: string): number => getOwn(current.by_session, name) ?? 0;

  /** Writes are serialized; a file that cannot be written is no reason to stop serving. */
  function save(next: CrashRecord): void {
    current = next;
    writing = writing.then(() => write(next)).catch((error) => log('warn', errorText(error)));
  }

  return {
    of,
    inARow: () => current.unexplained,
    endSeries(): void {
      if (current.unexplained > 0) save({ ...current, unexplained: 0 });
    },
    forgive(name: string): void {
      if (of(name) === 0) return;
      const { [name]: _, ...others } = current.by_session;
      save({ ...current, by_session: others });
    },
  };
}

/** Returns how the last daemon ended for a session, once for each. */
function previousFailures(blamed: BlameResult['blamed']): CrashLoopGuard['takePreviousFailure'] {
  const informed = new Set<string>();
  return (name) => {
    if (informed.has(name)) return undefined;
    informed.add(name);
    return blamed?.session === name ? { after: 'crash', crashes: blamed.times, error: blamed.why } : { after: 'crash' };
  };
}

/** Sessions that are not opened for a while, because they crashed too many daemons. */
function openSuspendedSessions({ blamed, crashes }: BlameResult, crashesOf: (name: string) => number, clock: Clock) {
  const since = clock.now().toISOString();
  const until = new Map<string, number>();
  const overSettings = blamed?.why.endsWith(` while ${READING_SETTINGS}`) ? blamed.session : undefined;
  const leftMs = (name: string): number => {
    // Child sessions read the settings of their root.
    const held = rootSessionOf(name) === overSettings ? overSettings : name;
    return Math.max(0, (until.get(held) ?? 0) - clock.elapsed());
  };

  function describe(name: string): string {
    const end = new Date(clock.now().getTime() + leftMs(name)).toISOString();
    const last = blamed?.session === name ? ` Last cause: ${blamed.why}` : '';
    return `It crashed ${crashesOf(name)} daemons in a row. It is opened again at ${formatUtcTime(end)}; to retry now, remove it from .agentd/crashes.json and restart the daemon.${last}`;
  }

  /** The delay doubles with each further daemon. */
  function add(name: string): void {
    const ms = Math.min(HOLD_MAX_MS, HOLD_FIRST_MS * 2 ** Math.min(20, crashesOf(name) - MAX_CRASHES));
    until.set(name, clock.elapsed() + ms);
  }

  // After the third loss it is opened once, so that its message is given up with a reply, unless its settings are to
  // blame, which are read first; after more losses it is delayed.
  for (const name of Object.keys(crashes.by_session))
    if (crashesOf(name) > MAX_CRASHES - (name === overSettings ? 1 : 0)) add(name);

  return {
    addIfBlamed(name: string, hasOpenWork: boolean): boolean {
      if (hasOpenWork || crashesOf(name) !== MAX_CRASHES || until.has(name)) return false;
      add(name);
      return true;
    },
    leftMs,
    list: (): UnservedSession[] =>
      [...until.keys()]
        .filter((name) => leftMs(name) > 0)
        .map((name) => ({ session: name, is: 'suspended', why: describe(name), since })),
  };
}
