import type { Chance } from './chance.ts';

/** Something that is under way and ends when the scheduler lets it: a step of a port, a model call, a command. */
export type Waiting = { what: string; kind: 'port' | 'model' | 'tool'; go(): void };

/** All that is under way in one life of the daemon. A life that was ended takes nothing further. */
export type Gates = {
  waiting: Waiting[];
  /** Returns when the scheduler says so. */
  pass(what: string, kind?: Waiting['kind'], signal?: AbortSignal): Promise<void>;
  /** Lets one thing go on, chosen by chance; false where nothing is under way. */
  one(chance: Chance): boolean;
};

/** `ring`: called where something passes and where it goes on, as anything outside may wake the session at any time. */
export function gates(ring: () => void = () => {}): Gates {
  const waiting: Waiting[] = [];
  const leave = (one: Waiting) => {
    const at = waiting.indexOf(one);
    if (at >= 0) waiting.splice(at, 1);
  };
  return {
    waiting,
    pass: (what, kind = 'port', signal) =>
      new Promise((resolve, reject) => {
        ring();
        if (signal?.aborted) return reject(signal.reason);
        const one: Waiting = { what, kind, go: () => [ring(), resolve()] };
        waiting.push(one);
        signal?.addEventListener('abort', () => {
          leave(one);
          reject(signal.reason);
        });
      }),
    one(chance) {
      const one = waiting[chance.below(waiting.length)];
      if (!one) return false;
      leave(one);
      one.go();
      return true;
    },
  };
}

/** Returns when everything that needs no letting has happened. */
export const quiet = () => new Promise<void>((done) => setImmediate(done));
