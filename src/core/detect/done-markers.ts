import { type BracketTag, isAssertedTag } from '../text/bracket-tags.ts';
import { contentWords } from '../text/content-words.ts';
import { withoutLeadingMarks } from '../text/prose.ts';
import { anyWordOf, readStepState, wordPattern } from '../text/step-words.ts';
import { stepIndexByNumber, stepNumberAtStart } from './statements.ts';

/** A tick next to the word is decoration; a cross or an hourglass is not. */
const TICKS = /^(?:[\u2713\u2714\u2705\u2611]|\uFE0F|\s)+|(?:[\u2713\u2714\u2705\u2611]|\uFE0F|\s)+$/gu;
/** Longer text in brackets is not a tag. */
const MAX_TAG_LENGTH = 200;
/** What separates the word from more text: "Done: five links", "Done - five links", "Done (five links)". */
const DETAIL = /^\s?(?:[:：–—,，;；]|\s-\s|-\s)\s?(?=\S)|^\s?(?=[(（])/u;
/** What may follow the word without changing it: "Completed successfully", "完成了". */
const EMPHASIS = /^(?:\s?(?:successfully|now|already|了|啦))?\s*$/iu;
/** The step may follow the word: "Completed step 2", "完成第二步". */
const STEP_AFTER = wordPattern(
  () => `^\\s?(?:with\\s)?(?:第\\s?)?(?:${anyWordOf('step')}|第)[\\s_#]{0,3}(\\d{1,3}|[一二三四五六七八九十])\\s?步?$`,
);
/** "Step 2: fetch the links - Done": the words of the step stand between its number and the state. */
const LABELLED = wordPattern(
  () =>
    `^(?:第\\s?)?(?:${anyWordOf('step')}|第)[\\s_#]{0,3}(?:\\d{1,3}|[一二三四五六七八九十])\\s?步?\\s?[:：–—-][^:：–—]+?\\s?[:：–—-]\\s?(?=${anyWordOf('done')}$)`,
);
/** Text in the brackets that retracts the word: "[Done: not yet]", "[Done: 3/5]", "[Done: no]". */
export const RETRACTION =
  /\b(?:not|no|never|false|almost|nearly|partly|partially|half|except|pending|todo)\b|n['’]t\b|\d\s*(?:\/|of)\s*\d|%|[?？]|未|没|沒|不|部分|还差|還差/iu;
/** A name such as `fetch_links`: the id that a plan gave to a step. */
export const STEP_ID = /^[a-z0-9]+(?:_[a-z0-9]+)+$/i;

/** What a done tag contains besides the word: the number of a step, and other words. */
export interface DoneTag {
  readonly number?: number;
  readonly words?: string;
}

/** Parses `Done`, `✅ Done`, `Step 2 Done`, `Done: step_2`, `Done: five links`; undefined if it is not a done tag. */
export function parseDoneTag(inside: string): DoneTag | undefined {
  if (inside.length > MAX_TAG_LENGTH) return undefined;
  const bare = spelledApart(inside.replace(TICKS, ''));
  const between = LABELLED().exec(bare)?.[0];
  const found = readStepState(bare) ?? (between === undefined ? undefined : readStepState(bare.slice(between.length)));
  if (found?.state !== 'done') return undefined;
  const after = found.rest.replace(TICKS, '');
  const detail = DETAIL.exec(after)?.[0];
  const words = detail === undefined ? '' : after.slice(detail.length).trim();
  const label =
    stepNumberAtStart(found.number ?? '') ?? stepNumberAtStart(between ?? STEP_AFTER().exec(after)?.[1] ?? '');
  if (words === '' && !EMPHASIS.test(after) && !STEP_AFTER().test(after)) return undefined;
  const number = label ?? stepNumberAtStart(words);
  return { ...(number !== undefined && { number }), ...(words !== '' && { words }) };
}

/** `STEP_DONE`, `TaskComplete` and `step-complete` as words. */
const spelledApart = (inside: string): string =>
  (/^[\p{L}]+(?:[_-][\p{L}]+)+$/u.test(inside)
    ? inside.replace(/[_-]/g, ' ')
    : /^(?:\p{Lu}\p{Ll}+){2,}$/u.test(inside)
      ? inside.replace(/(?<=\p{Ll})(?=\p{Lu})/gu, ' ')
      : inside
  ).replace(/\s+/g, ' ');

/** Whether the text of a tag is a marker: a word of the list, with or without a step number or a result. */
export function isDoneMarker(inside: string): boolean {
  const tag = parseDoneTag(inside);
  if (!tag) return false;
  const { words } = tag;
  return words === undefined || (tag.number === undefined && !RETRACTION.test(words) && !STEP_ID.test(words));
}

/** The first tag that marks the step as done. */
export const findDoneMarker = (tags: readonly BracketTag[]): BracketTag | undefined =>
  tags.find((tag) => isDoneMarker(tag.inside) && isAssertedTag(tag));

const LIST_NUMBER = /^[\s>|*_-]{0,20}(\d{1,3})[.)、]\s/;
const CJK = /\p{Script=Han}|\p{Script=Hiragana}|\p{Script=Katakana}|\p{Script=Hangul}/u;

/**
 * Whether a marker refers to a step other than the current one: by a number in it or at the start of its line, by that
 * step's whole description next to it, or as an item of a numbered list in that step's words.
 */
export function isMarkerOfOtherStep(tag: BracketTag, steps: readonly string[], current: number): boolean {
  const { number, words } = parseDoneTag(tag.inside) ?? {};
  const numbered = number ?? stepNumberAtStart(withoutLeadingMarks(tag.before));
  if (numbered !== undefined) return !numberMeansStep(steps, numbered, current);
  const beside = [words ?? '', tag.before].map((text) => lastStepNamed(text, steps)).find((index) => index >= 0);
  const index = beside ?? steps.findIndex((step) => startsWithStep(tag.after, step));
  return index >= 0 ? !haveSameDescription(steps, index, current) : isListItemOfOtherStep(tag, steps, current);
}

/** A plan whose steps have numbers of their own may still be counted by position. */
const numberMeansStep = (steps: readonly string[], number: number, current: number): boolean =>
  stepIndexByNumber(steps, number) === current || number - 1 === current;

const normalizeText = (text: string): string => text.normalize('NFC').toLowerCase().replace(/\s+/g, ' ').trim();
const haveSameDescription = (steps: readonly string[], one: number, other: number): boolean =>
  normalizeText(steps[one] ?? '') === normalizeText(steps[other] ?? '');

/** Index of the step whose whole description comes last in the text; the longer one if two end at the same place. */
function lastStepNamed(passage: string, steps: readonly string[]): number {
  const text = normalizeText(passage);
  const cell = normalizeText(
    withoutLeadingMarks(
      passage
        .replace(/[|\s*_:：–—-]+$/u, '')
        .split('|')
        .at(-1) ?? '',
    ),
  );
  let best = { index: -1, end: -1, length: 0 };
  for (const [index, step] of steps.entries()) {
    const name = normalizeText(step);
    const end = name !== '' && cell === name ? text.length : descriptionEnd(text, name);
    if (end > best.end || (end === best.end && end >= 0 && name.length > best.length))
      best = { index, end, length: name.length };
  }
  return best.index;
}

/** Where a description ends in a text, or -1. A single word is too common to count as a name between other words. */
function descriptionEnd(text: string, name: string): number {
  const isTelling = CJK.test(name) ? name.length >= 4 : name.includes(' ');
  const start = isTelling ? text.lastIndexOf(name) : -1;
  if (
    start < 0 ||
    (!CJK.test(name) && /[\p{L}\p{N}]/u.test(`${text[start - 1] ?? ''}${text[start + name.length] ?? ''}`))
  )
    return -1;
  return start + name.length;
}

/**
 * "- [done] Find the reports", "| [Done] | Find the reports |": the description follows, with nothing else said about
 * it.
 */
function startsWithStep(after: string, step: string): boolean {
  const text = normalizeText(after.replace(/^[\s|*_:：–—-]+/u, ''));
  const name = normalizeText(step);
  return name !== '' && text.startsWith(name) && /^\s*(?:$|[|:：,，;；(（–—*_-])/u.test(text.slice(name.length));
}

/** "1. Fetch [Done]" in a list that numbers the steps: its words match that step better than the current one. */
function isListItemOfOtherStep(tag: BracketTag, steps: readonly string[], current: number): boolean {
  const number = LIST_NUMBER.exec(tag.before)?.[1];
  const index = number === undefined ? -1 : stepIndexByNumber(steps, Number(number));
  if (index < 0 || index === current) return false;
  const mentioned = contentWords(tag.before.replace(LIST_NUMBER, ''));
  const share = (step: string): number => [...contentWords(step)].filter((word) => mentioned.has(word)).length;
  return share(steps[index] ?? '') > share(steps[current] ?? '');
}
