import { setTimeout as sleep } from 'node:timers/promises';
import { READ, TASK } from './contender.ts';
import { type Endpoint, type Exchange, MARK, type Say } from './endpoint.ts';

/** What the session of that number is asked to do; requests that come of it are known by it. */
export const taskOf = (session: number): string => `${TASK} This is ${MARK}${session}.`;

/** Many sessions at work at once. */
export type Crowd = {
  /** All of them have asked; the time the last one did. */
  gathered: Promise<number>;
  /** The exchanges of each. */
  each(): Exchange[][];
};

/**
 * Scripts an endpoint for so many sessions. Each one's first question is answered only once all have asked (`hold`: never). From then
 * on each is answered `thinkMs` after it asked, with a call until it has had so many, then in words.
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
