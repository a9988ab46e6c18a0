import { createHash } from 'node:crypto';
import { type Chance, chanceOf } from '../../tests/sim/chance.ts';

/** Chance of its own for one thing of a seed, so that what happens elsewhere does not change it. */
export const chanceFor = (seed: number, ...what: Array<string | number>): Chance =>
  chanceOf(
    createHash('sha256')
      .update([seed, ...what].join('/'))
      .digest()
      .readUInt32LE(),
  );

/** One of these, as often as its weight says. */
export function weighted<T>(chance: Chance, choices: ReadonlyArray<readonly [number, T]>): T {
  let left = chance.below(choices.reduce((sum, [weight]) => sum + weight, 0));
  for (const [weight, choice] of choices) {
    left -= weight;
    if (left < 0) return choice;
  }
  throw new Error('wanted at least one choice with a weight');
}

/** Names that break code which keeps foreign ids as properties of plain objects. */
export const HOSTILE = ['constructor', 'toString', 'hasOwnProperty', '__proto__', 'valueOf'] as const;

const WORK = [
  'Find the reports',
  'Count the lines of notes.txt',
  'Write the summary',
  'Download the table',
  'Draw the chart',
  'Compare both lists',
  'Check the totals',
  '[SEARCH] Look for the source',
  '[WRITE] Write the letter',
  '找到所有的报告',
  '统计每个文件的行数',
  '写一份总结',
  '检查结果是否正确',
] as const;

/** What a step or a task may be about. */
export const work = (chance: Chance): string =>
  chance.oneIn(4) ? `${chance.of(WORK)} ${chance.below(90) + 1}` : chance.of(WORK);

/** Ids a plan may have, and some that it has not. */
export const stepId = (chance: Chance): string =>
  chance.oneIn(8) ? chance.of(HOSTILE) : chance.oneIn(4) ? chance.of(['a', 'b', 'map']) : `step_${chance.below(5) + 1}`;

/** Tells every message of a session, and so every request that carries it, from those of other sessions. */
export const tagOf = (session: string): string => `(ref-${session})`;

/** The session whose people this text comes from. */
export const sessionIn = (text: string): string | undefined => /\(ref-(s\d+)\)/.exec(text)?.[1];
