import { once } from 'node:events';
import { Worker } from 'node:worker_threads';
import { z } from 'zod';
import { errorCode, UserError } from '../../protocol/errors.ts';
import { deadline } from '../deadline.ts';

export type Job = { from: 'html'; html: string; url: string; whole: boolean } | { from: 'pdf'; bytes: Uint8Array };

const Converted = z.object({
  title: z.string(),
  text: z.string(),
  /** `main`: what Readability took for the page's content. */
  part: z.enum(['main', 'whole']),
  /** Of a PDF; 0 of a page. */
  pages: z.int(),
});
export type Converted = z.infer<typeof Converted>;
const Said = z.union([Converted.extend({ ok: z.literal(true) }), z.object({ ok: z.literal(false), why: z.string() })]);

/** An article of 1 MB takes 2 s, one of 10 MB takes 7 s, and one made to be slow takes for ever. */
const TIME_MS = 20_000;
const HEAP_MB = 384;
/** A thread's buffers are in no heap, so what the whole process gained is looked at: a PDF of 2 kB can unfold to gigabytes. */
const GAIN_BYTES = 512 * 1024 * 1024;
const LOOK_MS = 50;

/**
 * Turns a page or a PDF into text in a thread of its own, which is ended where it takes too long or too much memory. Throws
 * UserError with why nothing came of it, the signal's reason where that aborts.
 */
export async function convert(job: Job, outer: AbortSignal, ms = TIME_MS): Promise<Converted> {
  outer.throwIfAborted();
  const limit = deadline(outer, ms);
  const grown = new AbortController();
  const before = process.memoryUsage.rss();
  const look = setInterval(() => {
    if (process.memoryUsage.rss() - before > GAIN_BYTES) grown.abort();
  }, LOOK_MS);
  const worker = new Worker(new URL('./page-thread.mjs', import.meta.url), {
    workerData: job,
    execArgv: [],
    env: {},
    stdout: true,
    stderr: true,
    resourceLimits: { maxOldGenerationSizeMb: HEAP_MB },
  });
  // After the race is over nobody else listens, and an unheard error would end the daemon.
  worker.on('error', () => undefined);
  try {
    const [said] = await once(worker, 'message', { signal: AbortSignal.any([limit.signal, grown.signal]) });
    const answer = Said.parse(said);
    if (answer.ok) return answer;
    throw new UserError(`It cannot be read: ${answer.why}`);
  } catch (error) {
    outer.throwIfAborted();
    if (limit.passed()) throw new UserError(`It takes more than ${ms / 1000} s to be turned into text.`);
    if (grown.signal.aborted || errorCode(error) === 'ERR_WORKER_OUT_OF_MEMORY') {
      throw new UserError('It takes too much memory to be turned into text.');
    }
    throw error;
  } finally {
    clearInterval(look);
    limit.clear();
    await worker.terminate();
  }
}
