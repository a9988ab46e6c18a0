import type { Recalled, Writing } from '../protocol/notes.ts';
import { clip } from '../protocol/recorded.ts';
import { isPair, wordsOf } from './text/words.ts';

/** Of a longer text only its beginning is searched, in UTF-16 units. */
const SEARCHED = 50_000;
const PASSAGE_POINTS = 240;
const MOST_PASSAGES = 3;
/** What is this old, compared with the newest that was found, has lost half of what being new is worth. */
const HALF_LIFE_MS = 30 * 86_400_000;
/** How much of a score is being new. */
const NEWNESS = 0.25;

type Passage = { text: string; hits: string[] };
type Hit = { session: string; at: number; archived: boolean; key: string; hits: string[]; passages: Passage[] };

/** A search that is given one writing after another and keeps what it needs of it: a bounded piece of each that fits. */
export type Ranking = {
  /** How many words are searched for; with none, nothing is found. */
  words: number;
  add(writing: Writing): void;
  /** At most `limit`, those that fit best first; where two fit alike, the newer one. A plan and its replies are one. */
  best(limit: number): Recalled[];
};

/**
 * Ranks writings by the content words they share with a query; Han, kana and hangul by pairs of characters. A rare word weighs
 * more than a common one (inverse document frequency), words that stand together once more.
 */
export function ranking(query: string): Ranking {
  const wanted = [...wordsOf(query)];
  const isSingle = (word: string) => [...word].length === 1 && isPair(word);
  const hitsIn = (text: string): string[] => {
    const words = wordsOf(text);
    return wanted.filter((word) => words.has(word) || (isSingle(word) && text.includes(word)));
  };
  const found: Hit[] = [];
  const goals = new Map<string, string>();
  const spread = new Map<string, number>();
  let seen = 0;

  const weigh = (words: readonly string[]) =>
    words.reduce((sum, word) => sum + Math.log(1 + seen / (spread.get(word) ?? 1)), 0);

  function worth(hit: Hit, newest: number): number {
    const together = Math.max(0, ...hit.passages.map((passage) => weigh(passage.hits)));
    const newness = 0.5 ** ((newest - hit.at) / HALF_LIFE_MS);
    return (weigh(hit.hits) + together) * (1 - NEWNESS + NEWNESS * newness);
  }

  return {
    words: wanted.length,
    add(writing) {
      seen += 1;
      const key = `${writing.archived ? 'archive/' : ''}${writing.session}/${writing.plan ?? `${writing.at} ${seen}`}`;
      if (writing.goal !== undefined) goals.set(key, writing.goal);
      const text = writing.text.slice(0, SEARCHED);
      const hits = hitsIn(text);
      if (hits.length === 0) return;
      for (const word of hits) spread.set(word, (spread.get(word) ?? 0) + 1);
      const { session, archived } = writing;
      found.push({ session, archived, key, hits, at: Date.parse(writing.at), passages: passagesOf(text, hitsIn) });
    },
    best(limit) {
      const newest = Math.max(...found.map((hit) => hit.at));
      const ranked = found
        .map((hit) => ({ hit, score: worth(hit, newest) }))
        .sort((a, b) => b.score - a.score || b.hit.at - a.hit.at);
      const families = new Map<string, Hit[]>();
      for (const { hit } of ranked) families.set(hit.key, [...(families.get(hit.key) ?? []), hit]);
      return [...families].slice(0, limit).map(([key, hits]) => recalled(hits, goals.get(key)));
    },
  };
}

function recalled(hits: readonly Hit[], goal: string | undefined): Recalled {
  const [first] = hits;
  const passages = hits
    .flatMap((hit) => hit.passages)
    .sort((a, b) => b.hits.length - a.hits.length)
    .map((passage) => passage.text);
  return {
    session: first?.session ?? '',
    at: new Date(Math.max(...hits.map((hit) => hit.at))).toISOString(),
    goal: goal === undefined ? undefined : clip(goal, PASSAGE_POINTS),
    archived: first?.archived ?? false,
    passages: [...new Set(passages)].slice(0, MOST_PASSAGES),
  };
}

/** The lines and sentences that have most of the words in them. */
function passagesOf(text: string, hitsIn: (text: string) => string[]): Passage[] {
  return text
    .split(/\n+|(?<=[.!?]\s)|(?<=[。！？；])/)
    .flatMap(pieces)
    .map((piece) => ({ text: piece, hits: hitsIn(piece) }))
    .filter(({ hits }) => hits.length > 0)
    .sort((a, b) => b.hits.length - a.hits.length)
    .slice(0, MOST_PASSAGES);
}

/** A piece too long to be shown is shown by the part that fits, never by its beginning alone. */
function pieces(long: string): string[] {
  const text = long.replace(/\s+/g, ' ').trim();
  if (text.length <= PASSAGE_POINTS) return [text];
  const points = [...text];
  const parts: string[] = [];
  for (let at = 0; at < points.length; at += PASSAGE_POINTS) parts.push(points.slice(at, at + PASSAGE_POINTS).join(''));
  return parts;
}
