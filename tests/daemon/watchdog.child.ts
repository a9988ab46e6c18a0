import { writeSync } from 'node:fs';
import { startWatchdog } from '../../src/daemon/crashes/crash-notes.ts';

/**
 * "still": the main thread never comes back, and says whose step that is; "ignores-signals": the same, with a listener for every signal that can be caught;
 * "full": the same, with a pipe to its reader that is full;
 * "busy": it does between pieces of work; "ended": it stands still after the watch.
 */
const [what, patience, path] = process.argv.slice(2);
const guard = startWatchdog({
  patienceMs: Number(patience),
  ...(path && { path }),
  of: { owner_since: 'then' },
  slow: (session, step) => console.error(`slow: ${session}, ${step}`),
});
if (what === 'ignores-signals')
  for (const signal of ['SIGABRT', 'SIGTERM', 'SIGINT'] as const) process.on(signal, () => {});
process.on('SIGTERM', () => process.exit(0));
if (what === 'ended') await guard.stop();
console.log('READY');
setTimeout(what === 'busy' ? busy : () => guard.runGuarded('demo', 'merging plan.json', still), 100);

function still(): void {
  if (what === 'full') fill();
  const until = what === 'ended' ? performance.now() + 2500 : Number.POSITIVE_INFINITY;
  // For the watchdog there is no difference; only the loop takes the processor from what runs beside it.
  if (what === 'still') while (performance.now() < until);
  else Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, until - performance.now());
  setTimeout(() => process.exit(0), 100);
}

/** Node's own end of a pipe does not block, and says so once it is full. */
function fill(): void {
  try {
    for (;;) writeSync(2, 'x'.repeat(65_536));
  } catch {
    // It is full.
  }
}

/** Work in pieces of a fiftieth of a second of a core, so that a stop most likely comes in the middle of one. */
function busy(): void {
  const { user } = process.cpuUsage();
  while (process.cpuUsage().user - user < 20_000);
  setTimeout(busy, 1);
}
