import { setTimeout as sleep } from 'node:timers/promises';
import { READ, TASK } from './contender.ts';
import { type Endpoint, type Exchange, MARK, type Say } from './endpoint.ts';

/** The task of a session, which identifies the session in its requests. */
export const taskOf = (session: number): string => `${TASK} This is ${MARK}${session}.`;

/** Many sessions running at once. */
export type Crowd = {
  /** Resolves once all have sent a request, with the time of the last one. */
  gathered: Promise<number>;
  /** The exchanges of each session. */
  each(): Exchange[][];
};

/**
 * Scripts an endpoint for a number of sessions. The first request of each is answered only once all have sent one
 * (`hold`: never). After that, each request is answered after `thinkMs`: with calls for some iterations, then with
 * text.
 */
export function crowd(
  endpoint: Endpoint,
  sessions: number,
  { iterations, thinkMs = 0, hold = false }: { iterations: number; thinkMs?: number; hold?: boolean },
): Crowd {
  const asked = new Map<string, number>();
  let open: (at: number) => void = () => {};
  const gathered = new Promise<number>((resolve) => {
    open = resolve;
  });
  const answer = async (who: string): Promise<Say> => {
    const turn = asked.get(who) ?? 0;
    asked.set(who, turn + 1);
    if (turn === 0) {
      if (asked.size === sessions) open(performance.now());
      await (hold ? new Promise(() => {}) : gathered);
    }
    if (thinkMs > 0) await sleep(thinkMs);
    return turn < iterations ? READ : { text: 'That was all.' };
  };
  endpoint.script((_, who) => answer(who));
  return {
    gathered,
    each() {
      const known = new Map<string, Exchange[]>();
      for (const one of endpoint.exchanges) known.set(one.who, [...(known.get(one.who) ?? []), one]);
      return [...known.values()];
    },
  };
}
