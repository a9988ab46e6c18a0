import { watchdog } from '../../src/daemon/watchdog.ts';

/** Half a second of patience. "spin": the main thread never comes back; "idle": it waits; "ended": it spins after the watch. */
const stop = watchdog({ tickMs: 50, ticks: 10 });
const [what] = process.argv.slice(2);
if (what === 'ended') await stop();
const alive = setInterval(() => {}, 1000);
console.log('READY');
if (what === 'idle') process.on('SIGTERM', () => process.exit(0));
else {
  const until = what === 'ended' ? performance.now() + 2000 : Number.POSITIVE_INFINITY;
  setTimeout(() => {
    while (performance.now() < until);
    clearInterval(alive);
  }, 100);
}
