import type { BracketTag } from '../text/bracket-tags.ts';
import { findTags, linesWithTags } from '../text/bracket-tags.ts';
import { contentWords } from '../text/content-words.ts';
import { PLACEHOLDER } from '../text/prose.ts';
import { readAnswer, textOfJsonAnswer } from './answer-reading.ts';
import { findDoneMarker, isMarkerOfOtherStep } from './done-markers.ts';
import { toolKindOf } from './plan-vocabulary.ts';
import { findTransitionSentence } from './statements.ts';
import { type CompletionVeto, findVeto } from './step-tags.ts';
import { weighTransition } from './transition-signals.ts';

/** What is known about a turn besides its text. A missing field is unknown, never "none". */
export interface StepTurn {
  /** Turns of this step before this one: 0 on its first. */
  readonly iterationInStep: number;
  /** Turns without a signal after which a step is reported as timed out. */
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
  /** The same for the earlier turns of this step, oldest first, and their texts. */
  readonly toolsInStep?: readonly (readonly string[])[] | undefined;
  readonly argsInStep?: readonly (readonly string[])[] | undefined;
  readonly textsInStep?: readonly string[] | undefined;
  /** This turn calls no tool, so the run would end here. */
  readonly final?: boolean | undefined;
  /** A person wrote just before this turn. */
  readonly userTurn?: boolean | undefined;
  /** A marker has closed a step of this run before: signals in prose then need a wider margin. */
  readonly markersInRun?: boolean | undefined;
}

type CompletionTier = 'marker' | 'transition' | 'timeout';

export interface StepVerdict {
  readonly done: boolean;
  readonly tier: CompletionTier | null;
  /** The words that decided it, shortened. */
  readonly evidence?: string;
  readonly veto?: CompletionVeto;
  /** The signals of a transition are there, but too weak to close the step. */
  readonly isInDoubt?: true;
  /** Index of the step now being worked on, if the turn names it. */
  readonly advanceTo?: number;
}

/** The weighted sum of signals that closes a step; see docs/detection.md for the curve it was chosen on. */
const TRANSITION_THRESHOLD = 2.6;
/** From this weight on it is in doubt whether the step is done: worth a question. */
const DOUBT_THRESHOLD = 1;
/** The additional weight needed from a model that writes markers: it would have written one. */
const MARKER_MARGIN = 1.5;
const DEFAULT_STEP_ITERATIONS = 5;
const EVIDENCE_LENGTH = 160;

/**
 * Decides whether the current step is done after this turn. In strict order, the first that applies decides: a veto, an
 * explicit marker, a transition, the timeout. Pure and total; never throws, whatever the text. A transition is weighed
 * against the plan if `steps` and `stepIndex` are given; without them a sentence-initial transition word counts from
 * the second turn of the step. A timeout is only reported: the caller asks the model before closing the step.
 */
export function detectStepCompletion(answer: string, turn: StepTurn): StepVerdict {
  const text = textOfJsonAnswer(answer);
  const lines = linesWithTags(text);
  const veto = findVeto(lines, turn.lastToolFailed === true);
  if (veto) return { done: false, tier: null, veto: veto.veto, ...shortEvidence(veto.evidence) };
  const marker = findDoneMarker(findTags(lines).filter((tag) => !isAboutOtherStep(tag, turn)));
  if (marker) return { done: true, tier: 'marker', ...shortEvidence(tagContext(marker)) };
  const transition = findTransition(text, turn);
  if (transition && !transition.isInDoubt) return { done: true, tier: 'transition', ...transition };
  const stepIterations = turn.stepIterations ?? DEFAULT_STEP_ITERATIONS;
  if (hasTimedOut({ ...turn, text, stepIterations })) return { done: true, tier: 'timeout' };
  return { done: false, tier: null, ...(transition && { isInDoubt: true }) };
}

const isAboutOtherStep = (tag: BracketTag, { steps, stepIndex }: StepTurn): boolean =>
  steps?.[stepIndex ?? -1] !== undefined && stepIndex !== undefined && isMarkerOfOtherStep(tag, steps, stepIndex);

