/** Runs jobs one after another, in the order they were requested. A failed job does not stop the next. */
export function createMutex(): <T>(job: () => Promise<T>) => Promise<T> {
  let tail: Promise<unknown> = Promise.resolve();
  return (job) => {
    const mine = tail.then(job);
    tail = mine.catch(() => undefined);
    return mine;
  };
}

/** Runs at most `most` jobs at a time, in the order they were requested. */
export function createLimiter(most: number): <T>(job: () => Promise<T>) => Promise<T> {
  const waiting: Array<() => void> = [];
  let free = most;
  return async (job) => {
    if (free > 0) free--;
    else await new Promise<void>((begin) => waiting.push(begin));
    try {
      return await job();
    } finally {
      const next = waiting.shift();
      if (next) next();
      else free++;
    }
  };
}

/**
 * For loops that do not wait by themselves: called between two pieces of work, it lets the event loop turn if `ms` have
 * passed since it last did, and throws the signal's reason if that was aborted.
 */
export function createPacer(ms: number, signal: AbortSignal): () => Promise<void> {
  let began = performance.now();
  return async () => {
    signal.throwIfAborted();
    if (performance.now() - began < ms) return;
    await new Promise(setImmediate);
    began = performance.now();
  };
}

/**
 * A signal that aborts when another signal does or when its time is up, whichever is first. `clear` cancels the timer.
 */
export type Deadline = { signal: AbortSignal; hasPassed(): boolean; clear(): void };

/** Starts a deadline of `ms` that also ends when `outer` aborts. Call `clear` once the work is done. */
export function startDeadline(outer: AbortSignal, ms: number): Deadline {
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
    hasPassed: () => passed,
    clear() {
      clearTimeout(timer);
      outer.removeEventListener('abort', stop);
    },
  };
}

/**
 * Waits for work that cannot be cancelled until it ends or the signal aborts. After that its result is ignored, and so
 * is its error: a rejection that nobody awaits ends the process.
 */
export async function raceAbort<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  work.catch(() => undefined);
  signal.throwIfAborted();
  let stop = (): void => undefined;
  const aborted = new Promise<never>((_, reject) => {
    stop = () => reject(signal.reason);
    signal.addEventListener('abort', stop, { once: true });
  });
  try {
    return await Promise.race([work, aborted]);
  } finally {
    signal.removeEventListener('abort', stop);
  }
}

/** Whether work that may never end has ended within `ms`, well or not. Its own error is then for its owner. */
export async function settlesWithin(work: Promise<unknown>, ms: number): Promise<boolean> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<false>((resolve) => {
    timer = setTimeout(resolve, ms, false);
  });
  const settled = () => true;
  return Promise.race([work.then(settled, settled), late]).finally(() => clearTimeout(timer));
}

/** Waits until it is done or `ms` have passed. Throws the signal's reason if that aborts. */
export async function waitAtMost(done: Promise<void>, ms: number, signal: AbortSignal): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  let stop = () => {};
  const over = new Promise<void>((resolve) => {
    timer = setTimeout(resolve, Math.max(0, ms));
    stop = resolve;
    signal.addEventListener('abort', stop, { once: true });
  });
  await Promise.race([done, over]).finally(() => {
    clearTimeout(timer);
    signal.removeEventListener('abort', stop);
  });
  signal.throwIfAborted();
}

/**
 * Loads when first asked, once for all who ask. A failure is not kept: while an update replaces the files of a program,
 * one may be missing for a moment.
 */
export function loadOnce<T>(load: () => Promise<T>): () => Promise<T> {
  let loading: Promise<T> | undefined;
  return () => {
    loading ??= load().catch((error) => {
      loading = undefined;
      throw error;
    });
    return loading;
  };
}
