import { wordsOf } from '../text/words.ts';
import { argWords, filesOfArgs } from './files.ts';
import { isReport, numbersIn, reportsNumber, stepByNumber } from './numbers.ts';
import { type Lead, leadOf, type PlanWords, planWords, type Rival } from './plan-words.ts';
import { isNow, mainClause, type Statements, statementsOf } from './statements.ts';
import { kindOfTool, type ToolKind } from './tool-kinds.ts';
import { isDenied } from './transitions.ts';

/** What is known beside the text. Undefined means unknown, never "none". */
export interface TurnContext {
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

/** A turn read against its plan: everything the signs ask about. */
export interface Turn {
  readonly context: TurnContext;
  readonly statements: Statements;
  /** Sentences that say what is done now: the intentions, or failing any the last sentence. */
  readonly now: readonly string[];
  /** The later step this turn speaks of most; undefined on the last step. */
  readonly target: Target | undefined;
  readonly isLast: boolean;
  readonly kinds: ReadonlySet<ToolKind>;
  /** The kind of work this step asks for, and whether an earlier turn of it did any; undefined where unknown. */
  readonly currentKind: ToolKind;
  readonly currentKindSeen: boolean | undefined;
  /** Indices of the steps named by number as begun, and the current step's own report by number. */
  readonly numbered: readonly number[];
  readonly reported: string | undefined;
}

interface Target {
  readonly index: number;
  readonly words: Lead;
  readonly args: Lead;
  readonly heading: Lead;
  readonly kind: ToolKind;
  readonly fileOfTarget: boolean;
}

export function readTurn(text: string, context: TurnContext): Turn {
  const statements = statementsOf(text);
  const { intentions, last } = statements;
  const spoken = intentions.length > 0 ? intentions.filter(isNow).map(mainClause) : LEFT_OUT.test(last) ? [] : [last];
  const now = spoken.filter((said) => !isDenied(said) && !LISTED_AS_OPEN.test(said));
  const { steps, stepIndex } = context;
  const plan = planWords(steps, stepIndex);
  const currentKind = plan.currentKind;
  return {
    context,
    statements,
    now,
    target: targetOf(plan, now, statements.headings, context.args ?? []),
    isLast: stepIndex >= steps.length - 1,
    kinds: new Set(context.tools?.map(kindOfTool)),
    currentKind,
    currentKindSeen: context.toolsInStep?.some((tools) => tools.some((tool) => kindOfTool(tool) === currentKind)),
    numbered: [
      ...[...statements.intentions, ...statements.headings].flatMap((said) => begunIn(said, steps, true)),
      ...statements.others.flatMap((said) => begunIn(said, steps, false)),
    ],
    reported: [...statements.others, ...statements.intentions, ...statements.headings].find((said) =>
      reportsNumber(said, (number) => stepByNumber(steps, number) === stepIndex),
    ),
  };
}

/** An item of an overview: "Draw the chart [Pending]", "[ ] Draw the chart". */
const LISTED_AS_OPEN =
  /^\[ \]|[[【［]\s?(?:pending|to[ -]?do|open|waiting|not started|in progress|running|next|待办|待辦|待处理|待處理|未开始|未開始|进行中|進行中)\s?[\]】］]/iu;

/** "Everything is done except the chart": named because it is not worked on. */
const LEFT_OUT = /\bexcept\b|除了/i;

/** Turns to what is named next: "moving on to", "进入". */
const ONWARD =
  /(?:\b(?:onward|on to|moving|proceed(?:ing)?|now|next|start(?:ing)?|begin(?:ning)?|weiter|jetzt|ahora|maintenant)\b|现在|現在|接下来|接下來|进入|進入|开始|開始|转到|轉到|次に)[^.。]*$/iu;

/** Steps named by number as begun; "Task 5 complete" begins none, "Task 5 complete, moving on to Task 6" begins 6. */
function begunIn(said: string, steps: readonly string[], isTurn: boolean): number[] {
  const named = numbersIn(said);
  if (named.length === 0) return [];
  const turns = isTurn && !isReport(said);
  return named.filter(({ before }) => turns || ONWARD.test(before)).map(({ number }) => stepByNumber(steps, number));
}

function targetOf(
  { rivals }: PlanWords,
  now: readonly string[],
  titles: readonly string[],
  args: readonly string[],
): Target | undefined {
  const said = wordsOf(now.join(' '));
  const called = wordsOf(args.map(argWords).join(' '));
  const titled = wordsOf(titles.join(' '));
  let best: (Omit<Target, 'fileOfTarget'> & { rival: Rival; lead: number }) | undefined;
  for (const rival of rivals) {
    const [words, argLead, heading] = [leadOf(rival, said), leadOf(rival, called), leadOf(rival, titled)];
    // Ties go to the next step: plans are mostly worked through in order.
    const lead = 1.5 * by(words) + 1.5 * by(argLead) + by(heading) + (rival === rivals[0] ? 0.3 : 0);
    if (!best || lead > best.lead)
      best = { index: rival.index, kind: rival.kind, words, args: argLead, heading, rival, lead };
  }
  if (!best) return undefined;
  const { rival, lead: _, ...target } = best;
  return { ...target, fileOfTarget: filesOfArgs(args).some((file) => rival.theirFiles.has(file)) };
}

const by = (lead: Lead): number => lead.later - lead.current;
