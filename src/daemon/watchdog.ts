import { Worker } from 'node:worker_threads';

const TICK_MS = 1000;
const TICKS = 60;

/**
 * Plain JavaScript as text: a worker's file would have to be found both beside the sources and in the compiled package. It
 * counts its own ticks since the main thread last moved, and reads no clock: SIGSTOP and suspend hold both threads, and a
 * thread that waits for the disk (state D) is the kernel's to wake, and cannot be ended either.
 */
const THREAD = `
  const { readFileSync, writeSync } = require('node:fs');
  const { beat, tickMs, ticks } = require('node:worker_threads').workerData;
  const never = new Int32Array(new SharedArrayBuffer(4));
  const waitsForDisk = () => {
    try {
      return /\\) D [^)]*$/.test(readFileSync('/proc/self/stat', 'latin1'));
    } catch {
      return false;
    }
  };
  for (let last = -1, still = 0; ; ) {
    Atomics.wait(never, 0, 0, tickMs);
    const now = Atomics.load(beat, 0);
    still = now === last ? still + 1 : 0;
    last = now;
    if (still < ticks || waitsForDisk()) continue;
    writeSync(2, 'The daemon stood still for ' + Math.round((ticks * tickMs) / 1000) + ' s and ends itself. Nothing is lost; start agentd again.\\n');
    process.kill(process.pid, 'SIGABRT');
  }
`;

/**
 * Ends the process with SIGABRT when its event loop has stood still for a minute: it would hold the workspace and serve nobody.
 * Whoever started it may start it anew; what it was at goes on then. Answers what ends the watch.
 */
export function watchdog({ tickMs = TICK_MS, ticks = TICKS } = {}): () => Promise<void> {
  const beat = new Int32Array(new SharedArrayBuffer(4));
  const worker = new Worker(THREAD, { eval: true, execArgv: [], env: {}, workerData: { beat, tickMs, ticks } });
  // Without its watchdog a daemon is as good as before.
  worker.on('error', () => {});
  worker.unref();
  const timer = setInterval(() => Atomics.add(beat, 0, 1), tickMs / 2);
  timer.unref();
  return async () => {
    clearInterval(timer);
    await worker.terminate();
  };
}
