import type { Tag } from './brackets.ts';
import { isClaim } from './claims.ts';
import { numberOf } from './numbers.ts';

export { isClaim } from './claims.ts';

/**
 * The words of an explicit marker, exact but for case and space. English and Chinese come from the original three-tier
 * detector; the others are what models write when the conversation is in that language.
 */
const WORDS = new Set([
  ...['done', 'complete', 'completed', 'finished', 'step done', 'step complete', 'step completed'],
  ...['完成', '已完成', '步骤完成', '步驟完成', '结束', '結束'],
  ...['完了', 'ステップ完了'],
  ...['hecho', 'completado', 'terminado', 'paso completado'],
  ...['erledigt', 'fertig', 'abgeschlossen', 'schritt erledigt'],
  ...['terminé', 'fait', 'étape terminée'],
]);

/** A tick beside the word is dress; a cross or an hourglass is not. */
const TICKS = /^(?:[\u2713\u2714\u2705\u2611]|\uFE0F|\s)+|(?:[\u2713\u2714\u2705\u2611]|\uFE0F|\s)+$/gu;
/** More than this in brackets is no tag. */
const LONGEST = 200;
const NUMBERED =
  /^(?:(?:step|paso|schritt|étape|ステップ|步骤|步驟)[\s_#]{0,3}(\d{1,3})|第\s?(\d{1,3}|[一二三四五六七八九十])\s?步)\s?[:：–—-]?\s?(?=\p{L})/iu;
const TOLD = /\s?[:：–—]\s?|\s-\s/u;
/** What takes the word back inside the brackets: "[Done: not yet]", "[Done: 3/5]", "[Done: no]". */
const TAKEN_BACK =
  /\b(?:not|no|never|false|almost|nearly|partly|partially|half|except|pending|todo)\b|n['’]t\b|\d\s*(?:\/|of)\s*\d|%|[?？]|未|没|沒|不|部分|还差|還差/iu;
/** A name such as `fetch_links`: a step, by the id that a plan gave it. */
const ID = /^[a-z0-9]+(?:_[a-z0-9]+)+$/i;

/** What the inside of a done tag says beside the word: the number of a step, and words of its own. */
export interface DoneTag {
  readonly number?: number;
  readonly words?: string;
}

/** Reads `Done`, `✅ Done`, `Step 2 Done`, `Done: step_2`, `Done: five links`; undefined where it is no done tag. */
export function doneTag(inside: string): DoneTag | undefined {
  if (inside.length > LONGEST) return undefined;
  const bare = inside.replace(TICKS, '').replace(/\s+/g, ' ');
  const [label, digits, numeral] = NUMBERED.exec(bare) ?? [''];
  const [word = '', ...rest] = bare.slice(label.length).split(TOLD);
  if (!WORDS.has(word.toLowerCase())) return undefined;
  const words = bare
    .slice(bare.indexOf(word, label.length) + word.length)
    .replace(/^\s?[:：–—-]\s?/u, '')
    .trim();
  if (rest.length > 0 && words === '') return undefined;
  const number = numberOf(digits ?? numeral ?? '') ?? numberOf(words);
  return { ...(number !== undefined && { number }), ...(words !== '' && { words }) };
}

/** Whether a tag's inside is a marker: a word of the list, with or without the number of the step or what came out. */
export function isMarkerWord(inside: string): boolean {
  const tag = doneTag(inside);
  if (!tag) return false;
  const { words } = tag;
  return words === undefined || (tag.number === undefined && !TAKEN_BACK.test(words) && !ID.test(words));
}

/** The first tag that says by itself that the step is done. */
export const markerOf = (tags: readonly Tag[]): Tag | undefined =>
  tags.find((tag) => isMarkerWord(tag.inside) && isClaim(tag));
