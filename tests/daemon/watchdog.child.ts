import { watchdog } from '../../src/daemon/watchdog.ts';

/** "still": the main thread never comes back; "busy": it does between pieces of work; "ended": it stands still after the watch. */
const [what, ticks] = process.argv.slice(2);
const stop = watchdog({ tickMs: 50, ticks: Number(ticks) });
process.on('SIGTERM', () => process.exit(0));
if (what === 'ended') await stop();
console.log('READY');
setTimeout(what === 'busy' ? busy : still, 100);

function still(): void {
  const until = what === 'ended' ? performance.now() + 2000 : Number.POSITIVE_INFINITY;
  while (performance.now() < until);
  process.exit(0);
}

/** Work in pieces of a tenth of a second of a core, so that a stop most likely comes in the middle of one. */
function busy(): void {
  const { user } = process.cpuUsage();
  while (process.cpuUsage().user - user < 100_000);
  setTimeout(busy, 1);
}
