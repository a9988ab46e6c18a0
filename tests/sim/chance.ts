/** Chance that can be had again: the same seed gives the same choices. */
export type Chance = {
  /** A whole number from 0 to n - 1. */
  below(n: number): number;
  oneIn(n: number): boolean;
  of<T>(list: readonly [T, ...T[]]): T;
};

/** Mulberry32, by Tommy Ettinger: 32 bits of state, good enough to pick a way. */
export function chanceOf(seed: number): Chance {
  let state = (seed + 0x9e3779b9) | 0;
  const next = () => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  };
  const below = (n: number) => Math.floor(next() * n);
  return { below, oneIn: (n) => below(n) === 0, of: (list) => list[below(list.length)] ?? list[0] };
}
