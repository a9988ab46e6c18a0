/** The size of the terminal that is recorded, in characters. */
export const COLUMNS = 100;
export const ROWS = 30;

/**
 * A part of a line with one style; `look` is a list of CSS classes: `b` bold, `d` dim, `c0` to `c7` the ANSI colours.
 */
export type Span = { column: number; text: string; look: string };

const SGR = /(\u001b\[[\d;]*m)/;
const QUOTED = /^ *│ /;
const TABLE = /^ *\S+ {2,}/;

/** How many columns a text takes, assuming one column per character. */
export const width = (text: string): number =>
  text.split(SGR).reduce((sum, part) => sum + (SGR.test(part) ? 0 : [...part].length), 0);

/** Wraps a line that is too wide: a table row between two columns, continued below the second; other text at spaces. */
export function wrap(text: string): string[] {
  if (width(text) <= COLUMNS) return [text];
  const columns = TABLE.exec(text)?.[0];
  const margin = columns ? ' '.repeat(width(columns)) : (QUOTED.exec(text)?.[0] ?? '  ');
  const rows: string[] = [];
  let row = '';
  for (const piece of text.split(columns ? /(?<=\S)(?= {2,})/ : /(?<=\S)(?= )/)) {
    if (row === '' || width(row + piece) <= COLUMNS) row += piece;
    else {
      rows.push(row);
      row = margin + piece.trimStart();
    }
  }
  return [...rows, row];
}

/** The spans of each line. As in a terminal, a style continues across line ends until it is changed. */
export function spansOf(lines: string[]): Span[][] {
  let look: string[] = [];
  return lines.map((line) => {
    const spans: Span[] = [];
    let column = 0;
    for (const part of line.split(SGR)) {
      if (SGR.test(part)) look = part.slice(2, -1).split(';').map(Number).reduce(changed, look);
      else if (part.trim()) spans.push({ column, text: part, look: look.join(' ') });
      column += width(part);
    }
    return spans;
  });
}

/** The style after one number of an SGR sequence (ECMA-48, 8.3.117); 90 to 97 are shown as 30 to 37. */
function changed(look: string[], code: number): string[] {
  const without = (classes: RegExp) => look.filter((one) => !classes.test(one));
  if (code === 0) return [];
  if (code === 1) return [...look, 'b'];
  if (code === 2) return [...look, 'd'];
  if (code === 22) return without(/[bd]/);
  if (code === 39) return without(/c/);
  return /^[39][0-7]$/.test(String(code)) ? [...without(/c/), `c${code % 10}`] : look;
}
