import type { Language } from '../../protocol/settings/effective-settings.ts';
import { REPLY_WORDING } from '../messages/reply-wording.ts';
import type { Turn } from '../session/run-state.ts';
import { readTags } from '../text/bracket-tags.ts';
import { contentWords } from '../text/content-words.ts';
import {
  argumentWords,
  filesInArguments,
  type LaterStep,
  type PlanVocabulary,
  planVocabulary,
  type ToolKind,
  toolKindOf,
  type WordOverlap,
  wordOverlap,
} from './plan-vocabulary.ts';
import { withoutDoneMarkers } from './shown-text.ts';
import {
  isDenied,
  isForNow,
  mainClause,
  readStatements,
  reportsCompletion,
  reportsStepDone,
  type Statements,
  stepIndexByNumber,
  stepNumbersIn,
} from './statements.ts';

/** What is known besides the text. Undefined means unknown, never "none". */
export interface AnswerContext {
  readonly steps: readonly string[];
  readonly stepIndex: number;
  readonly iterationInStep: number;
  readonly tools?: readonly string[] | undefined;
  readonly args?: readonly string[] | undefined;
  readonly toolsInStep?: readonly (readonly string[])[] | undefined;
  readonly argsInStep?: readonly (readonly string[])[] | undefined;
  readonly final?: boolean | undefined;
  readonly userTurn?: boolean | undefined;
}

/** A turn read against its plan: everything the signals need. */
export interface AnswerReading {
  readonly context: AnswerContext;
  readonly statements: Statements;
  /** Sentences that say what is done now: the intentions, or the last sentence if there are none. */
  readonly currentIntentions: readonly string[];
  /** The later step this turn refers to most; undefined on the last step. */
  readonly target: TargetStep | undefined;
  readonly isLast: boolean;
  readonly toolKinds: ReadonlySet<ToolKind>;
  /** The kind of work this step asks for, and whether an earlier turn of it did any; undefined if unknown. */
  readonly currentKind: ToolKind;
  readonly currentKindSeen: boolean | undefined;
  /** Indices of the steps announced by number as started, and whether the current step is reported by number. */
  readonly numberedSteps: readonly number[];
  readonly completionReport: string | undefined;
}

interface TargetStep {
  readonly index: number;
  readonly words: WordOverlap;
  readonly args: WordOverlap;
  readonly heading: WordOverlap;
  readonly kind: ToolKind;
  readonly hasTargetFile: boolean;
}

export function readAnswer(text: string, context: AnswerContext): AnswerReading {
  const statements = readStatements(text);
  const { intentions, last } = statements;
  const sentences =
    intentions.length > 0 ? intentions.filter(isForNow).map(mainClause) : LEFT_OUT.test(last) ? [] : [last];
  const now = sentences.filter((sentence) => !isDenied(sentence) && !isListedAsOpen(sentence));
  const { steps, stepIndex } = context;
  const plan = planVocabulary(steps, stepIndex);
  const currentKind = plan.currentKind;
  return {
    context,
    statements,
    currentIntentions: now,
    target: findTargetStep(plan, now, statements.headings, context.args ?? []),
    isLast: stepIndex >= steps.length - 1,
    toolKinds: new Set(context.tools?.map(toolKindOf)),
    currentKind,
    currentKindSeen: context.toolsInStep?.some((tools) => tools.some((tool) => toolKindOf(tool) === currentKind)),
    numberedSteps: [
      ...[...statements.intentions, ...statements.headings].flatMap((sentence) => stepsBegunIn(sentence, steps, true)),
      ...statements.others.flatMap((sentence) => stepsBegunIn(sentence, steps, false)),
    ],
    completionReport: [...statements.others, ...statements.intentions, ...statements.headings].find((sentence) =>
      reportsStepDone(sentence, (number) => stepIndexByNumber(steps, number) === stepIndex),
    ),
  };
}

const OPEN_STATUS =
  /^(?:pending|to[ -]?do|open|waiting|not started|in progress|running|next|待办|待辦|待处理|待處理|未开始|未開始|进行中|進行中)$/iu;
/** An entry of an overview: "Draw the chart [Pending]", "[ ] Draw the chart". */
const isListedAsOpen = (sentence: string): boolean =>
  sentence.startsWith('[ ]') || readTags(sentence).some(({ inside }) => OPEN_STATUS.test(inside));

