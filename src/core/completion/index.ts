import { unwrapped } from '../text/unwrapped.ts';
import { wordsOf } from '../text/words.ts';
import { type Tag, taggedLines, tagsOf } from './brackets.ts';
import { markerOf } from './markers.ts';
import { isOfAnother } from './named.ts';
import { weigh } from './signs.ts';
import { hasTimedOut } from './timeout.ts';
import { turnOf } from './transitions.ts';
import { readTurn } from './turn.ts';
import { type Veto, vetoOf } from './vetoes.ts';

/** What is known about a turn beside its text. Anything left out is unknown, never "none". */
export interface StepTurn {
  /** Turns of this step before this one: 0 on its first. */
  readonly iterationInStep: number;
  /** Turns without a sign after which a step is reported as timed out. */
  readonly stepIterations?: number | undefined;
  /** A tool of this turn failed and none after it succeeded. */
  readonly lastToolFailed?: boolean | undefined;
  readonly stepDescription?: string | undefined;
  /** Descriptions of all steps of the plan, in order, and the index of the current one. */
  readonly steps?: readonly string[] | undefined;
  readonly stepIndex?: number | undefined;
  /** Names of the tools called in this turn, and the main argument of each: a path, a command, a query. */
  readonly tools?: readonly string[] | undefined;
  readonly args?: readonly string[] | undefined;
  /** The same of the earlier turns of this step, oldest first, and their texts. */
  readonly toolsInStep?: readonly (readonly string[])[] | undefined;
  readonly argsInStep?: readonly (readonly string[])[] | undefined;
  readonly textsInStep?: readonly string[] | undefined;
  /** This turn calls no tool, so the run would end here. */
  readonly final?: boolean | undefined;
  /** A person spoke just before this turn. */
  readonly userTurn?: boolean | undefined;
  /** Language of the conversation, if known. All rules hold in every language, so nothing depends on it. */
  readonly language?: string | undefined;
  /** This run has closed a step by marker before: then signs in prose need a wider margin. */
  readonly markersInRun?: boolean | undefined;
}

type Tier = 'marker' | 'transition' | 'timeout';

export interface Verdict {
  readonly done: boolean;
  readonly tier: Tier | null;
  /** The words that decided it, short. */
  readonly evidence?: string;
  readonly veto?: Veto;
  /** Index of the step that is now being worked on, when the turn names it. */
  readonly advanceTo?: number;
}

/** Weighed signs must reach this to close a step; see docs/detection.md for the curve it was chosen on. */
const BAR = 2.9;
/** What an agent that writes markers must show beyond that: it would have written one. */
const MARKER_MARGIN = 1;
const DEFAULT_STEP_ITERATIONS = 5;
const EVIDENCE_LENGTH = 160;

/**
 * Whether the current step is done after this turn. Strict order, the first that speaks decides: a veto, an explicit
 * marker, a transition, the timeout. Pure and total; never throws, whatever the text. A transition is weighed against
 * the plan where `steps` and `stepIndex` are given; without them a sentence-initial transition word counts from the
 * second turn of the step on. A timeout is reported, not decided: the caller asks before it believes.
 */
export function detectStepCompletion(answer: string, turn: StepTurn): Verdict {
  const text = unwrapped(answer);
  const lines = taggedLines(text);
  const veto = vetoOf(lines, turn.lastToolFailed === true);
  if (veto) return { done: false, tier: null, veto: veto.veto, ...evidenceOf(veto.evidence) };
  const marker = markerOf(tagsOf(lines).filter((tag) => !speaksOfAnother(tag, turn)));
  if (marker) return { done: true, tier: 'marker', ...evidenceOf(lineOf(marker)) };
  const transition = transitionOf(text, turn);
  if (transition) return { done: true, tier: 'transition', ...transition };
  const stepIterations = turn.stepIterations ?? DEFAULT_STEP_ITERATIONS;
  return hasTimedOut({ ...turn, text, stepIterations }) ? { done: true, tier: 'timeout' } : { done: false, tier: null };
}

const speaksOfAnother = (tag: Tag, { steps, stepIndex }: StepTurn): boolean =>
  steps?.[stepIndex ?? -1] !== undefined && stepIndex !== undefined && isOfAnother(tag, steps, stepIndex);

function transitionOf(text: string, turn: StepTurn): Pick<Verdict, 'evidence' | 'advanceTo'> | undefined {
  const { steps, stepIndex } = turn;
  const margin = turn.markersInRun || turn.textsInStep?.some(hasMarker) ? MARKER_MARGIN : 0;
  if (steps !== undefined && stepIndex !== undefined && steps[stepIndex] !== undefined) {
    const { weight, evidence, advanceTo } = weigh(readTurn(text, { ...turn, steps, stepIndex }));
    if (weight < BAR + margin) return undefined;
    return { ...evidenceOf(evidence), ...(advanceTo === undefined ? {} : { advanceTo }) };
  }
  if (turn.iterationInStep < 1 || margin > 0) return undefined;
  const sentence = turnOf(text);
  if (sentence === undefined || isAbout(sentence, turn.stepDescription ?? '')) return undefined;
  return evidenceOf(sentence);
}

/** "Now let me download the PDF files" begins the step of that name; it does not end it. */
function isAbout(sentence: string, description: string): boolean {
  const words = wordsOf(description);
  const said = wordsOf(sentence);
  const shared = [...words].filter((word) => said.has(word)).length;
  return words.size > 0 && shared * 2 >= words.size;
}

const hasMarker = (text: string): boolean => markerOf(tagsOf(taggedLines(text))) !== undefined;
const lineOf = (tag: Tag): string => `${tag.before.slice(-80)}${tag.raw}${tag.after.slice(0, 40)}`;

/** Cut by code points; half a character that an earlier cut left at an end goes too. */
const TORN = /^[\uDC00-\uDFFF]|[\uD800-\uDBFF]$/;
function evidenceOf(text: string): { evidence?: string } {
  const letters = [
    ...text
      .trim()
      .slice(0, EVIDENCE_LENGTH * 2)
      .replace(TORN, '')
      .replace(TORN, ''),
  ];
  if (letters.length === 0) return {};
  return {
    evidence:
      letters.length > EVIDENCE_LENGTH ? `${letters.slice(0, EVIDENCE_LENGTH - 1).join('')}…` : letters.join(''),
  };
}
