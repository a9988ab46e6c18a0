/** Steps called by number: "Step 3: …", "Onward to Phase 4", "第二步完成". */

const NAMED =
  /\b(?:step|task|phase|stage|part|change|item|batch|round|fix|issue|opt(?:imi[sz]ation)?|paso|schritt|étape)s?\s*#?(\d{1,3})\b|(?:步骤|步驟|任务|任務|阶段|階段|ステップ|第)\s*(\d{1,3}|[一二三四五六七八九十])/giu;
const OWN_LABEL =
  /^[^\p{L}\p{N}]*(?:step|task|phase|stage|part|batch|round|opt(?:imi[sz]ation)?|步骤|步驟|任务|任務|阶段|階段|第)\s*#?(\d{1,3}|[一二三四五六七八九十])/iu;
/** How far before a number a word still belongs to it. */
const REACH = 60;
const NUMERALS = '一二三四五六七八九十';
const DONE =
  /\b(?:done|completed?|finished|approved|verified|landed|hecho|erledigt|fertig|terminée?)\b|✅|完成|搞定|完毕|完畢|完了/iu;
const NOT_YET = /\b(?:not|once|when|after|until|will|before|if)\b|n['’]t\b|未|没|沒|还|還|之后|之後|完成后|完成後|再/iu;

const numeral = (digits: string): number => (NUMERALS.includes(digits) ? NUMERALS.indexOf(digits) + 1 : Number(digits));

const REFERENCE =
  /^(?:(?:step|paso|schritt|étape|ステップ|步骤|步驟)[\s_#]{0,3}(\d{1,3})(?!\d)|第?\s?(\d{1,3}|[一二三四五六七八九十])\s?(?:步|$)|#(\d{1,3})$)/iu;

/** The number by which the beginning of a text refers to a step: `step_2: five links`, `第二步`, `2`. */
export function numberOf(text: string): number | undefined {
  const digits = REFERENCE.exec(text)
    ?.slice(1)
    .find((one) => one !== undefined);
  return digits === undefined ? undefined : numeral(digits);
}

/** The numbers by which a sentence names steps, in order, each with what the sentence says before it. */
export function numbersIn(sentence: string): { number: number; before: string }[] {
  if (!/\d|[一二三四五六七八九十]/.test(sentence)) return [];
  return [...sentence.matchAll(NAMED)].map((hit) => ({
    number: numeral(hit[1] ?? hit[2] ?? ''),
    before: sentence.slice(Math.max(0, hit.index - REACH), hit.index),
  }));
}

const JOINED = /^\s*(?:and|&|,|，|、|和|与|與|及)\s*$/i;

/**
 * Whether a sentence reports the step of a number as finished: "Completed step 2", "Step 1 and step 2 are done", and not
 * "Step 1 is done, step 2 is half way".
 */
export function reportsNumber(sentence: string, isOwn: (number: number) => boolean): boolean {
  if (!isReport(sentence)) return false;
  const hits = [...sentence.matchAll(NAMED)];
  return hits.some((hit, place) => {
    if (!isOwn(numeral(hit[1] ?? hit[2] ?? ''))) return false;
    if (place === 0 && DONE.test(sentence.slice(0, hit.index))) return true;
    const end = (one: RegExpExecArray): number => one.index + one[0].length;
    const next = hits.slice(place + 1).find((one, ahead) => {
      const last = hits[place + ahead];
      return last !== undefined && !JOINED.test(sentence.slice(end(last), one.index));
    });
    return DONE.test(sentence.slice(end(hit), next?.index));
  });
}

/** Reports something as finished, and neither denies nor promises it. */
export const isReport = (sentence: string): boolean => DONE.test(sentence) && !NOT_YET.test(sentence);

/**
 * Index of the step a number means. A plan whose steps carry numbers ("Task 5: …") is called by those; any other by
 * position, counted from one.
 */
export function stepByNumber(steps: readonly string[], number: number): number {
  const labels = steps.map((step) => OWN_LABEL.exec(step)?.[1]);
  if (labels.every((label) => label === undefined)) return number >= 1 && number <= steps.length ? number - 1 : -1;
  return labels.findIndex((label) => label !== undefined && numeral(label) === number);
}
