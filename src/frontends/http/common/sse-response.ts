import { setImmediate } from 'node:timers/promises';

const encoder = new TextEncoder();

/** Frames that are ready together are sent together, up to about this many characters. */
const CHUNK_CHARS = 65_536;

/**
 * Server-sent events, or comments, as the answer to a request; each frame is whole, with the empty line behind it.
 * Frames are made when there is room for them and not before, so a slow reader costs one chunk. It ends with the
 * frames, with the connection or with the signal, and what `frames` holds is let go then.
 */
export function sseResponse(
  frames: (ends: AbortSignal) => AsyncGenerator<string>,
  signal: AbortSignal,
  headers: Record<string, string> = {},
): Response {
  const control = new AbortController();
  const source = frames(control.signal);
  let isRead = true;
  const end = () => {
    control.abort(signal.reason);
    // Of a reader that has stopped reading nobody asks for the next frame.
    void source.return(undefined);
    signal.removeEventListener('abort', end);
  };
  signal.addEventListener('abort', end);
  if (signal.aborted) end();
  let pending: Promise<IteratorResult<string>> | undefined;
  /** Waits for a frame, and adds those that need no waiting. */
  const chunk = async (): Promise<{ text: string; done: boolean }> => {
    let text = '';
    let later: Promise<undefined> | undefined;
    while (text.length < CHUNK_CHARS) {
      pending ??= source.next();
      const next = await (later ? Promise.race([pending, later]) : pending);
      if (!next) break;
      pending = undefined;
      if (next.done) return { text, done: true };
      text += next.value;
      later ??= setImmediate(undefined);
    }
    return { text, done: false };
  };
  const body = new ReadableStream<Uint8Array>(
    {
      async pull(sink) {
        const { text, done } = await chunk();
        if (text !== '') sink.enqueue(encoder.encode(text));
        if (done) end();
        if (done && isRead) sink.close();
      },
      cancel() {
        isRead = false;
        end();
      },
    },
    { highWaterMark: 0 },
  );
  // Proxies such as nginx would hold events back to send many at once.
  const own = { 'content-type': 'text/event-stream', 'cache-control': 'no-store', 'x-accel-buffering': 'no' };
  return new Response(body, { headers: { ...headers, ...own } });
}
