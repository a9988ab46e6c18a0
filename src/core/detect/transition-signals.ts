import type { AnswerReading } from './answer-reading.ts';
import { announcesNextStep, continuesSameWork, reportsCompletion } from './statements.ts';

/** One observation for or against "the current step is over". */
interface TransitionSignal {
  readonly name: string;
  /** Roughly its log odds; see docs/detection.md for how the numbers were found and rounded. */
  readonly weight: number;
  /** From 0 (absent) to 1. Unknown facts give 0. */
  readonly value: (turn: AnswerReading) => number;
}

const flag = (isSet: boolean | undefined): number => (isSet ? 1 : 0);

const hasOnlySeenArguments = (turn: AnswerReading): boolean => {
  const { args, argsInStep } = turn.context;
  const before = new Set(argsInStep?.flat());
  const named = args?.filter((arg) => arg !== '') ?? [];
  return named.length > 0 && named.every((arg) => before.has(arg));
};

/** Each signal with the reason why it should hold in any repository, any tool set and any language. */
export const TRANSITION_SIGNALS: readonly TransitionSignal[] = [
  // Stating what one does now, in words that only a later step has, is work on that step.
  { name: 'words of a later step', weight: 3.5, value: (turn) => turn.target?.words.later ?? 0 },
  // … and in words that only the current step has, it is still this step.
  { name: 'words of this step', weight: -1.25, value: (turn) => turn.target?.words.current ?? 0 },
  // Which of the two wins matters more than by how much.
  { name: 'words lead', weight: 0.5, value: ({ target }) => flag(target && target.words.later > target.words.current) },
  // Tool calls contain no rhetoric: they show what is being worked on.
  { name: 'arguments of a later step', weight: 1.5, value: (turn) => turn.target?.args.later ?? 0 },
  { name: 'arguments of this step', weight: -1.75, value: (turn) => turn.target?.args.current ?? 0 },
  { name: 'arguments lead', weight: 1, value: ({ target }) => flag(target && target.args.later > target.args.current) },
  // A file that only one of the two steps names is the clearest evidence.
  { name: 'file of a later step', weight: 1.5, value: (turn) => flag(turn.target?.hasTargetFile) },
  // People and models put a title above a new part, not in the middle of one.
  {
    name: 'title of a later step',
    weight: 2.25,
    value: ({ target }) => flag(target && target.heading.later > target.heading.current),
  },
  // "Step 4: …", "Onward to Phase 4": the step is named by number.
  {
    name: 'number of a later step',
    weight: 1.25,
    value: (turn) => flag(turn.numberedSteps.some((index) => index > turn.context.stepIndex)),
  },
  // "Task 3 complete": an explicit report.
  { name: 'this step reported done', weight: 3, value: (turn) => flag(turn.completionReport !== undefined) },
  // "开始下一步", "moving on to the next step": announced without a name.
  { name: 'next step announced', weight: 2.5, value: (turn) => flag(turn.currentIntentions.some(announcesNextStep)) },
  // Retrying, repairing and waiting belong to the step that needs them.
  { name: 'same work again', weight: -0.5, value: (turn) => flag(turn.currentIntentions.some(continuesSameWork)) },
  // Most plans are carried out in the order in which they were written.
  { name: 'the very next step', weight: 1, value: (turn) => flag(turn.target?.index === turn.context.stepIndex + 1) },
  // On the last step, a turn without calls leaves the run nothing more to do.
  {
    name: 'closing turn on the last step',
    weight: 4.5,
    value: (turn) => flag(turn.isLast && isClosingReport(turn) && !leavesWorkOpen(turn)),
  },
  // An offer or a question at the end does not retract the report before it.
  {
    name: 'closing report that asks',
    weight: 3,
    value: (turn) => flag(turn.isLast && isClosingReport(turn) && leavesWorkOpen(turn) && reportsWholeTask(turn)),
  },
  // While steps are open, an answer without calls ends a step only if it reports the whole task as finished.
  {
    name: 'closing report before the last step',
    weight: 2,
    value: (turn) => flag(!turn.isLast && isClosingReport(turn) && !leavesWorkOpen(turn) && reportsWholeTask(turn)),
  },
  // After a person has written, the turn answers them; what it mentions is what they mentioned.
  { name: 'answers a person', weight: -2, value: (turn) => flag(turn.context.userTurn) },
  // A transition starts new work; the same calls as before in this step are the same work.
  { name: 'nothing new is touched', weight: -1.75, value: (turn) => flag(hasOnlySeenArguments(turn)) },
  // A step that asks for an edit, a command or a read is hardly over before there was one.
  {
    name: 'its kind of work not seen yet',
    weight: -1.25,
    value: (turn) =>
      flag((turn.currentKind === 'edit' || turn.currentKind === 'run') && turn.currentKindSeen === false),
  },
  // A command was run, the later step asks for one, and this step does not.
  {
    name: 'the kind of work of a later step',
    weight: 0.75,
    value: ({ target, toolKinds, currentKind }) =>
      flag(target?.kind === 'run' && currentKind !== 'run' && toolKinds.has('run') && !toolKinds.has('edit')),
  },
  // Most steps are short; one that has taken long usually continues.
  { name: 'long in this step', weight: -1.25, value: (turn) => Math.min(turn.context.iterationInStep, 8) / 8 },
];

