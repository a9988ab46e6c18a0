import type { BracketTag } from '../text/bracket-tags.ts';
import {
  isAssertedTag,
  isLinkOrIndex,
  isPlainTag,
  outsideTranscript,
  readTags,
  stepDeclarationOf,
} from '../text/bracket-tags.ts';
import { contentWords } from '../text/content-words.ts';
import { FencedCode, joinWords, PLACEHOLDER, withHiddenQuotes, withoutLeadingMarks } from '../text/prose.ts';
import { stepIndexByNumber, stepNumberAtStart } from './statements.ts';

/**
 * The words of an explicit marker, exact except for case and spaces. English and Chinese come from the original
 * three-tier detector; the others are what models write when the conversation is in that language.
 */
const DONE_WORDS = new Set([
  ...['done', 'complete', 'completed', 'finished', 'step done', 'step complete', 'step completed'],
  ...['完成', '已完成', '步骤完成', '步驟完成', '结束', '結束'],
  ...['完了', 'ステップ完了'],
  ...['hecho', 'completado', 'terminado', 'paso completado'],
  ...['erledigt', 'fertig', 'abgeschlossen', 'schritt erledigt'],
  ...['terminé', 'fait', 'étape terminée'],
]);

/** A tick next to the word is decoration; a cross or an hourglass is not. */
const TICKS = /^(?:[\u2713\u2714\u2705\u2611]|\uFE0F|\s)+|(?:[\u2713\u2714\u2705\u2611]|\uFE0F|\s)+$/gu;
/** Longer text in brackets is not a tag. */
const MAX_TAG_LENGTH = 200;
const STEP_LABEL =
  /^(?:(?:step|paso|schritt|étape|ステップ|步骤|步驟)[\s_#]{0,3}(\d{1,3})|第\s?(\d{1,3}|[一二三四五六七八九十])\s?步)\s?[:：–—-]?\s?(?=\p{L})/iu;
const DETAIL_SEPARATOR = /\s?[:：–—]\s?|\s-\s/u;
/** Text in the brackets that retracts the word: "[Done: not yet]", "[Done: 3/5]", "[Done: no]". */
const RETRACTION =
  /\b(?:not|no|never|false|almost|nearly|partly|partially|half|except|pending|todo)\b|n['’]t\b|\d\s*(?:\/|of)\s*\d|%|[?？]|未|没|沒|不|部分|还差|還差/iu;
/** A name such as `fetch_links`: the id that a plan gave to a step. */
const STEP_ID = /^[a-z0-9]+(?:_[a-z0-9]+)+$/i;

/** What a done tag contains besides the word: the number of a step, and other words. */
export interface DoneTag {
  readonly number?: number;
  readonly words?: string;
}

/** Parses `Done`, `✅ Done`, `Step 2 Done`, `Done: step_2`, `Done: five links`; undefined if it is not a done tag. */
export function parseDoneTag(inside: string): DoneTag | undefined {
  if (inside.length > MAX_TAG_LENGTH) return undefined;
  const bare = inside.replace(TICKS, '').replace(/\s+/g, ' ');
  const [label, digits, numeral] = STEP_LABEL.exec(bare) ?? [''];
  const [word = '', ...rest] = bare.slice(label.length).split(DETAIL_SEPARATOR);
  if (!DONE_WORDS.has(word.toLowerCase())) return undefined;
  const words = bare
    .slice(bare.indexOf(word, label.length) + word.length)
    .replace(/^\s?[:：–—-]\s?/u, '')
    .trim();
  if (rest.length > 0 && words === '') return undefined;
  const number = stepNumberAtStart(digits ?? numeral ?? '') ?? stepNumberAtStart(words);
  return { ...(number !== undefined && { number }), ...(words !== '' && { words }) };
}

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

/** A tag that says no more than which step is meant: by its number or its id. */
const STEP_REFERENCE =
  /^(?:(?:step|paso|schritt|étape|ステップ|步骤|步驟)?[\s_#]{0,3}\d{1,3}|第\s?(?:\d{1,3}|[一二三四五六七八九十])\s?步)$/iu;
/** What is left of a line whose marker was all that it said: a bullet, a number, emphasis. */
const SAYS_NOTHING = /^[^\p{L}\p{N}`]*(?:\d{1,4}[.)、])?[^\p{L}\p{N}`]*$/u;
/** Text in brackets, without brackets in it. It may not be closed yet. */
const BRACKETED = /[[【［]([^[\]【】［］]*)([\]】］])?/gu;
/** What may belong to a marker that follows it. */
const BEFORE_MARKER = /[\s*_\\]+$/u;
const LINE_END = /(\r\n?|[\n\u2028\u2029])/;

/**
 * The text of an answer for people: without the markers by which it states that a step is done, and otherwise as it was
 * said. Words in such a tag are kept: `[Done: five links]` becomes `five links`. In code and quotations a marker is
 * text and stays. An answer that is nothing but a marker becomes the marker's word.
 */
export function withoutDoneMarkers(text: string): string {
  if (!/[[【［]/.test(text)) return text;
  const lines = new MarkerFreeLines();
  const parts = text.split(LINE_END);
  let shown = '';
  for (let place = 0; place < parts.length; place += 2) shown += lines.next(parts[place] ?? '', parts[place + 1] ?? '');
  if (lines.endsRemoved) shown = shown.trimEnd();
  return shown === '' && lines.lastMarker !== '' ? lines.lastMarker : shown;
}

/**
 * The same for an answer that is being written, piece by piece. What this returns ends before anything that may turn
 * out to be a marker; all of it together is the beginning of what `withoutDoneMarkers` makes of the whole.
 */
export function showWhileWritten(): (piece: string) => string {
  const lines = new MarkerFreeLines();
  /** The whole lines as they are shown, the line that is being written, and how much of both was returned. */
  let [whole, open, sent] = ['', '', 0];
  return (piece) => {
    const parts = (open + piece).split(LINE_END);
    // A carriage return may be the first half of a line's end.
    open = parts.at(-2) === '\r' && parts.at(-1) === '' ? parts.splice(-3).join('') : (parts.pop() ?? '');
    for (let place = 0; place < parts.length; place += 2)
      whole += lines.next(parts[place] ?? '', parts[place + 1] ?? '');
    const begun = lines.code.isOpen ? open : beforeMarker(open);
    const settled = (SAYS_NOTHING.test(begun) ? whole : whole + begun).trimEnd();
    const fresh = settled.slice(sent);
    sent = Math.max(sent, settled.length);
    return fresh;
  };
}

/** The beginning of a line that is still being written, up to what may turn out to be a marker. */
function beforeMarker(line: string): string {
  const marker = [...line.matchAll(BRACKETED)].find(
    ([, inside = '', end]) => end === undefined || parseDoneTag(inside.replace(/\\$/, '').trim()),
  );
  return line.slice(0, marker?.index).replace(BEFORE_MARKER, '');
}

/** The lines of an answer without its done markers, one after the other; a line that was only a marker disappears. */
export class MarkerFreeLines {
  readonly code = new FencedCode();
  readonly #isOutsideTranscript = outsideTranscript();
  /** The line before is blank or was removed: another blank line would be one too many. */
  #isAfterGap = true;
  #dropsBlank = false;
  /** The last line that says anything was removed. */
  endsRemoved = false;
  lastMarker = '';

  /** A line and its end as they are shown. */
  next(line: string, end: string): string {
    const markers = this.code.includes(line) || /^\s*>/.test(line) ? [] : this.#markers(line);
    const shown = markers.reduceRight(withoutMarker, line);
    const isBlank = shown.trim() === '';
    if (markers.length > 0 && SAYS_NOTHING.test(shown)) {
      this.#dropsBlank = this.#isAfterGap;
      this.endsRemoved = true;
      return '';
    }
    if (isBlank && this.#dropsBlank) return '';
    this.#dropsBlank = false;
    this.#isAfterGap = isBlank;
    if (!isBlank) this.endsRemoved = false;
    return shown + end;
  }

  #markers(line: string): Marker[] {
    const { read, at } = readLine(line);
    if (!this.#isOutsideTranscript(read) || stepDeclarationOf(read)) return [];
    const markers = readTags(read).flatMap((tag) => markerAt(tag, at));
    this.lastMarker = markers.at(-1)?.inside ?? this.lastMarker;
    // Of two that are nested, the one inside is the marker.
    return markers.filter(({ end }, place) => end <= (markers[place + 1]?.start ?? end));
  }
}

/** An escaped bracket, something hidden, or any other character. */
const READ_AS_ONE = new RegExp(String.raw`\\[[\]]|${PLACEHOLDER}+|[^]`, 'g');

/** A line as completion detection reads it, and where in the line each of its characters stands, and its end. */
function readLine(line: string): { read: string; at: number[] } {
  const prose = withHiddenQuotes(line);
  const at: number[] = [];
  let read = '';
  for (const { 0: found, index } of prose.matchAll(READ_AS_ONE)) {
    read += found.at(-1) ?? '';
    at.push(index);
  }
  at.push(line.length);
  return { read, at };
}

/** A marker that is not shown, with the place of the words in it that are kept; -1 if there are none. */
type Marker = { start: number; end: number; inside: string; words: number };

/** The marker a tag is, if it is one: each that may close a step, and others like it. */
function markerAt(tag: BracketTag, at: readonly number[]): Marker[] {
  const { start, closedAt, inside, raw } = tag;
  const found = parseDoneTag(inside);
  if (!found || closedAt === undefined || (tag.isNested && !isPlainTag(tag))) return [];
  if (isLinkOrIndex(tag) || !isAssertedTag(tag)) return [];
  const { number, words = '' } = found;
  if (number === undefined && !isReference(words) && RETRACTION.test(words)) return [];
  const from = start + Math.max(raw.lastIndexOf(words), raw.search(/[:：–—-]/u) + 1);
  const kept = isReference(words) ? -1 : (at[from] ?? 0);
  return [{ start: at[start] ?? 0, end: at[closedAt] ?? 0, inside, words: kept }];
}

const isReference = (words = ''): boolean => words === '' || STEP_REFERENCE.test(words) || STEP_ID.test(words);

/** What a line has before and after a tag, without the emphasis that encloses nothing else. */
function cutTag(line: string, tag: Pick<BracketTag, 'start' | 'end'>): [string, string] {
  const [before, after] = [line.slice(0, tag.start).replace(/\\$/, ''), line.slice(tag.end)];
  const mark = /(?:\*{1,3}|_{1,3})$/.exec(before)?.[0] ?? '';
  return mark !== '' && after.startsWith(mark)
    ? [before.slice(0, -mark.length), after.slice(mark.length)]
    : [before, after];
}

/** A line without one of its markers, and without the emphasis and the space that belonged to it. */
function withoutMarker(line: string, marker: Marker): string {
  const [before, after] = cutTag(line, marker);
  if (marker.words < 0) {
    const leads = withoutLeadingMarks(before).trim() === '';
    return leads ? before + after.replace(/^[ \t:：]+/, '') : joinWords(before.trimEnd(), after);
  }
  // "[Done: Count the lines] 3" gives the result of a named step.
  const said = line.slice(marker.words, marker.end - 1).replace(/^\s+|\s*\\?$/g, '');
  return `${joinWords(before, said)}${/^\s*[^\s.,;:!?。，；：！？)]/u.test(after) ? ':' : ''}${after}`;
}
