const encoder = new TextEncoder();

/**
 * Server-sent events, or comments, as the answer to a request; each frame is whole, with the empty line behind it. A
 * frame is made when there is room for it and not before, so a slow reader costs one frame. It ends with the frames,
 * with the connection or with the signal, and what `frames` holds is let go then.
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
  const body = new ReadableStream<Uint8Array>(
    {
      async pull(sink) {
        const { done, value } = await source.next();
        if (!done) sink.enqueue(encoder.encode(value));
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
