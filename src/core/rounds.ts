/**
 * Stretches of work on steps of one plan. A stretch ends when its step is closed or fails, or after `step_iterations` iterations
 * in it; it is quiet where it completed nothing.
 */
export type Rounds = {
  ended: number;
  /** Of those that ended last, how many in a row were quiet. */
  quiet: number;
  /** Iterations of the stretch at hand. */
  iterations: number;
};

export const NO_ROUNDS: Rounds = { ended: 0, quiet: 0, iterations: 0 };

/** A stretch is over. */
export function roundEnded({ ended, quiet }: Rounds, completed: boolean): Rounds {
  return { ended: ended + 1, quiet: completed ? 0 : quiet + 1, iterations: 0 };
}

/** One more answer in a step. The stretch before it is over where it had as many as `length` and closed nothing. */
export function roundGoesOn(rounds: Rounds, length: number): Rounds {
  const { iterations, ...after } = rounds.iterations >= length ? roundEnded(rounds, false) : rounds;
  return { ...after, iterations: iterations + 1 };
}

/** Stretches that are never a standstill, and quiet ones in a row that are patience still (both as in Manus Demo). */
const WARM_UP = 5;
const PATIENCE = 3;

export function standsStill({ ended, quiet }: Rounds): boolean {
  return ended > WARM_UP && quiet > PATIENCE;
}
