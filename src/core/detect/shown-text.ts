import type { BracketTag } from '../text/bracket-tags.ts';
import {
  isAssertedTag,
  isLinkOrIndex,
  isPlainTag,
  outsideTranscript,
  readTags,
  stepDeclarationOf,
} from '../text/bracket-tags.ts';
import { FencedCode, joinWords, PLACEHOLDER, withHiddenQuotes, withoutLeadingMarks } from '../text/prose.ts';
import { anyWordOf, wordPattern } from '../text/step-words.ts';
import { parseDoneTag, RETRACTION, STEP_ID } from './done-markers.ts';
import { parseStatusTag, statusOf } from './step-tags.ts';

/** A tag that says no more than which step is meant: by its number or its id. */
const STEP_REFERENCE = wordPattern(
  () => `^(?:${anyWordOf('step')}?[\\s_#]{0,3}\\d{1,3}|第\\s?(?:\\d{1,3}|[一二三四五六七八九十])\\s?步)$`,
);
/** What is left of a line whose marker was all that it said: a bullet, a number, emphasis. */
const SAYS_NOTHING = /^[^\p{L}\p{N}`]*(?:\d{1,4}[.)、])?[^\p{L}\p{N}`]*$/u;
/** Text in brackets, without brackets in it. It may not be closed yet. */
const BRACKETED = /[[【［]([^[\]【】［］]*)([\]】］])?/gu;
/** What may belong to a marker that follows it. */
const BEFORE_MARKER = /[\s*_\\]+$/u;
const LINE_END = /(\r\n?|[\n\u2028\u2029])/;

/**
 * The text of an answer without the markers that a step is done, and the lines that declare steps. Words in a marker
 * are kept: `[Done: five links]` becomes `five links`. `[Failed: no key]` stays: whoever gets the text may read it. In
 * code and quotations it is text and stays. An answer that is nothing but a marker becomes its word; one that only
 * declares steps stays as it is.
 */
export const withoutDoneMarkers = (text: string): string => withoutMarkers(text, text, { keepsStatus: true });

/**
 * The same for people, to whom `[Failed] no key` is `Failed: no key`, and `[Progress 2/5]` nothing; `otherwise` of an
 * answer that only declares steps.
 */
export function withoutMarkers(text: string, otherwise: string, { keepsStatus = false } = {}): string {
  if (!/[[【［]/.test(text)) return text;
  const lines = new MarkerFreeLines(keepsStatus);
  const parts = text.split(LINE_END);
  let shown = '';
  for (let place = 0; place < parts.length; place += 2) shown += lines.next(parts[place] ?? '', parts[place + 1] ?? '');
  if (lines.endsRemoved) shown = shown.trimEnd();
  return shown === '' && text !== '' ? lines.lastMarker || otherwise : shown;
}

/**
 * The same for an answer that is being written, piece by piece. What this returns ends before anything that may turn
 * out to be a marker; all of it together is the beginning of what `withoutMarkers` makes of the whole.
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

/** A checked item of a list may still become the declaration of a step. */
const CHECKED_ITEM = /^\s*(?:[-*+•]|\d{1,4}[.)、])\s*\[[ xX]\]\s*[*_]*\s*(?:[[【［][^\]】］]*)?$/u;

/** The beginning of a line that is still being written, up to what may turn out to be a marker or a declaration. */
function beforeMarker(line: string): string {
  if (CHECKED_ITEM.test(line) || stepDeclarationOf(readLine(line).read)) return '';
  const marker = [...line.matchAll(BRACKETED)].find(
    ([, inside = '', end]) =>
      end === undefined ||
      parseStatusTag(inside.replace(/\\$/, '').trim()) ||
      parseDoneTag(inside.replace(/\\$/, '').trim()),
  );
  return line.slice(0, marker?.index).replace(BEFORE_MARKER, '');
}

/** The lines of an answer without its done markers, one after the other; a line that was only a marker disappears. */
export class MarkerFreeLines {
  readonly code = new FencedCode();
  readonly #keepsStatus: boolean;
  readonly #isOutsideTranscript = outsideTranscript();
  /** The line before is blank or was removed: another blank line would be one too many. */
  #isAfterGap = true;
  #dropsBlank = false;
  /** The last line that says anything was removed. */
  endsRemoved = false;
  lastMarker = '';

  constructor(keepsStatus = false) {
    this.#keepsStatus = keepsStatus;
  }

  /** A line and its end as they are shown. */
  next(line: string, end: string): string {
    const markers = this.code.includes(line) || /^\s*>/.test(line) ? [] : this.#markers(line);
    const shown = markers?.reduceRight(withoutMarker, line) ?? '';
    const isBlank = shown.trim() === '';
    if (markers?.length !== 0 && SAYS_NOTHING.test(shown)) {
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

  /** Undefined if the line declares a step. */
  #markers(line: string): Marker[] | undefined {
    const { read, at } = readLine(line);
    if (!this.#isOutsideTranscript(read)) return [];
    if (stepDeclarationOf(read)) return undefined;
    const tags = readTags(read);
    const done = tags.flatMap((tag) => markerAt(tag, at));
    const others = this.#keepsStatus ? [] : tags.flatMap((tag) => statusMarkerAt(tag, at));
    // Beside a tag that stays, words without their brackets could turn it into a marker.
    const isAll = done.length + others.length === tags.length;
    const markers = isAll ? [...done, ...others].sort(byPlace) : done;
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

/** The tag that a step failed, is blocked, skipped or not done, of which the words are kept; or how far it is. */
function statusMarkerAt(tag: BracketTag, at: readonly number[]): Marker[] {
  const [status] = statusOf(tag);
  if (!status || status.kind === 'done' || parseDoneTag(tag.inside)) return [];
  const [start = 0, first = 0, end = 0] = [tag.start, tag.start + 1, tag.end].map((place) => at[place]);
  return [{ start, end, inside: tag.inside, words: status.kind === 'progress' ? -1 : first }];
}

const byPlace = (one: Marker, other: Marker): number => one.start - other.start;

const isReference = (words = ''): boolean => words === '' || STEP_REFERENCE().test(words) || STEP_ID.test(words);

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
