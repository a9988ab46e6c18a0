import { readAnswer } from '../../src/core/detect/answer-reading.ts';
import { TRANSITION_SIGNALS } from '../../src/core/detect/transition-signals.ts';
import { labelsOf, type Run } from '../../tests/detection/corpus.ts';
import { type Detector, score } from '../../tests/detection/score.ts';

interface Example {
  readonly source: string;
  readonly values: readonly number[];
  readonly done: boolean;
}

const ROUNDS = 400;
const PULL_TO_ZERO = 1;

/**
 * How well the signals do on repositories that their weights were not fitted on: for each repository, the weights are
 * fitted on all others (logistic regression), and its turns are judged with those.
 */
export function leaveOneSourceOut(
  runs: readonly Run[],
  bar = 0.2,
): {
  precision: number;
  recall: number;
  f1: number;
  falseAdvancesPer100: number;
} {
  const examples = examplesOf(runs);
  let [hits, wrong, missed] = [0, 0, 0];
  for (const source of new Set(examples.map((one) => one.source))) {
    const weights = train(examples.filter((one) => one.source !== source));
    for (const one of examples.filter((example) => example.source === source)) {
      const fires = logit(weights, one.values) > bar;
      if (fires && one.done) hits++;
      else if (fires) wrong++;
      else if (one.done) missed++;
    }
  }
  const [precision, recall] = [hits / (hits + wrong), hits / (hits + missed)];
  return {
    precision,
    recall,
    f1: (2 * precision * recall) / (precision + recall),
    falseAdvancesPer100: (100 * wrong) / examples.length,
  };
}

/** Collects the examples that the scorer visits in each run, synchronised first. */
function examplesOf(runs: readonly Run[]): Example[] {
  return runs.flatMap((run) => {
    const values: number[][] = [];
    const listen: Detector = (text, iterationInStep, context) => {
      const turn = readAnswer(text, { iterationInStep, ...context });
      if (values.length < run.turns.length) values.push([1, ...TRANSITION_SIGNALS.map((sign) => sign.value(turn))]);
      return { done: false, tier: null };
    };
    score([run], listen);
    const labels = labelsOf(run);
    return values.map((own, index) => ({ source: run.source, values: own, done: (labels[index]?.length ?? 0) > 0 }));
  });
}

const logit = (weights: readonly number[], values: readonly number[]): number =>
  values.reduce((sum, value, index) => sum + value * (weights[index] ?? 0), 0);

/** Gradient descent with momentum; the problem is convex, so the start and the order do not matter. */
function train(examples: readonly Example[]): number[] {
  const size = TRANSITION_SIGNALS.length + 1;
  const weights = Array<number>(size).fill(0);
  const speed = Array<number>(size).fill(0);
  for (let round = 0; round < ROUNDS; round++) {
    const slope = weights.map((weight) => PULL_TO_ZERO * weight);
    for (const { values, done } of examples) {
      const error = 1 / (1 + Math.exp(-logit(weights, values))) - (done ? 1 : 0);
      for (let index = 0; index < size; index++) slope[index] = (slope[index] ?? 0) + error * (values[index] ?? 0);
    }
    for (let index = 0; index < size; index++) {
      speed[index] = 0.9 * (speed[index] ?? 0) - (0.8 * (slope[index] ?? 0)) / examples.length;
      weights[index] = (weights[index] ?? 0) + (speed[index] ?? 0);
    }
  }
  return weights;
}
