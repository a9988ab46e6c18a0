import { once } from 'node:events';
import { Worker } from 'node:worker_threads';
import { z } from 'zod';

/**
 * Plain JavaScript as text: a worker's file would have to be found both beside the sources and in the compiled package,
 * and its language differs between the two.
 */
const THREAD = `
  const { parentPort } = require('node:worker_threads');
  parentPort.on('message', ({ pattern, texts, most }) => {
    const hits = [];
    for (let at = 0; at < texts.length && hits.length < most; at++) if (pattern.test(texts[at])) hits.push(at);
    parentPort.postMessage(hits);
  });
`;

/**
 * Regular expressions in a thread of their own: one that backtracks for ever costs that thread, not the daemon.
 * One question at a time; it rejects when the signal aborts, and the thread must then be closed.
 */
export type PatternThread = {
  /** The indices of the first `most` texts that match. The pattern has neither of the flags g and y. */
  matches(pattern: RegExp, texts: string[], most?: number): Promise<number[]>;
  close(): Promise<void>;
};

export function patternThread(signal: AbortSignal): PatternThread {
  const worker = new Worker(THREAD, { eval: true, execArgv: [], env: {} });
  // A fault of the thread rejects the question it came in; without a listener it would end the daemon besides.
  worker.on('error', () => {});
  return {
    async matches(pattern, texts, most = Number.POSITIVE_INFINITY) {
      signal.throwIfAborted();
      const answer = once(worker, 'message', { signal });
      worker.postMessage({ pattern, texts, most });
      const [hits] = await answer;
      return z.array(z.int()).parse(hits);
    },
    async close() {
      await worker.terminate();
    },
  };
}
