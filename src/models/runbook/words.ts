import type { Step } from './parse.ts';

/** Words that are nobody's: in code, brackets are no markers and an `if` is no condition. */
export const asCode = (line: string) => `\`${line.replaceAll('`', "'")}\``;

/** A bracket, words that take back the `[Done]` before them, the news of a next step, nothing to read at all. */
const SPEAKS =
  /[[\]【】［］]|^\P{L}*(?:[?？]|(?:is|was|has|have|does|do|can)(?:\s+not|n['’]t)\b|not yet|了?[吗嗎]|$)|\b(?:next|following) (?:step|task|phase|item|part)\b|\bmov(?:e|ing) on\b|下一|次のステップ/iu;
const WHOLE_SPANS = /^[^`]*(?:`[^`]+`[^`]*)*$/;

/** Whether a description, said in an answer, could be taken for a word about the plan, or hide what follows it. */
const speaks = ({ description }: Step) => SPEAKS.test(description) || !WHOLE_SPANS.test(description);
export const titled = (step: Step) => (speaks(step) ? asCode(step.description) : step.description);

/** What the daemon reads as the number of a step, not as its description. */
const NUMBER =
  /^(?:(?:step|paso|schritt|étape|ステップ|步骤|步驟)[\s_#]*\d|第?\s?(?:\d+|[一二三四五六七八九十])\s?(?:步|$)|#\d)/iu;
/** Quotations and escapes are read as something else than their letters. */
const DISGUISED = /["'“”„‘’「」『』«»\\]/;

/** Whether a step can be called by its description. */
export const isName = ({ description }: Step) => !NUMBER.test(description);

/**
 * The line that closes a step. It names the step in its tag where it can: the step at work in the plan may be another one, since a
 * person may change the plan. What came out is code, for behind a tag words like "if …" or "is not …" take it back.
 */
export function closing(step: Step, outcome: string): string {
  const fits = isName(step) && !speaks(step) && !DISGUISED.test(step.description) && !step.description.includes('`');
  return fits ? `[Done: ${step.description}] ${outcome}` : `[Done] ${titled(step)}: ${outcome}`;
}
