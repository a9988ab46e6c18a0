/** A signal that aborts when another does or when its time is over, whichever is first. `clear` gives the timer back. */
export type Deadline = { signal: AbortSignal; passed(): boolean; clear(): void };

export function deadline(outer: AbortSignal, ms: number): Deadline {
  const inner = new AbortController();
  const stop = () => inner.abort(outer.reason);
  let passed = false;
  const timer = setTimeout(() => {
    passed = !inner.signal.aborted;
    inner.abort(new Error(`over after ${ms} ms`));
  }, ms);
  outer.addEventListener('abort', stop, { once: true });
  if (outer.aborted) stop();
  return {
    signal: inner.signal,
    passed: () => passed,
    clear() {
      clearTimeout(timer);
      outer.removeEventListener('abort', stop);
    },
  };
}
