import { Worker } from 'node:worker_threads';

/** A story is over in a fraction of a second; on a machine that is busy, in some. */
const LIMIT_MS = 60_000;

/** Looks from a thread of its own, since a story that goes in circles lets nobody else have a turn. */
const LOOK = `
const { writeSync } = require('node:fs');
const { workerData } = require('node:worker_threads');
const { shared, limitMs } = workerData;
const current = new Int32Array(shared);
let seen = 0;
let since = Date.now();
setInterval(() => {
  const seed = Atomics.load(current, 0);
  if (seed !== seen) [seen, since] = [seed, Date.now()];
  if (seed === 0 || Date.now() - since < limitMs) return;
  writeSync(2, \`SEED=\${seed}: this story does not end, not even in \${limitMs / 1000} s\\n\`);
  process.kill(process.pid, 'SIGKILL');
}, 250);
`;

/**
 * Ends the process, and says which seed it was, where one story goes on for a minute. Without it such a story (a loop in the
 * code under test that never lets go) is seen as a hang that nobody can tell again.
 */
export function watchdog(limitMs = LIMIT_MS): { at(seed: number): void; end(): Promise<unknown> } {
  const shared = new SharedArrayBuffer(4);
  const current = new Int32Array(shared);
  const thread = new Worker(LOOK, { eval: true, workerData: { shared, limitMs } });
  thread.unref();
  return { at: (seed) => void Atomics.store(current, 0, seed), end: () => thread.terminate() };
}