export interface WeighedTransition {
  readonly weight: number;
  /** The sentence, or else the tool argument, that is the strongest evidence. */
  readonly evidence: string;
  /** Index of the later step, if the turn names one. */
  readonly advanceTo?: number;
}

/** The sum of all signals of a turn. */
export function weighTransition(turn: AnswerReading): WeighedTransition {
  let weight = 0;
  for (const signal of TRANSITION_SIGNALS) weight += signal.weight * signal.value(turn);
  const advanceTo = stepTurnedTo(turn);
  return { weight, evidence: transitionEvidence(turn), ...(advanceTo === undefined ? {} : { advanceTo }) };
}

/** A number names a step directly; otherwise its words, its title or its file must outweigh those of this step. */
function stepTurnedTo({ target, numberedSteps, context }: AnswerReading): number | undefined {
  const byNumber = numberedSteps.filter((index) => index > context.stepIndex);
  if (byNumber.length === 1) return byNumber[0];
  const named =
    target &&
    (target.hasTargetFile || [target.words, target.args, target.heading].some((lead) => lead.later > lead.current));
  return named ? target.index : undefined;
}

function transitionEvidence({ completionReport, statements, currentIntentions, context }: AnswerReading): string {
  return (
    completionReport ||
    statements.headings.at(-1) ||
    currentIntentions.find((intention) => intention !== '') ||
    context.args?.[0] ||
    ''
  );
}

/** A closing text that leaves the work to the person, or says that it is still in progress. */
const OPEN_END =
  /[?？]\s*$|\b(?:let me know|waiting (?:for|on)|still (?:running|waiting|working)|in progress|interrupted|in parallel|please (?:review|confirm|run|provide|let|send|tell|choose)|once you|your (?:review|approval|preference|choice|decision|call)|shall i|do you want|would you like|which (?:one|option))\b|请(?:你|您|在|确认|审|提供|告诉)|請(?:你|您|在|確認|審|提供|告訴)|吗|嗎|等待|ください/imu;
/** A closing text that reports the whole task as finished. */
const WHOLE =
  /\b(?:all (?:of the )?(?:[a-z]+ )?(?:steps|tasks|changes|phases|items|checks|tests)|implementation|everything|all done|summary|successfully)\b|总结|總結|全部|所有|すべて|todo(?:s)? (?:listo|hecho)|alles/iu;
const BARE_ASSENT =
  /^[^\p{L}\p{N}]*(?:(?:ok(?:ay)?|sure|yes|no|thanks?|thank you|hi|hello|understood|got it|hm+|好的?|嗯|谢谢|謝謝|明白|收到|了解)[^\p{L}\p{N}]*)*$/iu;
const TAIL_LENGTH = 300;
const LAST_WORDS = 3;

/**
 * The work failed, is incomplete or is still in progress: searched only in the last words, since a report may well
 * mention what failed along the way.
 */
const NOT_REACHED =
  /\b(?:unable to|(?:could|can|did|does) ?not|cannot|(?:could|ca|did|does)n['’]t|(?:is|are|was|were) not (?:possible|available|reachable|done|drawn|there)|fail(?:s|ed|ing)?(?: to|\s*[\]:.!]|$| with| because)|no longer possible|impossible|denied|rejected|requires? (?:a|an|the|your)|needs? (?:a|an|the|your)|i need (?!to)|except|missing|without success)\b|^working on\b|无法|無法|不能|未能|没能|沒能|做不到|失败|失敗|拒绝|拒絕|缺少|需要(?:你|您|一个|数据库|登录|密码|权限)|还没|還沒|没有成功|被拒/imu;
const isGoalMissed = ({ statements: { others, intentions, last } }: AnswerReading): boolean =>
  NOT_REACHED.test([...others, ...intentions].slice(-LAST_WORDS).join('\n').slice(-TAIL_LENGTH)) ||
  NOT_REACHED.test(last);
const endsWithIntention = ({ statements: { intentions, last } }: AnswerReading): boolean => intentions.includes(last);

/** A turn without calls that ends with a report, not with an acknowledgement, a plan or an obstacle. */
const isClosingReport = (turn: AnswerReading): boolean =>
  turn.context.final === true &&
  turn.statements.last !== '' &&
  !BARE_ASSENT.test(turn.statements.last) &&
  !endsWithIntention(turn) &&
  !isGoalMissed(turn);
const reportsWholeTask = (turn: AnswerReading): boolean => {
  const sentences = [...turn.statements.others, ...turn.statements.headings, ...turn.statements.intentions];
  return sentences.some((sentence) => WHOLE.test(sentence)) && sentences.some(reportsCompletion);
};
const leavesWorkOpen = (turn: AnswerReading): boolean => {
  const { others, last, intentions } = turn.statements;
  return (
    OPEN_END.test([...others, ...intentions].slice(-LAST_WORDS).join('\n').slice(-TAIL_LENGTH)) ||
    OPEN_END.test(last.slice(-TAIL_LENGTH))
  );
};
