import { DOUBT_PAUSE } from '../../src/core/decide/judge-answer.ts';
import { detectStepCompletion, type StepTurn } from '../../src/core/detect/step-completion.ts';
import { countTextTokens } from '../../src/core/prompt/context-window.ts';
import { MODEL_WORDING } from '../../src/core/prompt/model-wording.ts';
import { wordList } from '../../tests/detection/baseline.ts';
import { loadCorpus, type Run, withMarkers } from '../../tests/detection/corpus.ts';
import { type AskingScore, type Detector, type Score, score, scoreAsking } from '../../tests/detection/score.ts';
import { leaveOneSourceOut } from './refit.ts';

/** The share of completions with a marker, since agents that are asked for markers do not always write them. */
const MARKED = 0.9;

/** The detector, trusted at every tier. */
export const agentd: Detector = (text, iterationInStep, context) =>
  detectStepCompletion(text, { iterationInStep, ...context });

/**
 * The same with the one fact that the engine knows and a corpus context lacks: whether this run has closed a step by
 * marker before. Runs are distinguished by their plan.
 */
export function agentdInRun(): Detector {
  const marked = new WeakSet<readonly string[]>();
  return (text, iterationInStep, context) => {
    const facts: StepTurn = { iterationInStep, ...context, markersInRun: marked.has(context.steps) };
    const verdict = detectStepCompletion(text, facts);
    if (verdict.tier === 'marker') marked.add(context.steps);
    return verdict;
  };
}

/**
 * The corpus table, as Markdown: the detector and the word-list baseline on the same turns; then the contribution of
 * each tier and language, and the time per turn. `refits`: also with refitted weights, which takes longest.
 */
export function detectionTable(corpusPath: string, { refits }: { refits: boolean }): string {
  const runs = loadCorpus(corpusPath);
  const marked = withMarkers(runs, MARKED);
  const scores: [string, Score][] = [
    ['word list', score(runs, wordList)],
    ['agentd', score(runs, agentd)],
    ['agentd, plan order', score(runs, agentd, 'plan')],
    [`word list, markers on ${100 * MARKED} %`, score(marked, wordList)],
    [`agentd, markers on ${100 * MARKED} %`, score(marked, agentd)],
    [`agentd, markers on ${100 * MARKED} %, run known`, score(marked, agentdInRun())],
  ];
  const plain = score(runs, agentd);
  const sources = new Set(runs.map((run) => run.source)).size;
  return [
    `${runs.length} runs from ${sources} repositories, ${plain.turns} turns, ${plain.positives} completions`,
    '',
    '| detector | P | R | F1 | false advances /100 turns | cascade F1 exact / ±1 | steps used up early |',
    '|---|---|---|---|---|---|---|',
    ...scores.map(([name, one]) => row(name, one)),
    '',
    '| asking, with an oracle | P | R | F1 | false advances /100 turns | questions /100 turns | their tokens |',
    '|---|---|---|---|---|---|---|',
    askingRow('as it is', scoreAsking(runs, withoutFinalDoubt, DOUBT_PAUSE)),
    '',
    ...(refits ? [`weights fitted again on all other repositories for each one: ${refitted(runs)}`] : []),
    `tiers: ${Object.entries(plain.tiers)
      .map(([tier, { fires, right }]) => `${tier} ${right} right of ${fires}`)
      .join(', ')}`,
    `languages: ${Object.entries(plain.languages)
      .map(([language, { f1 }]) => `${language} F1 ${short(f1)}`)
      .join(', ')}`,
    `time: ${timing(runs)}`,
  ].join('\n');
}

/** A turn without calls is followed by a reminder that asks the same. */
const withoutFinalDoubt: Detector = (text, iterationInStep, context) => {
  const verdict = agentd(text, iterationInStep, context);
  return context.final ? { ...verdict, isInDoubt: false } : verdict;
};

function askingRow(name: string, { sync, falseAdvancesPer100, questionsPer100 }: AskingScore): string {
  const tokens = questionsPer100 * countTextTokens(MODEL_WORDING.en.askedInDoubt('x'.repeat(40)));
  const cells = [
    name,
    ...[sync.precision, sync.recall, sync.f1].map(short),
    ...[falseAdvancesPer100, questionsPer100].map((one) => one.toFixed(1)),
    tokens.toFixed(0),
  ];
  return `| ${cells.join(' | ')} |`;
}

const short = (rate: number): string => rate.toFixed(3).replace(/^0/, '');

function row(name: string, { sync, falseAdvancesPer100, cascade, usedUpEarly }: Score): string {
  const cells = [
    name,
    ...[sync.precision, sync.recall, sync.f1].map(short),
    falseAdvancesPer100.toFixed(1),
    `${short(cascade.exact.f1)} / ${short(cascade.within1.f1)}`,
    `${(100 * usedUpEarly).toFixed(1)} % of runs`,
  ];
  return `| ${cells.join(' | ')} |`;
}

function refitted(runs: readonly Run[]): string {
  const { precision, recall, f1, falseAdvancesPer100 } = leaveOneSourceOut(runs);
  return `P ${short(precision)} R ${short(recall)} F1 ${short(f1)}, ${falseAdvancesPer100.toFixed(1)} false advances /100 turns`;
}

/** Microseconds per turn, each turn judged with the context it has in the synchronised run. */
function timing(runs: readonly Run[]): string {
  const micros: number[] = [];
  score(runs, (text, iterationInStep, context) => {
    const began = process.hrtime.bigint();
    const verdict = agentd(text, iterationInStep, context);
    micros.push(Number(process.hrtime.bigint() - began) / 1000);
    return verdict;
  });
  micros.sort((a, b) => a - b);
  const at = (share: number): string => (micros[Math.floor(micros.length * share)] ?? 0).toFixed(0);
  return `${at(0.5)} µs per turn at the median, ${at(0.99)} µs at the 99th percentile (Node ${process.versions.node})`;
}
