import { truncate } from '../../base/strings.ts';
import type { PlanSearchResult, SearchDocument } from '../../protocol/workspace/memory-notes.ts';
import { contentWords, isCharacterPair } from './content-words.ts';

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
