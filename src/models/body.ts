import { ModelFault } from '../engine/ports.ts';

/** What was noticed about a body while it passed by. */
export type BodyNotes = { done: boolean };

type Reader = ReadableStreamDefaultReader<Uint8Array<ArrayBuffer>>;

const DONE = /(?:^|\n)data: ?\[DONE\]\s*$/;
/** Enough of the end to hold the closing line, wherever the network cuts it. */
const TAIL_BYTES = 32;
/** How long a server may take to close after `[DONE]` before its connection is given up. */
const DRAIN_MS = 1000;

/**
 * Passes a body on and watches it: no bytes for `silenceMs` fails it with an `unreachable` fault, and a closing
 * `data: [DONE]` line ends it at once (some servers leave the connection open behind it) and sets `notes.done`.
 * Any byte counts as a sign of life, also the SSE comments with which gateways bridge a queue.
 */
export function watchBody(body: ReadableStream<Uint8Array<ArrayBuffer>>, silenceMs: number, notes: BodyNotes) {
  const reader = body.getReader();
  let tail: Uint8Array = new Uint8Array();
  return new ReadableStream<Uint8Array<ArrayBuffer>>(
    {
      async pull(controller) {
        const piece = await readWithin(reader, silenceMs);
        if (piece.done) return controller.close();
        controller.enqueue(piece.value);
        tail = Buffer.concat([tail, piece.value.subarray(-TAIL_BYTES)]).subarray(-TAIL_BYTES);
        if (!DONE.test(Buffer.from(tail).toString('latin1'))) return;
        notes.done = true;
        controller.close();
        void drain(reader);
      },
      cancel: (reason) => reader.cancel(reason),
    },
    { highWaterMark: 0 },
  );
}

async function readWithin(reader: Reader, ms: number) {
  let timer: NodeJS.Timeout | undefined;
  const silence = new Promise<never>((_, reject) => {
    timer = setTimeout(() => {
      reject(new ModelFault('unreachable', `The endpoint was silent for ${ms / 1000} s.`, { retry: true }));
      reader.cancel().catch(() => undefined);
    }, ms);
  });
  try {
    return await Promise.race([reader.read(), silence]);
  } finally {
    clearTimeout(timer);
  }
}

/** Reads to the real end, so that the connection can serve the next call. */
async function drain(reader: Reader) {
  const timer = setTimeout(() => void reader.cancel().catch(() => undefined), DRAIN_MS);
  timer.unref();
  try {
    while (!(await reader.read()).done);
  } catch {
    // The answer is already whole; what happens to the connection behind it is of no consequence.
  } finally {
    clearTimeout(timer);
  }
}