function findTransition(
  text: string,
  turn: StepTurn,
): Pick<StepVerdict, 'evidence' | 'advanceTo' | 'isInDoubt'> | undefined {
  const { steps, stepIndex } = turn;
  const margin = turn.markersInRun || turn.textsInStep?.some(hasMarker) ? MARKER_MARGIN : 0;
  if (steps !== undefined && stepIndex !== undefined && steps[stepIndex] !== undefined) {
    const { weight, evidence, advanceTo } = weighTransition(readAnswer(text, { ...turn, steps, stepIndex }));
    // Who writes markers would have written one: nothing to ask.
    if (weight < TRANSITION_THRESHOLD + margin)
      return weight < DOUBT_THRESHOLD || margin > 0 ? undefined : { isInDoubt: true };
    return { ...shortEvidence(evidence), ...(advanceTo === undefined ? {} : { advanceTo }) };
  }
  if (turn.iterationInStep < 1 || margin > 0) return undefined;
  const sentence = findTransitionSentence(text);
  if (sentence === undefined || isAboutStep(sentence, turn.stepDescription ?? '')) return undefined;
  return shortEvidence(sentence);
}

/** "Now let me download the PDF files" starts the step of that name; it does not end it. */
function isAboutStep(sentence: string, description: string): boolean {
  const words = contentWords(description);
  const mentioned = contentWords(sentence);
  const shared = [...words].filter((word) => mentioned.has(word)).length;
  return words.size > 0 && shared * 2 >= words.size;
}

const hasMarker = (text: string): boolean => findDoneMarker(findTags(linesWithTags(text))) !== undefined;
const tagContext = (tag: BracketTag): string => `${tag.before.slice(-80)}${tag.raw}${tag.after.slice(0, 40)}`;

/** Cut by code points; half a surrogate pair left at an end by an earlier cut goes too. */
const TORN_SURROGATE = /^[\uDC00-\uDFFF]|[\uD800-\uDBFF]$/;
/** People read it: where code or a quotation was left out, it says "…". */
function shortEvidence(text: string): { evidence?: string } {
  const letters = [
    ...text
      .trim()
      .replaceAll(PLACEHOLDER, '…')
      .slice(0, EVIDENCE_LENGTH * 2)
      .replace(TORN_SURROGATE, '')
      .replace(TORN_SURROGATE, ''),
  ];
  if (letters.length === 0) return {};
  return {
    evidence:
      letters.length > EVIDENCE_LENGTH ? `${letters.slice(0, EVIDENCE_LENGTH - 1).join('')}…` : letters.join(''),
  };
}

export interface StepPace {
  readonly iterationInStep: number;
  readonly stepIterations: number;
  readonly text: string;
  readonly tools?: readonly string[] | undefined;
  readonly args?: readonly string[] | undefined;
  readonly toolsInStep?: readonly (readonly string[])[] | undefined;
  readonly argsInStep?: readonly (readonly string[])[] | undefined;
  readonly textsInStep?: readonly string[] | undefined;
}

/**
 * Whether a step has gone on too long without a signal. Stateless: true from the limit on. If the earlier calls of the
 * step are known, only stagnation times out: `stepIterations` turns in a row without a new target, a new text or a
 * change. In real transcripts steps take a median of 3 turns, but every tenth takes more than 13, and the plain limit
 * is right once in fourteen times.
 */
function hasTimedOut(pace: StepPace): boolean {
  const { iterationInStep, stepIterations } = pace;
  if (iterationInStep < stepIterations) return false;
  if (pace.args === undefined || pace.argsInStep === undefined) return true;
  return !hasProgressed(pace);
}

function hasProgressed({ stepIterations, text, tools, args, toolsInStep, argsInStep, textsInStep }: StepPace): boolean {
  // The main argument of an edit is its file, so the same argument may well be another edit.
  const edits = [...(toolsInStep ?? []), tools ?? []].slice(-stepIterations).flat();
  if (edits.some((tool) => toolKindOf(tool) === 'edit')) return true;
  return (
    hasNewEntries([...(argsInStep ?? []), args ?? []], stepIterations) ||
    hasNewEntries(
      [...(textsInStep ?? []), text].map((earlier) => [earlier.trim()]),
      stepIterations,
    )
  );
}

/** Whether the last `span` turns contain anything that no earlier turn of the step contained. */
function hasNewEntries(turns: readonly (readonly string[])[], span: number): boolean {
  const seen = new Set(turns.slice(0, -span).flat());
  return turns.slice(-span).some((turn) => turn.some((thing) => thing !== '' && !seen.has(thing)));
}
