import type { Clock } from '../../engine/ports/session-ports.ts';

const TICK_MS = 250;
/**
 * If the event loop is blocked for longer than this, the kernel's queue of file events may have overflowed unnoticed.
 */
const STALL_MS = 300;
/** If wall clock and steady clock differ by more than this, the machine slept or the clock was set. */
const JUMP_MS = 2000;
/**
 * The kernel's queue holds 16,384 file events by default. As many in one turn of the event loop are the only visible
 * signal of an overflow; half of them suffice here, since a part may have been read before.
 */
const BURST_EVENTS = 8192;
/** Minimum interval between two sweeps triggered here. */
const MIN_APART_MS = 1000;

/** Detects what may have lost file events; the receiver then checks everything. */
export type LostEventDetector = {
  /** A watch fired. */
  countEvent(): void;
  suspectLoss(why: string): void;
  stop(): void;
};

/** Starts the detector; `onSuspected` receives the reason for each check. */
export function detectLostEvents(clock: Clock, onSuspected: (why: string) => void): LostEventDetector {
  let last = { steady: clock.elapsed(), wall: clock.now().getTime() };
  let calls = 0;
  let due: NodeJS.Timeout | null = null;
  let looked = Number.NEGATIVE_INFINITY;

  function suspect(why: string): void {
    if (due) return;
    // After the current turn of the event loop at least, so that queued events come first and their changes are seen
    // too.
    const wait = Math.max(1, looked + MIN_APART_MS - clock.elapsed());
    due = setTimeout(() => {
      due = null;
      looked = clock.elapsed();
      onSuspected(why);
    }, wait);
    due.unref();
  }

  function tick(): void {
    const now = { steady: clock.elapsed(), wall: clock.now().getTime() };
    const passed = now.steady - last.steady;
    const jump = now.wall - last.wall - passed;
    last = now;
    if (passed - TICK_MS > STALL_MS) suspect(`the event loop was blocked for ${Math.round(passed - TICK_MS)} ms`);
    else if (Math.abs(jump) > JUMP_MS) suspect(`the clock jumped by ${Math.round(jump / 1000)} s`);
  }

  const timer = setInterval(tick, TICK_MS);
  timer.unref();
  return {
    countEvent() {
      calls += 1;
      if (calls === 1) setImmediate(() => (calls = 0));
      else if (calls === BURST_EVENTS) suspect(`${BURST_EVENTS} file events at once`);
    },
    suspectLoss: suspect,
    stop() {
      clearInterval(timer);
      if (due) clearTimeout(due);
    },
  };
}
