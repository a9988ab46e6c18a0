import { truncate } from '../../base/strings.ts';
import type { PlanSearchResult, SearchDocument } from '../../protocol/workspace/memory-notes.ts';

/**
 * Content words of a text, to measure how much two texts have in common. Latin words are reduced to a crude stem, and
 * names such as `getUseUTC` or `pkg/cmd/utils.go` are also split into their parts; runs of Han, kana and hangul become
 * pairs of characters, since they are written without spaces.
 */

const WORD_RUN = /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}ー々]+|\p{Script=Hangul}+|[\p{L}\p{N}]+/gu;
const CJK = /^[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Hangul}]/u;
const ASCII = /^[\x00-\x7F]*$/;
const ASCII_RUN = /[A-Za-z0-9]+/g;
/** A single hump: nothing to split. */
const SINGLE_HUMP = /^[A-Z]?[a-z]+$/;
const CAMEL_PARTS = /[\p{Lu}]+(?![\p{Ll}])|\p{Lu}?\p{Ll}+|\p{N}+|[\p{L}]+/gu;

const STOP_WORDS = new Set(
  (
    'a an the this that these those it its they them their i me my we us our you your he she of in on at to for from by ' +
    'with without into onto as is are was were be been being am do does did has have had will would shall should can could ' +
    'may might must let lets ll ve re s t d m and or but nor not no so if than then now next first also too just still ' +
    'all any some each every both other another more most much many there here what which who when where why how up out ' +
    'off over under about after before again need needs needed going go want ok okay good great perfect excellent step ' +
    'steps task tasks phase via per new'
  ).split(' '),
);
const CJK_STOP_PAIRS =
  /^(?:现在|現在|接下|下来|下來|然后|然後|开始|開始|让我|讓我|我们|我們|一下|这个|這個|步骤|步驟|下一|一步|继续|繼續|进行|進行|已经|已經|可以|需要)$/;

/** Removes inflection: updates, updated, updating and update become one. It need not be right, only consistent. */
function stem(word: string): string {
  if (word.length <= 3 || !/^[a-z]+$/.test(word)) return word;
  let root = word;
  if (root.endsWith('ies')) root = `${root.slice(0, -3)}y`;
  else if (root.endsWith('sses')) root = root.slice(0, -2);
  else if (root.endsWith('s') && !/(?:ss|us|is)$/.test(root)) root = root.slice(0, -1);
  if (root.length > 5 && root.endsWith('ing')) root = root.slice(0, -3);
  else if (root.length > 4 && root.endsWith('ed')) root = root.slice(0, -2);
  else if (root.length > 5 && root.endsWith('er')) root = root.slice(0, -2);
  if (root.length > 3 && root.endsWith('e')) root = root.slice(0, -1);
  return /([b-df-hj-np-tv-z])\1$/.test(root) && root.length > 4 ? root.slice(0, -1) : root;
}

/** The content words of a text, as stems. Pure and total; in the order of the text. */
export function contentWords(text: string): Set<string> {
  const words = new Set<string>();
  if (ASCII.test(text)) {
    for (const run of text.match(ASCII_RUN) ?? []) addWord(run, words);
    return words;
  }
  for (const run of text.normalize('NFC').match(WORD_RUN) ?? []) {
    if (CJK.test(run)) addPairs(run, words);
    else addWord(run, words);
  }
  return words;
}

/** Whether a word is a pair of characters of a script without spaces. */
export const isCharacterPair = (word: string): boolean => CJK.test(word);

function addWord(run: string, words: Set<string>): void {
  const whole = run.toLowerCase();
  if (!STOP_WORDS.has(whole)) words.add(stem(whole));
  if (SINGLE_HUMP.test(run)) return;
  const parts = run.match(CAMEL_PARTS) ?? [];
  if (parts.length < 2) return;
  for (const part of parts) {
    const lower = part.toLowerCase();
    if (lower.length > 1 && !STOP_WORDS.has(lower)) words.add(stem(lower));
  }
}

function addPairs(run: string, words: Set<string>): void {
  const letters = [...run];
  if (letters.length === 1) words.add(run);
  for (let at = 0; at + 1 < letters.length; at++) {
    const pair = `${letters[at]}${letters[at + 1]}`;
    if (!CJK_STOP_PAIRS.test(pair)) words.add(pair);
  }
}

/** Only the beginning of a longer text is searched, in UTF-16 units. */
const MAX_SEARCHED_CHARS = 50_000;
const PASSAGE_LENGTH = 240;
const MAX_PASSAGES = 3;
/** A document this much older than the newest one found has lost half of its recency score. */
const HALF_LIFE_MS = 30 * 86_400_000;
/** The share of recency in a score. */
const RECENCY_WEIGHT = 0.25;

