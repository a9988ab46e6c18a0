import { labelsOf, type Run } from './corpus.ts';

/** What a detector is told beside the text, in the shape of `detectStepCompletion`, and which turn of the run it is. */
interface Context {
  language: string;
  stepDescription: string;
  steps: readonly string[];
  stepIndex: number;
  tools: readonly string[];
  args: readonly string[];
  toolsInStep: readonly (readonly string[])[];
  argsInStep: readonly (readonly string[])[];
  textsInStep: readonly string[];
  final: boolean;
  userTurn: boolean;
}
export type Detector = (text: string, iterationInStep: number, context: Context) => {
  done: boolean;
  tier: string | null;
  advanceTo?: number;
  isInDoubt?: boolean;
};

interface Rates {
  precision: number;
  recall: number;
  f1: number;
}
export interface Score {
  turns: number;
  positives: number;
  /** The state follows the truth: is each single turn judged rightly? */
  sync: Rates;
  falseAdvancesPer100: number;
  languages: Record<string, Rates>;
  /** How often each tier fired and was right. */
  tiers: Record<string, { fires: number; right: number }>;
  /** The state follows the detector, as in a daemon: boundaries matched exactly, and within one turn. */
  cascade: { exact: Rates; within1: Rates };
  /** Share of runs in which the detector had used up all steps at least two turns before the last completion. */
  usedUpEarly: number;
}

/** `plan`: without hindsight, the current step is the first open one in the order of the plan. */
export type Order = 'done' | 'plan';

const rates = (hits: number, false_: number, missed: number): Rates => {
  const precision = hits / (hits + false_ || 1);
  const recall = hits / (hits + missed || 1);
  return { precision, recall, f1: precision + recall > 0 ? (2 * precision * recall) / (precision + recall) : 0 };
};

export function score(runs: readonly Run[], detect: Detector, order: Order = 'done'): Score {
  const judged = runs.map((run) => ({ run, sync: synchronised(run, detect, order), cascade: cascading(run, detect, order) }));
  const sum = (of: (one: (typeof judged)[number]) => number): number => judged.reduce((total, one) => total + of(one), 0);
  const overall = (part: typeof judged): Rates =>
    rates(
      part.reduce((n, { sync }) => n + sync.hits.length, 0),
      part.reduce((n, { sync }) => n + sync.falseOnes.length, 0),
      part.reduce((n, { sync }) => n + sync.missed, 0),
    );
  const turns = sum(({ run }) => run.turns.length);
  const tiers: Score['tiers'] = {};
  for (const { sync } of judged) {
    for (const fired of [...sync.hits, ...sync.falseOnes]) (tiers[fired] ??= { fires: 0, right: 0 }).fires++;
    for (const hit of sync.hits) (tiers[hit] ??= { fires: 0, right: 0 }).right++;
  }
  const boundary = (key: 'exact' | 'within1'): Rates =>
    rates(sum(({ cascade }) => cascade[key]), sum(({ cascade }) => cascade.fired - cascade[key]), sum(({ cascade }) => cascade.gold - cascade[key]));
  return {
    turns,
    positives: sum(({ cascade }) => cascade.gold),
    sync: overall(judged),
    falseAdvancesPer100: (100 * sum(({ sync }) => sync.falseOnes.length)) / turns,
    languages: Object.fromEntries(
      [...new Set(runs.map((run) => run.language))].map((language) => [language, overall(judged.filter(({ run }) => run.language === language))]),
    ),
    tiers,
    cascade: { exact: boundary('exact'), within1: boundary('within1') },
    usedUpEarly: sum(({ cascade }) => (cascade.early ? 1 : 0)) / runs.length,
  };
}

function contextOf(run: Run, index: number, start: number, stepIndex: number): Context {
  const turn = run.turns[index];
  const before = run.turns.slice(start, index);
  return {
    language: run.language,
    stepDescription: run.steps[stepIndex] ?? '',
    steps: run.steps,
    stepIndex,
    tools: turn?.tools ?? [],
    args: turn?.args ?? [],
    toolsInStep: before.map((one) => one.tools),
    argsInStep: before.map((one) => one.args),
    textsInStep: before.map((one) => one.text),
    final: turn?.tools.length === 0,
    userTurn: Boolean(turn?.user),
  };
}

