import { getOwn } from '../../base/dictionary.ts';
import { errorText } from '../../base/user-error.ts';
import type { PreviousFailure } from '../../engine/loop/recovery.ts';
import type { Clock, SessionPorts } from '../../engine/ports/session-ports.ts';
import type { CrashRecord } from '../../protocol/workspace/daemon-files.ts';
import type { BlameResult } from './crash-blame.ts';
import type { UnservedSession } from './session-trouble.ts';

/** After evidence of this many lost daemons in a row, a session without a message to give up is not opened at once. */
const MAX_CRASHES = 3;
const HOLD_FIRST_MS = 60_000;
const HOLD_MAX_MS = 24 * 3_600_000;
/**
 * From this many consecutive losses without a note on, the daemon delays its start and opens sessions one at a time.
 */
const CRASH_LOOP_LENGTH = 2;
const PAUSE_MAX_MS = 8000;
/**
 * Upper limit of the delay before the next session is opened; shorter if the queue would otherwise take over a minute.
 */
const GAP_MS = 2000;
const ALL_OPENED_MS = 60_000;
/** A daemon that has run this long breaks the series of losses. */
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
  holdIfBlamed(name: string, hasOpenWork: boolean): boolean;
  listHeld(): UnservedSession[];
  stop(): void;
};

type CrashLoopOptions = {
  assessed: BlameResult;
  /** Saves the losses for the next daemon. */
  write: (losses: CrashRecord) => Promise<void>;
  /** When the session's event log was last written, in ms; 0 if there is none. */
  lastWritten: (name: string) => number;
  clock: Clock;
  log: SessionPorts['log'];
};

/**
 * After unexplained losses the daemon waits 2^n seconds and opens sessions one at a time. The session whose event log
 * was written last is opened last: if it is the one that exhausts memory, the others were served before. Nobody is
 * blamed.
 */
export function openCrashLoopGuard({ assessed, write, lastWritten, clock, log }: CrashLoopOptions): CrashLoopGuard {
  const { blamed } = assessed;
  const since = clock.now().toISOString();
  const heldUntil = new Map<string, number>();
  const informed = new Set<string>();
  let losses = assessed.losses;
  let phase: 'pause' | 'one at a time' | 'all' = losses.in_a_row >= CRASH_LOOP_LENGTH ? 'pause' : 'all';
  let queue: OpeningQueue = { waiting: () => [], isComplete: () => true, openWaiting: () => {} };
  let order: string[] = [];
  let gapMs = GAP_MS;
  let current: string | undefined;
  let cancelNext = (): void => {};
  let cancelStable = (): void => {};
  let isStopped = false;
  let writing: Promise<void> = Promise.resolve();

  const against = (name: string): number => getOwn(losses.against, name) ?? 0;

  /** Writes are serialized; a file that cannot be written is no reason to stop serving. */
  function save(next: CrashRecord): void {
    losses = next;
    writing = writing.then(() => write(next)).catch((error) => log('warn', errorText(error)));
  }

  /** The delay doubles with each further daemon. */
  function hold(name: string): void {
    const ms = Math.min(HOLD_MAX_MS, HOLD_FIRST_MS * 2 ** Math.min(20, against(name) - MAX_CRASHES));
    heldUntil.set(name, clock.elapsed() + ms);
  }

  const heldForMs = (name: string): number => Math.max(0, (heldUntil.get(name) ?? 0) - clock.elapsed());

  function describeHold(name: string): string {
    const until = new Date(clock.now().getTime() + heldForMs(name)).toISOString();
    const last = blamed?.session === name ? ` Last cause: ${blamed.why}` : '';
    return `It crashed ${against(name)} daemons in a row. It is opened again at ${until}; to retry now, remove it from .agentd/losses.json and restart the daemon.${last}`;
  }

  // After the third loss it is opened once, so that its message is given up with a reply; after more of them it is
  // delayed.
  for (const name of Object.keys(losses.against)) if (against(name) > MAX_CRASHES) hold(name);

  function pause(): void {
    const ms = Math.min(PAUSE_MAX_MS, 1000 * 2 ** Math.min(20, losses.in_a_row - 1));
    const what = `${losses.in_a_row} daemons in a row crashed without a known cause`;
    log('warn', `${what}. No session is opened for ${ms / 1000} s, then one at a time`);
    cancelNext = clock.after(ms, () => {
      phase = 'one at a time';
      openNext();
    });
  }

  function openNext(): void {
    cancelNext();
    if (isStopped || phase !== 'one at a time') return;
    const waiting = new Set(queue.waiting());
    if (!order.some((name) => waiting.has(name))) {
      const found = [...waiting].filter((name) => heldForMs(name) === 0);
      if (found.length === 0 && queue.isComplete()) {
        serveAll();
        return;
      }
      const written = new Map(found.map((name) => [name, lastWritten(name)]));
      order = found.sort((a, b) => (written.get(a) ?? 0) - (written.get(b) ?? 0));
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
      if (phase === 'pause') pause();
      cancelStable = clock.after(STABLE_AFTER_MS, () => {
        if (losses.in_a_row > 0) save({ ...losses, in_a_row: 0 });
      });
    },
    mayOpen: (name) => heldForMs(name) === 0 && (phase === 'all' || name === current),
    takePreviousFailure(name) {
      if (informed.has(name)) return undefined;
      informed.add(name);
      return blamed?.session === name
        ? { after: 'crash', against: blamed.times, error: blamed.why }
        : { after: 'crash' };
    },
    onIdle(name) {
      if (against(name) > 0) {
        const { [name]: _, ...others } = losses.against;
        save({ ...losses, against: others });
      }
      advance(name);
    },
    onClose: advance,
    holdIfBlamed(name, hasOpenWork) {
      if (hasOpenWork || against(name) !== MAX_CRASHES || heldUntil.has(name)) return false;
      hold(name);
      return true;
    },
    listHeld: () =>
      [...heldUntil.keys()]
        .filter((name) => heldForMs(name) > 0)
        .map((name) => ({ session: name, is: 'set aside', why: describeHold(name), since })),
    stop() {
      isStopped = true;
      cancelNext();
      cancelStable();
    },
  };
}
