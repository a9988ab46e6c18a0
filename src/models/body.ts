import type { Readable } from 'node:stream';
import { ModelFault } from '../engine/ports.ts';
import { errorText } from '../protocol/errors.ts';

/** What was noticed about a body while it passed by. */
export type BodyNotes = { done: boolean };

const DONE = /(?:^|\n)data: ?\[DONE\]\s*$/;
/** Enough of the end to hold the closing line, wherever the network cuts it. */
const TAIL_BYTES = 32;
/** How long a server may take to close after `[DONE]` before its connection is given up. */
const DRAIN_MS = 1000;
/** Pieces that may wait for their reader before no more are read. */
const PIECES = 64;

/**
 * Passes a body on and watches it: no bytes for `silenceMs` fails it with an `unreachable` fault, and a closing
 * `data: [DONE]` line ends it at once (some servers leave the connection open behind it) and sets `notes.done`.
 * Any byte counts as a sign of life, also the SSE comments with which gateways bridge a queue. A connection that breaks fails
 * it as it fails a body of `fetch`: `TypeError: terminated`, with the reason as its cause.
 */
export function watchBody(body: Readable, silenceMs: number, notes: BodyNotes) {
  let tail = '';
  const silence = setTimeout(() => body.destroy(silent(silenceMs)), silenceMs);
  return new ReadableStream<Uint8Array<ArrayBuffer>>(
    {
      start(controller) {
        let isOver = false;
        const over = (how: () => void): void => {
          clearTimeout(silence);
          if (!isOver) how();
          isOver = true;
        };
        body.on('data', (piece: Buffer<ArrayBuffer>) => {
          if (isOver) return;
          controller.enqueue(piece);
          tail = (tail + piece.toString('latin1', Math.max(0, piece.length - TAIL_BYTES))).slice(-TAIL_BYTES);
          notes.done = DONE.test(tail);
          if (notes.done) over(() => controller.close());
          if (notes.done) drain(body);
          else if ((controller.desiredSize ?? 0) <= 0) body.pause();
        });
        body.on('end', () => over(() => controller.close()));
        body.on('error', (error) => over(() => controller.error(broken(error))));
        body.on('close', () => over(() => controller.error(broken(new Error('the connection was closed')))));
      },
      // Also after each piece, as long as there is room for more.
      pull() {
        silence.refresh();
        body.resume();
      },
      cancel() {
        clearTimeout(silence);
        body.destroy();
      },
    },
    { highWaterMark: PIECES },
  );
}

const silent = (ms: number): ModelFault =>
  new ModelFault('unreachable', `The endpoint was silent for ${ms / 1000} s.`, { retry: true });

const broken = (error: Error): Error =>
  error instanceof ModelFault ? error : new TypeError(`terminated: ${errorText(error)}`, { cause: error });

/** Reads to the real end, so that the connection can serve the next call. What happens behind a whole answer is of no consequence. */
function drain(body: Readable): void {
  const timer = setTimeout(() => body.destroy(), DRAIN_MS);
  timer.unref();
  body.once('close', () => clearTimeout(timer));
}