function synchronised(run: Run, detect: Detector, order: Order): { hits: string[]; falseOnes: string[]; missed: number } {
  const labels = labelsOf(run);
  const done = new Set<number>();
  const result = { hits: [] as string[], falseOnes: [] as string[], missed: 0 };
  let start = 0;
  for (const [index, turn] of run.turns.entries()) {
    const firstOpen = run.steps.findIndex((_, step) => !done.has(step));
    const inOrder = firstOpen < 0 ? run.steps.length - 1 : firstOpen;
    const trulyNext = order === 'plan' ? undefined : labels.slice(index).find((label) => label.length > 0)?.[0];
    const verdict = detect(turn.text, index - start, contextOf(run, index, start, trulyNext ?? inOrder));
    const isTrue = (labels[index]?.length ?? 0) > 0;
    if (verdict.done) (isTrue ? result.hits : result.falseOnes).push(verdict.tier ?? '?');
    else if (isTrue) result.missed++;
    if (!isTrue) continue;
    for (const step of labels[index] ?? []) done.add(step);
    start = index + 1;
  }
  return result;
}

function cascading(run: Run, detect: Detector, order: Order): { exact: number; within1: number; fired: number; gold: number; early: boolean } {
  const labels = labelsOf(run);
  const gold = labels.flatMap((label, index) => (label.length > 0 ? [index] : []));
  const completed = labels.flat();
  const path = order === 'plan' ? [...new Set(completed)].sort((a, b) => a - b) : completed;
  const steps = new Set(completed).size;
  const fired: number[] = [];
  let position = 0;
  let start = 0;
  for (const [index, turn] of run.turns.entries()) {
    if (position >= steps) break;
    const verdict = detect(turn.text, index - start, contextOf(run, index, start, path[position] ?? run.steps.length - 1));
    if (!verdict.done) continue;
    fired.push(index);
    const to = verdict.advanceTo === undefined ? -1 : path.indexOf(verdict.advanceTo);
    position = Math.max(position + 1, to);
    start = index + 1;
  }
  const early = position >= steps && fired.length > 0 && (fired.at(-1) ?? 0) < Math.max(...gold, 0) - 1;
  return { exact: matched(fired, gold, 0), within1: matched(fired, gold, 1), fired: fired.length, gold: gold.length, early };
}

/** How many predictions find a boundary of their own within `tolerance` turns, the nearest first. */
function matched(predicted: readonly number[], gold: readonly number[], tolerance: number): number {
  const free = new Set(gold);
  const open = new Set(predicted);
  for (let distance = 0; distance <= tolerance; distance++) {
    for (const at of open) {
      const found = [at - distance, at + distance].find((index) => free.has(index));
      if (found === undefined) continue;
      free.delete(found);
      open.delete(at);
    }
  }
  return predicted.length - open.size;
}

export interface AskingScore {
  sync: Rates;
  falseAdvancesPer100: number;
  questionsPer100: number;
}

/**
 * The same where a model is asked about doubtful turns in its next request, at most once in `pause` turns of a step, with
 * the labels as an oracle in its place: it says whether the step was done at this turn or is at the next. A completion
 * that is found by asking counts although it is noticed a turn later.
 */
export function scoreAsking(runs: readonly Run[], detect: Detector, pause: number): AskingScore {
  let [hits, wrong, missed, questions, turns] = [0, 0, 0, 0, 0];
  for (const run of runs) {
    const { verdicts, isTrue } = turnByTurn(run, detect);
    turns += verdicts.length;
    let [asked, found] = [-Infinity, false];
    for (const [turn, verdict] of verdicts.entries()) {
      const isAnswer = asked === turn - 1;
      const closes = isAnswer ? isTrue[turn] === true : verdict.done;
      if (!isAnswer && !verdict.done && verdict.isInDoubt && turn - asked >= pause && turn + 1 < verdicts.length) {
        questions++;
        asked = turn;
        found = isTrue[turn] === true;
      } else found = closes && isTrue[turn] === true;
      if (found) hits++;
      else if (isTrue[turn]) missed++;
      else if (closes) wrong++;
    }
  }
  return { sync: rates(hits, wrong, missed), falseAdvancesPer100: (100 * wrong) / turns, questionsPer100: (100 * questions) / turns };
}

/** The verdict on each turn, with the state following the truth, and whether a step was done at it. */
function turnByTurn(run: Run, detect: Detector): { verdicts: ReturnType<Detector>[]; isTrue: boolean[] } {
  const verdicts: ReturnType<Detector>[] = [];
  synchronised(
    run,
    (...turn) => {
      const verdict = detect(...turn);
      verdicts.push(verdict);
      return verdict;
    },
    'done',
  );
  return { verdicts, isTrue: labelsOf(run).map((label) => label.length > 0) };
}
