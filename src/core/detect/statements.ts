import { stepDeclarationOf } from '../text/bracket-tags.ts';
import { linesOutsideCode, splitSentences, withoutInlineCode, withoutLeadingMarks } from '../text/prose.ts';
import { anyWordOf, wordPattern } from '../text/step-words.ts';

/** The sentences of a turn, sorted by kind. Bullets, emphasis and a leading word of praise are removed. */
export interface Statements {
  /** What the model is about to do: "Now let me update the tests", "接下来写文档". */
  readonly intentions: readonly string[];
  /**
   * Titles: Markdown headings, bold lines, "Step 3: …". Empty if there are many: then the text is an outline and
   * announces no step.
   */
  readonly headings: readonly string[];
  /** Everything else. */
  readonly others: readonly string[];
  /** The last sentence of any kind. */
  readonly last: string;
}

/** More titles than this in one turn are the outline of a report or a plan. */
const MAX_HEADINGS = 3;
const PRAISE =
  /^(?:(?:good|great|perfect|excellent|ok(?:ay)?|alright|done|all good|nice|right|got it|so|und|gut|bien|parfait)\s*[,.!，。！—–-]*\s+|(?:太好了|很好|好的?|完美|不错|不錯)[,，。！!\s]+)+/iu;
const INTENTION =
  /^(?:now|next|then|first|finally|lastly|let me|let['’]s|i['’]ll|i will|i['’]m (?:now )?(?:going|moving|[a-z]+ing)|i (?:now )?(?:need|have|want) to|i now|we (?:now )?need to|we['’]ll|moving|onward|on to|proceed(?:ing)?|time (?:to|for)|start(?:ing)?|begin(?:ning)?|going to|dispatching|continuing|ahora|a continuación|luego|vamos a|voy a|jetzt|nun|als nächstes|danach|ich werde|maintenant|ensuite|puis|je vais)(?![\p{L}\p{N}])|^(?:现在|現在|接下来|接下來|接着|接著|然后|然後|下一步|下面|首先|最后|最後|开始|開始|让我|讓我|我来|我來|我先|我将|我將|我会|我會|次に|続いて|それでは)/iu;
