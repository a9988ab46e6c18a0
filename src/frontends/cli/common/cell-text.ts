/**
 * Wide and fullwidth characters of East Asia, and emoji. Terminals measure code points one by one, so this does too: a
 * family of joined emoji is as wide as its members.
 */
const WIDE =
  /[\u1100-\u115f\u2e80-\u303e\u3041-\ua4cf\ua960-\ua97c\uac00-\ud7a3\uf900-\ufaff\ufe10-\ufe19\ufe30-\ufe6f\uff01-\uff60\uffe0-\uffe6\u{20000}-\u{3fffd}]|(?![\u{1f1e6}-\u{1f1ff}])\p{Emoji_Presentation}/u;
/** Characters that take no cell of their own: marks on another one, joiners, selectors. */
const ZERO_WIDTH = /[\p{Mn}\p{Me}\p{Cf}\u1160-\u11ff]/u;
const COLOUR = /\u001b\[[\d;]*m/g;

/** How many cells of a terminal a character takes: 0, 1 or 2. */
export function charWidth(char: string): number {
  if (char < '\u0300') return char === '\u00ad' ? 1 : char < ' ' ? 0 : 1;
  return ZERO_WIDTH.test(char) ? 0 : WIDE.test(char) ? 2 : 1;
}

/** How many cells a text takes in one line; colours take none. */
export function cellWidth(text: string): number {
  let cells = 0;
  for (const char of text.replace(COLOUR, '')) cells += charWidth(char);
  return cells;
}

/** As much of a text without colours as fits into so many cells; cut text ends in an ellipsis. */
export function fitToWidth(text: string, cells: number): string {
  if (cellWidth(text) <= cells) return text;
  let used = 1;
  let kept = '';
  for (const char of text) {
    used += charWidth(char);
    if (used > cells) break;
    kept += char;
  }
  return cells > 0 ? `${kept}…` : '';
}

/** A text without colours in exactly so many cells. */
export function padToWidth(text: string, cells: number): string {
  const fitted = fitToWidth(text, cells);
  return fitted + ' '.repeat(Math.max(0, cells - cellWidth(fitted)));
}

/**
 * A line in rows of at most so many cells, broken at spaces and between wide characters where possible. More text at
 * the end of the line changes no row but the last.
 */
export function wrapLine(line: string, cells: number): string[] {
  const rows: string[] = [];
  let row = '';
  let used = 0;
  /** Where the row may be broken; 0: nowhere. */
  let gap = 0;
  for (const char of line) {
    const width = charWidth(char);
    if (used + width > cells && row !== '') {
      const isSpace = char === ' ';
      const end = isSpace || width === 2 || gap === 0 ? row.length : gap;
      rows.push(row.slice(0, end).trimEnd());
      row = row.slice(end);
      used = cellWidth(row);
      gap = 0;
      if (isSpace) continue;
    }
    row += char;
    used += width;
    if ((char === ' ' && row.trim() !== '') || width === 2) gap = row.length;
  }
  return [...rows, row];
}
