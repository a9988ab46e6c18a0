import { Worker } from 'node:worker_threads';
import { UserError } from '../../base/user-error.ts';

/** How often the event loop tells that it runs, and whether sessions can be served. */
const BEAT_MS = 250;
/** An event loop that has not run for this long counts as hung. Much work alone delays it by a second or two. */
const HUNG_MS = 10_000;

/** `counters`: turns of the main thread's loop, and whether it is fit. */
const HEALTH_THREAD = `
const { createServer } = require('node:http');
const { parentPort, workerData: { counters, host, port, hungMs } } = require('node:worker_threads');
let seen = { beat: -1, at: 0 };
function status() {
  const beat = Atomics.load(counters, 0), now = performance.now();
  if (beat !== seen.beat) seen = { beat, at: now };
  if (now - seen.at > hungMs) return 503;
  return Atomics.load(counters, 1) === 1 ? 200 : 404;
}
const server = createServer((_, response) => response.writeHead(status(), { connection: 'close' }).end());
server.on('error', (error) => parentPort.postMessage(String(error.message)));
server.listen(port, host, () => parentPort.postMessage(''));
setInterval(status, 1000);
`;

/** The answers to a balancer, while they are given. */
export type HealthChecks = { stop(): Promise<void> };

/**
 * Answers a balancer's health checks, whatever their path: 200, 404 while this process is to get no further calls but
 * keeps those that run, and 503 if its event loop is hung. A thread of its own answers: a process that is frozen fails
 * the check at once, and one that has much to do does not. Throws UserError if the address cannot be used.
 */
export async function answerHealthChecks(
  { host, port }: { host: string; port: number },
  isFit: () => boolean,
): Promise<HealthChecks> {
  const counters = new Int32Array(new SharedArrayBuffer(8));
  const beat = (): void => {
    Atomics.store(counters, 1, isFit() ? 1 : 0);
    Atomics.add(counters, 0, 1);
  };
  beat();
  const workerData = { counters, host, port, hungMs: HUNG_MS };
  const thread = new Worker(HEALTH_THREAD, { eval: true, execArgv: [], env: {}, workerData });
  const failed = await new Promise<string>((said) => {
    thread.once('message', said);
    thread.once('error', (error) => said(String(error)));
  });
  if (failed !== '') {
    await thread.terminate();
    throw new UserError(`The health check needs ${host}:${port}, the port after that of --listen: ${failed}`);
  }
  thread.unref();
  const timer = setInterval(beat, BEAT_MS);
  return {
    async stop() {
      clearInterval(timer);
      await thread.terminate();
    },
  };
}
