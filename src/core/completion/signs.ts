import { closing, leavesOpen, reportsWhole } from './closings.ts';
import { isSameWork, saysNextStep } from './transitions.ts';
import type { Turn } from './turn.ts';

/** One observation that speaks for or against "the current step is behind us". */
interface Sign {
  readonly name: string;
  /** Roughly the logarithm of the odds it carries; see docs/detection.md for how the numbers were found and rounded. */
  readonly weight: number;
  /** From 0 (absent) to 1. Unknown facts give 0. */
  readonly value: (turn: Turn) => number;
}

const flag = (holds: boolean | undefined): number => (holds ? 1 : 0);

const everyArgSeen = (turn: Turn): boolean => {
  const { args, argsInStep } = turn.context;
  const before = new Set(argsInStep?.flat());
  const named = args?.filter((arg) => arg !== '') ?? [];
  return named.length > 0 && named.every((arg) => before.has(arg));
};

/** Each sign with the reason why it should hold in any repository, any tool set and any language. */
export const SIGNS: readonly Sign[] = [
  // What one says one does now, in words that only a later step has, is work on that step.
  { name: 'words of a later step', weight: 3.5, value: (turn) => turn.target?.words.later ?? 0 },
  // … and in words that only the current step has, it is still this one.
  { name: 'words of this step', weight: -1.25, value: (turn) => turn.target?.words.current ?? 0 },
  // Which of the two wins tells more than by how much.
  { name: 'words lead', weight: 0.5, value: ({ target }) => flag(target && target.words.later > target.words.current) },
  // Tool calls have no rhetoric: what they point at is what is worked on.
  { name: 'arguments of a later step', weight: 1.5, value: (turn) => turn.target?.args.later ?? 0 },
  { name: 'arguments of this step', weight: -1.75, value: (turn) => turn.target?.args.current ?? 0 },
  { name: 'arguments lead', weight: 1, value: ({ target }) => flag(target && target.args.later > target.args.current) },
  // A file that only one of the two steps names is the clearest word there is.
  { name: 'file of a later step', weight: 1.5, value: (turn) => flag(turn.target?.fileOfTarget) },
  // People and models put a title over a new part, not over the middle of one.
  {
    name: 'title of a later step',
    weight: 2.25,
    value: ({ target }) => flag(target && target.heading.later > target.heading.current),
  },
  // "Step 4: …", "Onward to Phase 4": called by its number.
  {
    name: 'number of a later step',
    weight: 1.25,
    value: (turn) => flag(turn.numbered.some((index) => index > turn.context.stepIndex)),
  },
  // "Task 3 complete": the report itself.
  { name: 'this step reported done', weight: 3, value: (turn) => flag(turn.reported !== undefined) },
  // "开始下一步", "moving on to the next step": says so without naming it.
  { name: 'next step announced', weight: 2.5, value: (turn) => flag(turn.now.some(saysNextStep)) },
  // Trying again, repairing and waiting belong to the step that needs them.
  { name: 'same work again', weight: -0.5, value: (turn) => flag(turn.now.some(isSameWork)) },
  // Plans are mostly carried out in the order in which they were written.
  { name: 'the very next step', weight: 1, value: (turn) => flag(turn.target?.index === turn.context.stepIndex + 1) },
  // When the last step is current and nothing more is called, the run has nothing more to do.
  {
    name: 'closing turn on the last step',
    weight: 4.5,
    value: (turn) => flag(turn.isLast && closing(turn) && !leavesOpen(turn)),
  },
  // An offer or a question at the end does not undo the report before it.
  {
    name: 'closing report that asks',
    weight: 3,
    value: (turn) => flag(turn.isLast && closing(turn) && leavesOpen(turn) && reportsWhole(turn)),
  },
  // With steps still open, an answer without calls ends a step only if it reports the whole as finished.
  {
    name: 'closing report before the last step',
    weight: 2,
    value: (turn) => flag(!turn.isLast && closing(turn) && !leavesOpen(turn) && reportsWhole(turn)),
  },
  // After a person has spoken the turn answers them; what it mentions is what they mentioned.
  { name: 'answers a person', weight: -2, value: (turn) => flag(turn.context.userTurn) },
  // Work turns to something else once; the same calls as before in this step are the same work.
  { name: 'nothing new is touched', weight: -1.75, value: (turn) => flag(everyArgSeen(turn)) },
  // A step that asks for an edit, a run or a look is hardly over before there was one.
  {
    name: 'its kind of work not seen yet',
    weight: -1.25,
    value: (turn) =>
      flag((turn.currentKind === 'edit' || turn.currentKind === 'run') && turn.currentKindSeen === false),
  },
  // A run where the later step asks to run something and this one does not.
  {
    name: 'the kind of work of a later step',
    weight: 0.75,
    value: ({ target, kinds, currentKind }) =>
      flag(target?.kind === 'run' && currentKind !== 'run' && kinds.has('run') && !kinds.has('edit')),
  },
  // Steps that were short are many; one that has gone on for long mostly goes on.
  { name: 'long in this step', weight: -1.25, value: (turn) => Math.min(turn.context.iterationInStep, 8) / 8 },
];

export interface Weighed {
  readonly weight: number;
  /** The saying, or failing one the tool argument, that speaks most for it. */
  readonly evidence: string;
  /** Index of the later step the turn names, if it names one. */
  readonly advanceTo?: number;
}

/** All signs of a turn added up. */
export function weigh(turn: Turn): Weighed {
  let weight = 0;
  for (const sign of SIGNS) weight += sign.weight * sign.value(turn);
  const advanceTo = namedStep(turn);
  return { weight, evidence: sayingOf(turn), ...(advanceTo === undefined ? {} : { advanceTo }) };
}

/** A number names a step outright; otherwise its words, its title or its file must outweigh those of this step. */
function namedStep({ target, numbered, context }: Turn): number | undefined {
  const byNumber = numbered.filter((index) => index > context.stepIndex);
  if (byNumber.length === 1) return byNumber[0];
  const named =
    target &&
    (target.fileOfTarget || [target.words, target.args, target.heading].some((lead) => lead.later > lead.current));
  return named ? target.index : undefined;
}

function sayingOf({ reported, statements, now, context }: Turn): string {
  return reported || statements.headings.at(-1) || now.find((said) => said !== '') || context.args?.[0] || '';
}
