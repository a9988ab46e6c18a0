import { useSignal } from '@preact/signals';
import { useEffect } from 'preact/hooks';
import { requestJson } from '../data/api.ts';
import { describeProblem } from '../data/session.ts';

/** `problem`: why loading failed. */
type Answer<T> = { value: T | undefined; problem: string | undefined };

/** Loads a value, and loads it again when one of `reasons` changes; the previous value stays meanwhile. */
export function useAnswer<T>(load: (ends: AbortSignal) => Promise<T>, reasons: readonly unknown[]): Answer<T> {
  const answer = useSignal<Answer<T>>({ value: undefined, problem: undefined });
  useEffect(() => {
    const ends = new AbortController();
    load(ends.signal).then(
      (value) => {
        if (!ends.signal.aborted) answer.value = { value, problem: undefined };
      },
      (error: unknown) => {
        if (!ends.signal.aborted) answer.value = { value: undefined, problem: describeProblem(error) };
      },
    );
    return () => ends.abort();
  }, reasons);
  return answer.value;
}

/** Loads what the API answers at a path, and again when the path or `reason` changes. */
export const useJson = <T>(path: string, reason?: unknown): Answer<T> =>
  useAnswer((signal) => requestJson<T>(path, { signal }), [path, reason]);

const TICK_MS = 1000;

/** The current time, updated as long as `goesOn`. */
export function useNow(goesOn: boolean): number {
  const now = useSignal(Date.now());
  useEffect(() => {
    now.value = Date.now();
    if (!goesOn) return;
    const timer = setInterval(() => {
      now.value = Date.now();
    }, TICK_MS);
    return () => clearInterval(timer);
  }, [goesOn]);
  return now.value;
}
