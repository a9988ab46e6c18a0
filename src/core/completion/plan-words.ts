import { isPair, wordsOf } from '../text/words.ts';
import { filesOfStep } from './files.ts';
import { kindOfStep, type ToolKind } from './tool-kinds.ts';

/** Words with what each is worth, and what all of them are worth together. */
interface Worth {
  readonly words: readonly (readonly [string, number])[];
  readonly total: number;
}

/** A later step set against the current one: the words that only one of the two has. */
export interface Rival {
  readonly index: number;
  readonly kind: ToolKind;
  readonly theirs: Worth;
  readonly ours: Worth;
  /** Names of files that the later step names and the current one does not. */
  readonly theirFiles: ReadonlySet<string>;
}

/** The open end of a plan, as words to compare a turn with. */
export interface PlanWords {
  readonly currentKind: ToolKind;
  readonly rivals: readonly Rival[];
}

/** How much of two steps' distinguishing words a text uses, each from 0 to 1. */
export interface Lead {
  readonly later: number;
  readonly current: number;
}

const NONE: Lead = { later: 0, current: 0 };

/** The same plan is asked about at every turn. The memo is bounded and changes no answer. */
const memo = new Map<string, PlanWords>();
const MEMO_SIZE = 200;

export function planWords(steps: readonly string[], current: number): PlanWords {
  const key = `${current}\n${steps.join('\n')}`;
  const known = memo.get(key);
  if (known) return known;
  const plan = readPlan(steps, current);
  if (memo.size >= MEMO_SIZE) memo.clear();
  memo.set(key, plan);
  return plan;
}

function readPlan(steps: readonly string[], current: number): PlanWords {
  const words = steps.map(wordsOf);
  const files = steps.map(filesOfStep);
  const kinds = steps.map(kindOfStep);
  const sharedBy = new Map<string, number>();
  for (const step of words) for (const word of step) sharedBy.set(word, (sharedBy.get(word) ?? 0) + 1);
  const own = words[current] ?? new Set();
  const ownFiles = files[current] ?? new Set();
  const rivals = steps.flatMap((_, index): Rival[] => {
    const [theirs, theirFiles, kind] = [words[index], files[index], kinds[index]];
    if (index <= current || !theirs || !theirFiles || !kind) return [];
    return [
      {
        index,
        kind,
        theirs: worthOf(without(theirs, own), sharedBy),
        ours: worthOf(without(own, theirs), sharedBy),
        theirFiles: new Set(without(theirFiles, ownFiles)),
      },
    ];
  });
  return { currentKind: kinds[current] ?? 'other', rivals };
}

const without = (some: ReadonlySet<string>, others: ReadonlySet<string>): string[] =>
  [...some].filter((thing) => !others.has(thing));

/** A word that many steps of the plan have says little: each is worth one over the number of steps that have it. */
function worthOf(words: readonly string[], sharedBy: ReadonlyMap<string, number>): Worth {
  const worths = words.map((word) => [word, 1 / (sharedBy.get(word) ?? 1)] as const);
  return { words: worths, total: worths.reduce((sum, [word, worth]) => sum + worth * (isPair(word) ? PAIR : 1), 0) };
}

/** Every second pair of characters straddles two words, so a text that has all words has little more than half the pairs. */
const PAIR = 0.6;

/** How far a text takes the words of the rival, and how far those of the current step. */
export const leadOf = (rival: Rival, said: ReadonlySet<string>): Lead =>
  said.size === 0 ? NONE : { later: share(rival.theirs, said), current: share(rival.ours, said) };

function share({ words, total }: Worth, said: ReadonlySet<string>): number {
  let hit = 0;
  for (const [word, worth] of words) if (said.has(word)) hit += worth;
  return total === 0 ? 0 : Math.min(1, hit / total);
}