type RankedPassage = { text: string; hits: string[] };
type SearchHit = {
  session: string;
  at: number;
  archived: boolean;
  key: string;
  hits: string[];
  passages: RankedPassage[];
};

/** A search that receives one document after another and keeps only a bounded part of each match. */
export type SearchRanking = {
  /** How many words are searched for; with none, nothing is found. */
  wordCount: number;
  add(document: SearchDocument): void;
  /** At most `limit` results, best first; on a tie the newer one. A plan and its replies are one result. */
  top(limit: number): PlanSearchResult[];
};

/**
 * Ranks documents by the content words they share with a query; Han, kana and hangul by pairs of characters. A rare
 * word weighs more than a common one (inverse document frequency), and adjacent words weigh extra.
 */
export function createSearchRanking(query: string): SearchRanking {
  const wanted = [...contentWords(query)];
  const isSingle = (word: string) => [...word].length === 1 && isCharacterPair(word);
  const hitsIn = (text: string): string[] => {
    const words = contentWords(text);
    return wanted.filter((word) => words.has(word) || (isSingle(word) && text.includes(word)));
  };
  const found: SearchHit[] = [];
  const goals = new Map<string, string>();
  const spread = new Map<string, number>();
  let seen = 0;

  const weigh = (words: readonly string[]) =>
    words.reduce((sum, word) => sum + Math.log(1 + seen / (spread.get(word) ?? 1)), 0);

  function worth(hit: SearchHit, newest: number): number {
    const together = Math.max(0, ...hit.passages.map((passage) => weigh(passage.hits)));
    const newness = 0.5 ** ((newest - hit.at) / HALF_LIFE_MS);
    return (weigh(hit.hits) + together) * (1 - RECENCY_WEIGHT + RECENCY_WEIGHT * newness);
  }

  return {
    wordCount: wanted.length,
    add(document) {
      seen += 1;
      const key = `${document.archived ? 'archive/' : ''}${document.session}/${document.plan ?? `${document.at} ${seen}`}`;
      if (document.goal !== undefined) goals.set(key, document.goal);
      const text = document.text.slice(0, MAX_SEARCHED_CHARS);
      const hits = hitsIn(text);
      if (hits.length === 0) return;
      for (const word of hits) spread.set(word, (spread.get(word) ?? 0) + 1);
      const { session, archived } = document;
      found.push({ session, archived, key, hits, at: Date.parse(document.at), passages: bestPassages(text, hitsIn) });
    },
    top(limit) {
      const newest = Math.max(...found.map((hit) => hit.at));
      const ranked = found
        .map((hit) => ({ hit, score: worth(hit, newest) }))
        .sort((a, b) => b.score - a.score || b.hit.at - a.hit.at);
      const groups = new Map<string, SearchHit[]>();
      for (const { hit } of ranked) groups.set(hit.key, [...(groups.get(hit.key) ?? []), hit]);
      return [...groups].slice(0, limit).map(([key, hits]) => mergeHits(hits, goals.get(key)));
    },
  };
}

function mergeHits(hits: readonly SearchHit[], goal: string | undefined): PlanSearchResult {
  const [first] = hits;
  const passages = hits
    .flatMap((hit) => hit.passages)
    .sort((a, b) => b.hits.length - a.hits.length)
    .map((passage) => passage.text);
  return {
    session: first?.session ?? '',
    at: new Date(Math.max(...hits.map((hit) => hit.at))).toISOString(),
    goal: goal === undefined ? undefined : truncate(goal, PASSAGE_LENGTH),
    archived: first?.archived ?? false,
    passages: [...new Set(passages)].slice(0, MAX_PASSAGES),
  };
}

/** The lines and sentences with the most matching words. */
function bestPassages(text: string, hitsIn: (text: string) => string[]): RankedPassage[] {
  return text
    .split(/\n+|(?<=[.!?]\s)|(?<=[。！？；])/)
    .flatMap(splitLongText)
    .map((piece) => ({ text: piece, hits: hitsIn(piece) }))
    .filter(({ hits }) => hits.length > 0)
    .sort((a, b) => b.hits.length - a.hits.length)
    .slice(0, MAX_PASSAGES);
}

/** A passage too long to show is shown by the part that matches, not just by its beginning. */
function splitLongText(long: string): string[] {
  const text = long.replace(/\s+/g, ' ').trim();
  if (text.length <= PASSAGE_LENGTH) return [text];
  const points = [...text];
  const parts: string[] = [];
  for (let at = 0; at < points.length; at += PASSAGE_LENGTH) parts.push(points.slice(at, at + PASSAGE_LENGTH).join(''));
  return parts;
}

/** A description as it is compared: case, spaces and the full stop at its end make no other step of it. */
export const comparableDescription = (description: string): string =>
  description
    .normalize('NFC')
    .toLowerCase()
    .replace(/\s+/g, ' ')
    .trim()
    .replace(/[\s.。;；]+$/u, '');
