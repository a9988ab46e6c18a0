import { setImmediate } from 'node:timers/promises';

const encoder = new TextEncoder();

/** Frames that are ready at the same time are sent in one chunk of about this size. */
const CHUNK_CHARS = 65_536;

/**
 * A response of server-sent events or comments. Each frame is complete, including its final empty line. Frames are only
 * generated when there is room to send them, so a slow reader holds one chunk in memory. The response ends with the
 * frames, the connection or the signal; the generator is closed then.
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
    // The reader may be gone and never pull again, so the generator is closed here.
    void source.return(undefined);
    signal.removeEventListener('abort', end);
  };
  signal.addEventListener('abort', end);
  if (signal.aborted) end();
  let pending: Promise<IteratorResult<string>> | undefined;
  /** Waits for a frame, then adds those that are ready already. */
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
  // Without x-accel-buffering, proxies such as nginx would buffer events.
  const own = { 'content-type': 'text/event-stream', 'cache-control': 'no-store', 'x-accel-buffering': 'no' };
  return new Response(body, { headers: { ...headers, ...own } });
}
