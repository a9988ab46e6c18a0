import { createHash } from 'node:crypto';
import { type Chance, chanceOf } from '../../sim/chance.ts';

/** An independent random stream for one purpose, so that other uses of the seed do not affect it. */
export const chanceFor = (seed: number, ...what: Array<string | number>): Chance =>
  chanceOf(
    createHash('sha256')
      .update([seed, ...what].join('/'))
      .digest()
      .readUInt32LE(),
  );

/** A random choice by weight. */
export function weighted<T>(chance: Chance, choices: ReadonlyArray<readonly [number, T]>): T {
  let left = chance.below(choices.reduce((sum, [weight]) => sum + weight, 0));
  for (const [weight, choice] of choices) {
    left -= weight;
    if (left < 0) return choice;
  }
  throw new Error('expected at least one choice with a weight');
}

/** Names that break code which uses foreign ids as keys of plain objects. */
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

/** A description of a step or task. */
export const work = (chance: Chance): string =>
  chance.oneIn(4) ? `${chance.of(WORK)} ${chance.below(90) + 1}` : chance.of(WORK);

/** The id of a step, which may not exist. */
export const stepId = (chance: Chance): string =>
  chance.oneIn(8) ? chance.of(HOSTILE) : chance.oneIn(4) ? chance.of(['a', 'b', 'map']) : `step_${chance.below(5) + 1}`;

/** A tag in every message of a session, which identifies the session in requests. */
export const tagOf = (session: string): string => `(ref-${session})`;

/** The session whose tag is in a text. */
export const sessionIn = (text: string): string | undefined => /\(ref-(\w+)\)/.exec(text)?.[1];