const HEADING = /^\s*(?:#{1,6}\s+\S|\*\*[^*]+\*\*\s?:?\s{0,9}$|\*\*[^*]{1,60}\*\*\s*[:—–-])/u;
const LABEL =
  /^(?:(?:step|task|phase|stage|part|change|item|batch|round|fix|issue|paso|schritt|étape|ステップ)\s*#?\d+\s*[:—–.-]|(?:步骤|步驟|任务|任務|阶段|階段|第)\s*[\d一二三四五六七八九十]+\s*(?:[:：、.-]|步|项|項|个|個))/iu;
/** Purposes and later actions: what is done "before", "to make sure" or "then" is not what is started now. */
const AFTERTHOUGHT =
  /\s(?:before|so that|so (?:i|we|it)\b|to (?:make sure|ensure|see if|check if|understand|verify)|because|since|(?:and )?(?:then|finally|afterwards|after that)\b)|[，,；;]\s*(?:然后|然後|再|接着|接著|最后|最後|之后|之後)/i;

export function readStatements(text: string): Statements {
  const intentions: string[] = [];
  const headings: string[] = [];
  const others: string[] = [];
  let last = '';
  for (const line of linesOutsideCode(text)) {
    if (/^\s*(?:>|$)/.test(line)) continue;
    const declared = stepDeclarationOf(line)?.tag;
    if (declared) {
      // "[Step 2]" alone declares nothing: it is the title of that step.
      const number = /\d+/.exec(declared.inside)?.[0];
      if (number && /^[\s*_.。:：]*$/u.test(declared.after)) headings.push(`Step ${number}:`);
      continue;
    }
    const isHeading = HEADING.test(line);
    for (const part of isHeading ? [line] : splitSentences(line)) {
      const sentence = withoutLeadingMarks(part).replace(PRAISE, '');
      if (sentence === '') continue;
      if (isHeading || LABEL.test(sentence)) headings.push(sentence);
      else if (INTENTION.test(sentence)) intentions.push(sentence);
      else others.push(sentence);
      last = sentence;
    }
  }
  return { intentions, headings: headings.length > MAX_HEADINGS ? [] : headings, others, last };
}

const LATER =
  /^(?:next|then|finally|lastly|after that|afterwards|luego|danach|ensuite|puis|然后|然後|接着|接著|接下来|接下來|最后|最後|続いて)(?![\p{L}\p{N}])|^(?:然后|然後|接着|接著|接下来|接下來|最后|最後|続いて)/iu;

/** Whether an intention is for now: "then" and "finally" are, unless another one was stated before them. */
export const isForNow = (intention: string, index: number): boolean => index === 0 || !LATER.test(intention);

/** The part of a stated intention that says what is done now. */
export const mainClause = (intention: string): string => intention.split(AFTERTHOUGHT)[0] ?? '';

/**
 * Sentence-initial words that announce something new, in six languages: the original list without the words that mostly
 * continue the same work ("let me", "continue"; measured below the base rate).
 */
const TURNS_LATIN =
  /^(?:next(?: up| step)?|now|then|after that|moving on|let['’]s move on|onward|on to|proceeding|ahora|a continuación|luego|jetzt|nun|als nächstes|danach|maintenant|ensuite|puis)(?![\p{L}\p{N}.'’_-]|\s*[:=]?=)/iu;
const TURNS_CJK = /^(?:现在|現在|接下来|接下來|接着|接著|然后|然後|下一步|下面|次に|続いて|それでは)/u;
/** Says explicitly that this step is over: "moving on to the next step", "开始下一步". Needs no word of the plan. */
const NEXT_STEP =
  /\b(?:next|following) (?:step|task|phase|item|part)\b|\bmov(?:e|ing) on\b|下一(?:个|個)?(?:步|项|項|任务|任務|阶段|階段)|次のステップ|siguiente paso|nächste[nr]? Schritt|étape suivante/iu;

/** Still the same work: it failed, something is missing, it is retried, investigated or repaired. */
const SAME_WORK =
  /\b(?:re-?try|retrying|again|once more|re-?run|re-?running|fix(?:ing)?|debug(?:ging)?|investigate|troubleshoot|wait(?:ing)?|still|figure out)\b|重试|重試|再试|再試|再次|重新|修复|修復|排查|等待|やり直|再試行|reintent|erneut|nochmal|réessay/iu;
const DENIED =
  /\b(?:not|never|cannot)\b|n['’]t\b|\bunable\b|还没|還沒|没有|沒有|没|沒|未能|尚未|不能|无法|無法|不要|别(?!的)|別(?!的)|先不|不会|不會|不行|ない|ません/iu;
/** "Now I see the problem", "Now the tests fail": an observation, not the start of other work. */
const OBSERVES =
  /^(?:now|then),?\s+(?:i|we)\s+(?:see|know|understand|have|can see|get|realize|realise|notice|found)\b|^(?:now|then),?\s+(?:it|that|this|there|the|all|both|everything)\b(?!\s+(?:final|last|next|second|third)\b)/iu;

/** The sentence that starts other work, for use without a plan that says what that work is. */
export function findTransitionSentence(text: string): string | undefined {
  for (const line of linesOutsideCode(text)) {
    if (/^\s*>/.test(line)) continue;
    for (const sentence of splitSentences(withoutInlineCode(line))) {
      const bare = withoutLeadingMarks(sentence);
      if (!TURNS_LATIN.test(bare) && !TURNS_CJK.test(bare)) continue;
      if (!SAME_WORK.test(bare) && !DENIED.test(bare) && !OBSERVES.test(bare)) return bare;
    }
  }
  return undefined;
}

/** Whether a sentence says that the next step starts, without naming it. */
export const announcesNextStep = (sentence: string): boolean =>
  NEXT_STEP.test(sentence) && !DENIED.test(sentence) && !SAME_WORK.test(sentence);
/** Whether a sentence is a negation. */
export const isDenied = (sentence: string): boolean => DENIED.test(sentence);
export const continuesSameWork = (sentence: string): boolean => SAME_WORK.test(sentence);

/** Steps named by number: "Step 3: …", "Onward to Phase 4", "第二步完成". */
const NUMBERED_STEP =
  /\b(?:step|task|phase|stage|part|change|item|batch|round|fix|issue|opt(?:imi[sz]ation)?|paso|schritt|étape)s?\s*#?(\d{1,3})\b|(?:步骤|步驟|任务|任務|阶段|階段|ステップ|第)\s*(\d{1,3}|[一二三四五六七八九十])/giu;
const OWN_LABEL =
  /^[^\p{L}\p{N}]*(?:step|task|phase|stage|part|batch|round|opt(?:imi[sz]ation)?|步骤|步驟|任务|任務|阶段|階段|第)\s*#?(\d{1,3}|[一二三四五六七八九十])/iu;
/** How far before a number a word still belongs to it, in characters. */
const WORDS_BEFORE_NUMBER = 60;
const NUMERALS = '一二三四五六七八九十';
const REPORTED_DONE = wordPattern(() => `✅|${anyWordOf('done', 'reported')}`);
const NOT_YET = /\b(?:not|once|when|after|until|will|before|if)\b|n['’]t\b|未|没|沒|还|還|之后|之後|完成后|完成後|再/iu;

const parseNumeral = (digits: string): number =>
  NUMERALS.includes(digits) ? NUMERALS.indexOf(digits) + 1 : Number(digits);

const STEP_REFERENCE =
  /^(?:(?:step|paso|schritt|étape|ステップ|步骤|步驟)[\s_#]{0,3}(\d{1,3})(?!\d)|第?\s?(\d{1,3}|[一二三四五六七八九十])\s?(?:步|$)|#(\d{1,3})$)/iu;

/** The step number at the start of a text: `step_2: five links`, `第二步`, `2`. */
export function stepNumberAtStart(text: string): number | undefined {
  const digits = STEP_REFERENCE.exec(text)
    ?.slice(1)
    .find((one) => one !== undefined);
  return digits === undefined ? undefined : parseNumeral(digits);
}

/** The step numbers in a sentence, in order, each with the text before it. */
export function stepNumbersIn(sentence: string): { number: number; before: string }[] {
  if (!/\d|[一二三四五六七八九十]/.test(sentence)) return [];
  return [...sentence.matchAll(NUMBERED_STEP)].map((hit) => ({
    number: parseNumeral(hit[1] ?? hit[2] ?? ''),
    before: sentence.slice(Math.max(0, hit.index - WORDS_BEFORE_NUMBER), hit.index),
  }));
}

const JOINING_WORD = /^\s*(?:and|&|,|，|、|和|与|與|及)\s*$/i;

/**
 * Whether a sentence reports the step of a number as finished: true for "Completed step 2" and "Step 1 and step 2 are
 * done", not for "Step 1 is done, step 2 is half way".
 */
export function reportsStepDone(sentence: string, isOwn: (number: number) => boolean): boolean {
  if (!reportsCompletion(sentence)) return false;
  const hits = [...sentence.matchAll(NUMBERED_STEP)];
  return hits.some((hit, place) => {
    if (!isOwn(parseNumeral(hit[1] ?? hit[2] ?? ''))) return false;
    if (place === 0 && REPORTED_DONE().test(sentence.slice(0, hit.index))) return true;
    const end = (one: RegExpExecArray): number => one.index + one[0].length;
    const next = hits.slice(place + 1).find((one, ahead) => {
      const last = hits[place + ahead];
      return last !== undefined && !JOINING_WORD.test(sentence.slice(end(last), one.index));
    });
    return REPORTED_DONE().test(sentence.slice(end(hit), next?.index));
  });
}

/** Whether a sentence reports something as finished, without negating or promising it. */
export const reportsCompletion = (sentence: string): boolean =>
  REPORTED_DONE().test(sentence) && !NOT_YET.test(sentence);

/**
 * Index of the step a number refers to. If the steps of a plan have numbers ("Task 5: …"), those count; otherwise the
 * position, from one.
 */
export function stepIndexByNumber(steps: readonly string[], number: number): number {
  const labels = steps.map((step) => OWN_LABEL.exec(step)?.[1]);
  if (labels.every((label) => label === undefined)) return number >= 1 && number <= steps.length ? number - 1 : -1;
  return labels.findIndex((label) => label !== undefined && parseNumeral(label) === number);
}
