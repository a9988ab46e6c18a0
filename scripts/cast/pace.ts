import type { Line } from './record.ts';

/** From `at` seconds on, `rows` rows are shown. */
export type Frame = { at: number; rows: number };

const SECONDS = 20;
const LONGEST = 4;
/** Lines within this many seconds are shown together, since nobody sees the difference. */
const TOGETHER = 0.03;

/** When rows appear: the real gaps, scaled so that everything takes about 20 seconds and no gap more than 4. */
export function paced(lines: Line[]): Frame[] {
  const stretch = SECONDS / Math.max(lines.at(-1)?.at ?? 0, 1);
  const frames: Frame[] = [];
  let [at, last] = [0, 0];
  lines.forEach((line, n) => {
    const gap = line.at - last;
    if (n > 0 && gap < TOGETHER) frames.pop();
    else at += Math.min(gap * stretch, LONGEST);
    frames.push({ at, rows: n + 1 });
    last = line.at;
  });
  return frames;
}
