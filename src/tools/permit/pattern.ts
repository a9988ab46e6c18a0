type Part = { char: string } | 'any';

function partsOf(pattern: string): Part[] {
  const found = pattern.match(/\\[\\*]|[\s\S]/gu) ?? [];
  return found.map((part) => (part === '*' ? 'any' : { char: [...part].at(-1) ?? '' }));
}

/**
 * A pattern in which `*` stands for any text, held against all of a text; `\*` and `\\` stand for themselves. Without a regular
 * expression: the text is the model's, and some expressions take for ever.
 */
export function fits(pattern: string, text: string): boolean {
  const [parts, chars] = [partsOf(pattern), [...text]];
  let [part, char] = [0, 0];
  /** Where the last star stands, and how far what it stands for reaches. */
  let star = { part: -1, char: 0 };
  while (char < chars.length) {
    const now = parts[part];
    if (now === 'any') {
      star = { part, char };
      part += 1;
    } else if (now?.char === chars[char]) {
      part += 1;
      char += 1;
    } else if (star.part >= 0) {
      star.char += 1;
      [part, char] = [star.part + 1, star.char];
    } else return false;
  }
  return parts.slice(part).every((rest) => rest === 'any');
}

/** Whether a `*` in it stands for something. */
export const isOpen = (pattern: string): boolean => partsOf(pattern).includes('any');

/**
 * The same for addresses: before the path a `*` stands for no slash and no user, so that `https://*.example.com/*` is no other
 * host that has the name somewhere in its path.
 */
export function fitsAddress(pattern: string, address: string): boolean {
  const [wanted, came] = [cutAddress(pattern), cutAddress(address)];
  if (!wanted || !came) return fits(pattern, address);
  const path = wanted.path === '' ? (wanted.host.endsWith('*') ? '*' : '/') : wanted.path;
  return (
    fits(wanted.host, came.host) && (wanted.host.includes('@') || !came.host.includes('@')) && fits(path, came.path)
  );
}

/** `scheme://host`, which has no slash behind it, and the path. */
function cutAddress(text: string): { host: string; path: string } | null {
  const found = /^([a-z*]+:\/\/[^/?#]*)([\s\S]*)$/i.exec(text);
  return found ? { host: found[1] ?? '', path: found[2] ?? '' } : null;
}
