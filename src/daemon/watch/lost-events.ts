import type { Clock } from '../../engine/ports/session-ports.ts';

const TICK_MS = 250;
/** A loop that stood still for longer may have let the kernel's queue of file events overflow, which nobody is told. */
const STALL_MS = 300;
/** Time of day and steady clock are apart by more than this: the machine slept, or the clock was set. */
const JUMP_MS = 2000;
/**
 * The kernel's queue holds 16,384 file events as it is shipped. So many in one turn of the loop are the only trace of
 * an overflow that reaches us; half of them is asked for, since a part may have been read before.
 */
const BURST_EVENTS = 8192;
/** Looks for one reason after another come no closer than this. */
const MIN_APART_MS = 1000;

/** Notices what may have cost file events, and says so: whoever hears it looks at everything. */
export type LostEventDetector = {
  /** A watch called. */
  countEvent(): void;
  suspectLoss(why: string): void;
  stop(): void;
};

export function detectLostEvents(clock: Clock, look: (why: string) => void): LostEventDetector {
  let last = { steady: clock.elapsed(), wall: clock.now().getTime() };
  let calls = 0;
  let due: NodeJS.Timeout | null = null;
  let looked = Number.NEGATIVE_INFINITY;

  function suspect(why: string): void {
    if (due) return;
    // Behind the turn of the loop at least: events that are waiting there come first, and what they were told of is
    // seen too.
    const wait = Math.max(1, looked + MIN_APART_MS - clock.elapsed());
    due = setTimeout(() => {
      due = null;
      looked = clock.elapsed();
      look(why);
    }, wait);
    due.unref();
  }

  function tick(): void {
    const now = { steady: clock.elapsed(), wall: clock.now().getTime() };
    const passed = now.steady - last.steady;
    const jump = now.wall - last.wall - passed;
    last = now;
    if (passed - TICK_MS > STALL_MS) suspect(`stood still for ${Math.round(passed - TICK_MS)} ms`);
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
