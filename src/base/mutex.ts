/** Jobs one after another, in the order they were asked for. One that fails does not stop the next. */
export function createMutex(): <T>(job: () => Promise<T>) => Promise<T> {
  let tail: Promise<unknown> = Promise.resolve();
  return (job) => {
    const mine = tail.then(job);
    tail = mine.catch(() => undefined);
    return mine;
  };
}

/** One at a time, in the order asked. A task that throws does not hold up those behind it. */
export function createTaskQueue(): <T>(task: () => Promise<T>) => Promise<T> {
  let last: Promise<unknown> = Promise.resolve();
  return (task) => {
    const mine = last.then(task, task);
    last = mine.catch(() => undefined);
    return mine;
  };
}

export type Loop = {
  /**
   * Begins it unless it runs. It never runs in the caller's stack, so that whoever calls this may be called by the loop
   * itself.
   */
  start(): void;
  /** What to wait for while it runs, ready when its end was told; null where it does not run. Never rejects. */
  readonly running: Promise<void> | null;
};

/** A loop that never runs twice at once: it counts as running before its first step, whatever that step calls. */
export function oneLoop(run: () => Promise<void>, failed: (error: unknown) => void, ended: () => void): Loop {
  let running: Promise<void> | null = null;
  const over = () => {
    running = null;
    ended();
  };
  return {
    start() {
      running ??= Promise.resolve().then(run).catch(failed).finally(over);
    },
    get running() {
      return running;
    },
  };
}
