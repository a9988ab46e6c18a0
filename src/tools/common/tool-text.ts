/** Similarity of texts to one text, from 0 to 1: the share of letter pairs in common (Sørensen-Dice). */
export function similarityTo(wanted: string): (text: string) => number {
  const pairs = letterPairs(wanted);
  return (text) => {
    const others = letterPairs(text);
    let shared = 0;
    for (const pair of others) if (pairs.has(pair)) shared++;
    return (2 * shared) / (pairs.size + others.size);
  };
}

/** The names sorted by similarity to `wanted`, best first. */
export function sortBySimilarity(wanted: string, names: Iterable<string>): string[] {
  const like = similarityTo(wanted);
  return [...names]
    .map((name) => ({ name, score: like(name) }))
    .sort((a, b) => b.score - a.score)
    .map(({ name }) => name);
}

function letterPairs(text: string): Set<string> {
  const letters = ` ${text.trim().toLowerCase()} `;
  const pairs = new Set<string>();
  for (let at = 1; at < letters.length; at++) pairs.add(letters.slice(at - 1, at + 1));
  return pairs;
}

/** Removed and added lines, in diff format. */
export function diffLines(before: string, after: string): string {
  return [...prefixLines('-', before), ...prefixLines('+', after)].join('\n');
}

const prefixLines = (marker: string, text: string) =>
  text === ''
    ? []
    : text
        .replace(/\n$/, '')
        .split('\n')
        .map((line) => `${marker} ${line}`);

/** A name on one line, with control characters escaped. */
export function escapeControlChars(name: string): string {
  return name.replace(/[\u0000-\u001f\u007f]/g, (character) => JSON.stringify(character).slice(1, -1));
}

/** An exact size, for comparison. */
export function formatBytes(bytes: number): string {
  return bytes === 1 ? '1 byte' : `${bytes} bytes`;
}
