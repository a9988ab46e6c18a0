import { undressed } from '../text/sentences.ts';
import { wordsOf } from '../text/words.ts';
import type { Tag } from './brackets.ts';
import { doneTag } from './markers.ts';
import { numberOf, stepByNumber } from './numbers.ts';

const LISTED = /^[\s>|*_-]{0,20}(\d{1,3})[.)、]\s/;
const CJK = /\p{Script=Han}|\p{Script=Hiragana}|\p{Script=Katakana}|\p{Script=Hangul}/u;

/**
 * Whether a marker speaks of another step than the current one: by a number in it or in front of its line, by the whole
 * description of that step beside it, or as an item of a numbered list in words of that step.
 */
export function isOfAnother(tag: Tag, steps: readonly string[], current: number): boolean {
  const { number, words } = doneTag(tag.inside) ?? {};
  const numbered = number ?? numberOf(undressed(tag.before));
  if (numbered !== undefined) return !means(steps, numbered, current);
  const beside = [words ?? '', tag.before].map((said) => lastNamed(said, steps)).find((index) => index >= 0);
  const index = beside ?? steps.findIndex((step) => opens(tag.after, step));
  return index >= 0 ? !isSame(steps, index, current) : isListedAs(tag, steps, current);
}

/** A plan whose steps carry numbers may still be counted by position. */
const means = (steps: readonly string[], number: number, current: number): boolean =>
  stepByNumber(steps, number) === current || number - 1 === current;

const folded = (text: string): string => text.normalize('NFC').toLowerCase().replace(/\s+/g, ' ').trim();
const isSame = (steps: readonly string[], one: number, other: number): boolean =>
  folded(steps[one] ?? '') === folded(steps[other] ?? '');

/** Index of the step whose whole description stands last in what is said; the longer one where two end together. */
function lastNamed(said: string, steps: readonly string[]): number {
  const text = folded(said);
  const cell = folded(
    undressed(
      said
        .replace(/[|\s*_:：–—-]+$/u, '')
        .split('|')
        .at(-1) ?? '',
    ),
  );
  let best = { index: -1, end: -1, length: 0 };
  for (const [index, step] of steps.entries()) {
    const name = folded(step);
    const end = name !== '' && cell === name ? text.length : endOf(text, name);
    if (end > best.end || (end === best.end && end >= 0 && name.length > best.length))
      best = { index, end, length: name.length };
  }
  return best.index;
}

/** Where a description ends in a text, or -1. One word is too common to be a name where other words surround it. */
function endOf(text: string, name: string): number {
  const isTelling = CJK.test(name) ? name.length >= 4 : name.includes(' ');
  const start = isTelling ? text.lastIndexOf(name) : -1;
  if (
    start < 0 ||
    (!CJK.test(name) && /[\p{L}\p{N}]/u.test(`${text[start - 1] ?? ''}${text[start + name.length] ?? ''}`))
  )
    return -1;
  return start + name.length;
}

/** "- [done] Find the reports", "| [Done] | Find the reports |": the description follows and nothing is said of it. */
function opens(after: string, step: string): boolean {
  const text = folded(after.replace(/^[\s|*_:：–—-]+/u, ''));
  const name = folded(step);
  return name !== '' && text.startsWith(name) && /^\s*(?:$|[|:：,，;；(（–—*_-])/u.test(text.slice(name.length));
}

/** "1. Fetch [Done]" in a list that counts the steps: its words are more those of that step than of the current one. */
function isListedAs(tag: Tag, steps: readonly string[], current: number): boolean {
  const number = LISTED.exec(tag.before)?.[1];
  const index = number === undefined ? -1 : stepByNumber(steps, Number(number));
  if (index < 0 || index === current) return false;
  const said = wordsOf(tag.before.replace(LISTED, ''));
  const share = (step: string): number => [...wordsOf(step)].filter((word) => said.has(word)).length;
  return share(steps[index] ?? '') > share(steps[current] ?? '');
}
