import { linesOutsideCode, withoutInlineCode } from '../text/prose.ts';
import { sentencesOf, undressed } from '../text/sentences.ts';

/**
 * Sentence-initial words by which a speaker turns to something: the original list without the words that mostly go on
 * with the same work ("let me", "continue"; measured below the base rate), in six languages.
 */
const TURNS_LATIN =
  /^(?:next(?: up| step)?|now|then|after that|moving on|let['’]s move on|onward|on to|proceeding|ahora|a continuación|luego|jetzt|nun|als nächstes|danach|maintenant|ensuite|puis)(?![\p{L}\p{N}.'’_-]|\s*[:=]?=)/iu;
const TURNS_CJK = /^(?:现在|現在|接下来|接下來|接着|接著|然后|然後|下一步|下面|次に|続いて|それでは)/u;
/** Says outright that this step is over: "moving on to the next step", "开始下一步". Needs no word of the plan. */
const NEXT_STEP =
  /\b(?:next|following) (?:step|task|phase|item|part)\b|\bmov(?:e|ing) on\b|下一(?:个|個)?(?:步|项|項|任务|任務|阶段|階段)|次のステップ|siguiente paso|nächste[nr]? Schritt|étape suivante/iu;

/** Still the same work: it failed, is missing, is tried again, looked into or repaired. */
const SAME_WORK =
  /\b(?:re-?try|retrying|again|once more|re-?run|re-?running|fix(?:ing)?|debug(?:ging)?|investigate|troubleshoot|wait(?:ing)?|still|figure out)\b|重试|重試|再试|再試|再次|重新|修复|修復|排查|等待|やり直|再試行|reintent|erneut|nochmal|réessay/iu;
const DENIED =
  /\b(?:not|never|cannot)\b|n['’]t\b|\bunable\b|还没|還沒|没有|沒有|没|沒|未能|尚未|不能|无法|無法|不要|别(?!的)|別(?!的)|先不|不会|不會|不行|ない|ません/iu;
/** "Now I see the problem", "Now the tests fail": an observation, not a turn to other work. */
const OBSERVES =
  /^(?:now|then),?\s+(?:i|we)\s+(?:see|know|understand|have|can see|get|realize|realise|notice|found)\b|^(?:now|then),?\s+(?:it|that|this|there|the|all|both|everything)\b(?!\s+(?:final|last|next|second|third)\b)/iu;

/** The sentence that turns to other work, when no plan can say what that work is. */
export function turnOf(text: string): string | undefined {
  for (const line of linesOutsideCode(text)) {
    if (/^\s*>/.test(line)) continue;
    for (const sentence of sentencesOf(withoutInlineCode(line))) {
      const bare = undressed(sentence);
      if (!TURNS_LATIN.test(bare) && !TURNS_CJK.test(bare)) continue;
      if (!SAME_WORK.test(bare) && !DENIED.test(bare) && !OBSERVES.test(bare)) return bare;
    }
  }
  return undefined;
}

/** Says without naming it that the next step begins. */
export const saysNextStep = (sentence: string): boolean =>
  NEXT_STEP.test(sentence) && !DENIED.test(sentence) && !SAME_WORK.test(sentence);
/** Says that something is not, or cannot be. */
export const isDenied = (sentence: string): boolean => DENIED.test(sentence);
export const isSameWork = (sentence: string): boolean => SAME_WORK.test(sentence);
