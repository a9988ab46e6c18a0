/** Runs jobs one after another, in the order they were requested. A failed job does not stop the next. */
export function createMutex(): <T>(job: () => Promise<T>) => Promise<T> {
  let tail: Promise<unknown> = Promise.resolve();
  return (job) => {
    const mine = tail.then(job);
    tail = mine.catch(() => undefined);
    return mine;
  };
}