/** "Everything is done except the chart": named because it is not being worked on. */
const LEFT_OUT = /\bexcept\b|除了/i;

/** Announces what is named next: "moving on to", "进入". */
const ONWARD =
  /(?:\b(?:onward|on to|moving|proceed(?:ing)?|now|next|start(?:ing)?|begin(?:ning)?|weiter|jetzt|ahora|maintenant)\b|现在|現在|接下来|接下來|进入|進入|开始|開始|转到|轉到|次に)[^.。]*$/iu;

/**
 * Steps announced by number as started; "Task 5 complete" starts none, "Task 5 complete, moving on to Task 6" starts 6.
 */
function stepsBegunIn(sentence: string, steps: readonly string[], isTurn: boolean): number[] {
  const named = stepNumbersIn(sentence);
  if (named.length === 0) return [];
  const turns = isTurn && !reportsCompletion(sentence);
  return named
    .filter(({ before }) => turns || ONWARD.test(before))
    .map(({ number }) => stepIndexByNumber(steps, number));
}

function findTargetStep(
  { laterSteps }: PlanVocabulary,
  now: readonly string[],
  titles: readonly string[],
  args: readonly string[],
): TargetStep | undefined {
  const mentioned = contentWords(now.join(' '));
  const called = contentWords(args.map(argumentWords).join(' '));
  const titled = contentWords(titles.join(' '));
  let best: (Omit<TargetStep, 'hasTargetFile'> & { rival: LaterStep; lead: number }) | undefined;
  for (const rival of laterSteps) {
    const [words, argLead, heading] = [
      wordOverlap(rival, mentioned),
      wordOverlap(rival, called),
      wordOverlap(rival, titled),
    ];
    // Ties go to the next step: most plans are worked through in order.
    const lead =
      1.5 * leadMargin(words) + 1.5 * leadMargin(argLead) + leadMargin(heading) + (rival === laterSteps[0] ? 0.3 : 0);
    if (!best || lead > best.lead)
      best = { index: rival.index, kind: rival.kind, words, args: argLead, heading, rival, lead };
  }
  if (!best) return undefined;
  const { rival, lead: _, ...target } = best;
  return { ...target, hasTargetFile: filesInArguments(args).some((file) => rival.laterFiles.has(file)) };
}

const leadMargin = (lead: WordOverlap): number => lead.later - lead.current;

/** Longest answer that is tried as JSON. */
const MAX_UNWRAPPED_CHARS = 20_000;
/** Keys of tool output, and keys that mean it if the same object also has words of the model's own. */
const TOOL_OUTPUT_KEY =
  /^(?:tool|command|shell|function)[_-]?(?:calls?|outputs?|results?|responses?)$|^(?:observations?|stdout|stderr)$/i;
const RESULT_KEY = /^(?:outputs?|results?|logs?)$/i;
const OWN_WORDS_KEY = /^(?:(?:final_?)?answer|response|reply|message|text|content|thoughts?)$/i;

/**
 * The texts of an answer that is JSON as a whole (some models answer that way regardless of instructions), one per
 * line. Any other answer is returned unchanged. Tool output in it is not the model's own and is left out.
 */
export function textOfJsonAnswer(text: string): string {
  const bare = text.trim();
  if (!/^(?:\{[\s\S]*\}|\[[\s\S]*\])$/.test(bare) || bare.length > MAX_UNWRAPPED_CHARS) return text;
  try {
    const texts: string[] = [];
    collectTexts(JSON.parse(bare), texts);
    return texts.join('\n');
  } catch {
    return text;
  }
}

function collectTexts(value: unknown, texts: string[]): void {
  if (typeof value === 'string') texts.push(value);
  if (typeof value !== 'object' || value === null) return;
  const speaks = Object.keys(value).some((key) => OWN_WORDS_KEY.test(key));
  for (const [key, item] of Object.entries(value))
    if (!TOOL_OUTPUT_KEY.test(key) && !(speaks && RESULT_KEY.test(key))) collectTexts(item, texts);
}

/** An answer as a reply shows it: without its done markers; one that the endpoint cut off says so. */
export function answerForPeople({ text, isTruncated }: Pick<Turn, 'text' | 'isTruncated'>, language: Language): string {
  const said = withoutDoneMarkers(text);
  return isTruncated ? `${said}\n\n${REPLY_WORDING[language].truncated}` : said;
}
