/** Longest answer that is searched for JSON. */
const LONGEST = 200_000;

/** The first whole JSON object in a text that may have talk or a fence around it; undefined where there is none. */
export function jsonIn(text: string): unknown {
  const within = text.slice(0, LONGEST);
  for (let from = within.indexOf('{'); from >= 0; from = within.indexOf('{', from + 1)) {
    const to = endOf(within, from);
    if (to < 0) return undefined;
    try {
      return JSON.parse(within.slice(from, to));
    } catch {
      // Not this brace: talk may have some of its own.
    }
  }
  return undefined;
}

/** Where the object that begins at `from` ends; -1 where it does not. Braces inside strings do not count. */
function endOf(text: string, from: number): number {
  let [depth, quoted] = [0, false];
  for (let at = from; at < text.length; at++) {
    const char = text[at];
    if (quoted) {
      if (char === '\\') at += 1;
      else if (char === '"') quoted = false;
    } else if (char === '"') quoted = true;
    else if (char === '{') depth += 1;
    else if (char === '}' && --depth === 0) return at + 1;
  }
  return -1;
}
