/** Likeness of texts to one text, from 0 to 1: the share of letter pairs they have in common (Sørensen-Dice). */
export function likenessTo(wanted: string): (text: string) => number {
  const pairs = pairsOf(wanted);
  return (text) => {
    const others = pairsOf(text);
    let shared = 0;
    for (const pair of others) if (pairs.has(pair)) shared++;
    return (2 * shared) / (pairs.size + others.size);
  };
}

/** The same names, the one most like `wanted` first. */
export function nearest(wanted: string, names: Iterable<string>): string[] {
  const like = likenessTo(wanted);
  return [...names]
    .map((name) => ({ name, score: like(name) }))
    .sort((a, b) => b.score - a.score)
    .map(({ name }) => name);
}

function pairsOf(text: string): Set<string> {
  const letters = ` ${text.trim().toLowerCase()} `;
  const pairs = new Set<string>();
  for (let at = 1; at < letters.length; at++) pairs.add(letters.slice(at - 1, at + 1));
  return pairs;
}
