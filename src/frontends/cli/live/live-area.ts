import { escapeMisleading } from '../../../base/strings.ts';
import { cellWidth, charWidth, colorize, fitToWidth, stripControls, wrapLine } from '../common/terminal.ts';
import { openMarkdown } from './set-markdown.ts';

/** A terminal to write to. */
export type TerminalOutput = Pick<NodeJS.WriteStream, 'write' | 'columns' | 'rows'>;

/** What is below the text that stays. `cursor` is a position in `draft`, in UTF-16 units. */
type LiveView = { status: string; hint: string; prompt: string; draft: string; cursor: number };

/**
 * Text that stays, and below it lines that change: the unfinished end of streamed text, a status line, a hint and the
 * prompt. What was printed is never printed again, so the scrollback of the terminal has it once.
 */
export type LiveArea = {
  /** Prints lines that stay; streamed text that ended in the middle of a line is ended first. May have colours. */
  line(text: string): void;
  /** Prints a piece of streamed text, which may end anywhere. */
  text(piece: string): void;
  show(view: Partial<LiveView>): void;
  /** Draws the changing lines again, after the size changed or something else wrote to the terminal. */
  redraw(): void;
  /** Removes the changing lines. */
  close(): void;
};

/** Between these a terminal that knows them shows nothing; the others ignore them. */
export const BEGIN_FRAME = '\u001b[?2026h';
export const END_FRAME = '\u001b[?2026l';
const CLEAR_BELOW = '\r\u001b[J';
const move = (count: number, direction: 'A' | 'C') => (count > 0 ? `\u001b[${count}${direction}` : '');

/** Longest status line and hint, in cells: a short line is seldom broken when the window gets narrower. */
const MAX_STATUS_CELLS = 100;

export function openLiveArea(out: TerminalOutput): LiveArea {
  const view: LiveView = { status: '', hint: '', prompt: '', draft: '', cursor: 0 };
  let tail = '';
  /** The end of the text that is not set yet. */
  let raw = '';
  let drawn: DrawnRows = { widths: [], row: 0 };
  const columns = () => Math.max(8, out.columns || 80);

  const erase = () => `${move(rowsAbove(drawn, columns()), 'A')}${CLEAR_BELOW}`;
  const paint = (stays: readonly string[]) => {
    const erased = erase();
    const { text, rows } = layOut(view, tail + raw, columns(), out.rows || 24);
    drawn = rows;
    out.write(`${BEGIN_FRAME}${erased}${stays.map((line) => `${line}\r\n`).join('')}${text}${END_FRAME}`);
  };
  const markdown = openMarkdown(columns);
  /** The rows of streamed text that cannot change any more. */
  const takeRows = (text: string): string[] => {
    const lines = (tail + text).split('\n');
    const rows = lines.map((line) => wrapLine(line, columns()));
    const last = rows.pop() ?? [''];
    tail = last.pop() ?? '';
    return [...rows.flat(), ...last];
  };

  /** Text that has not ended its line ends here. */
  const endText = (): string[] => {
    raw = '';
    const rows = takeRows(markdown.end());
    const ended = tail === '' ? rows : [...rows, tail];
    tail = '';
    return ended;
  };

  return {
    line(text) {
      const lines = escapeMisleading(text).split('\n');
      paint([...endText(), ...lines.flatMap((one) => wrapHanging(one, columns()))]);
    },
    text(piece) {
      const { set, open } = markdown.write(escapeMisleading(stripControls(piece.replaceAll('\t', '    '))));
      raw = open;
      paint(takeRows(set));
    },
    show(change) {
      const isSame = Object.entries(change).every(([key, value]) => view[key as keyof LiveView] === value);
      Object.assign(view, change);
      if (!isSame) paint([]);
    },
    redraw: () => paint([]),
    close() {
      out.write(
        `${BEGIN_FRAME}${erase()}${endText()
          .map((row) => `${row}\r\n`)
          .join('')}${END_FRAME}`,
      );
      drawn = { widths: [], row: 0 };
    },
  };
}

/** A printed line in rows: below its second column if it has two, else below its beginning. */
function wrapHanging(line: string, cells: number): string[] {
  const [first = '', ...rest] = wrapLine(line, cells);
  const indent = /^ *(?:\S+(?: \S+)* {2,}(?=\S))?/.exec(line)?.[0] ?? '';
  if (rest.length === 0 || indent === '' || indent.length > cells / 2 || line.includes('\u001b'))
    return [first, ...rest];
  const below = line.slice(first.length).trimStart();
  return [first, ...wrapLine(below, cells - indent.length).map((row) => ' '.repeat(indent.length) + row)];
}

/** What was drawn: the cells of each row, and the row the cursor was left in. */
type DrawnRows = { widths: number[]; row: number };

/**
 * Rows between the first one drawn and the cursor, now that the terminal may be narrower and have broken some. Some
 * terminals break the row of the cursor as well, some do not: it counts as whole, so that no text above is erased.
 */
function rowsAbove({ widths, row }: DrawnRows, columns: number): number {
  return widths.slice(0, row).reduce((sum, cells) => sum + Math.max(1, Math.ceil(cells / columns)), 0);
}

/** The changing lines and the way from their end to the cursor. */
function layOut(
  { status, hint, prompt, draft, cursor }: LiveView,
  tail: string,
  columns: number,
  height: number,
): { text: string; rows: DrawnRows } {
  const width = Math.min(columns - 1, MAX_STATUS_CELLS);
  const notes = [status, hint].filter((note) => note !== '').map((note) => fitToWidth(stripControls(note), width));
  const text = tail === '' ? [] : wrapLine(tail, columns);
  const above = [...text, ...notes];
  const input = layOutDraft(prompt, draft, cursor, columns);
  // A draft longer than the window is shown around the cursor.
  const most = Math.max(1, height - above.length - 1);
  const first = Math.max(0, Math.min(input.row - most + 1, input.rows.length - most));
  const shown = input.rows.slice(first, first + most);
  const row = above.length + input.row - first;
  const rows = [...above, ...shown];
  const painted = [
    ...text.map((row) => (row.includes('\u001b') ? `${row}\u001b[0m` : row)),
    ...notes.map((note) => colorize('dim', note)),
    ...shown,
  ];
  const drawn = `${painted.join('\r\n')}${move(rows.length - 1 - row, 'A')}\r${move(input.column, 'C')}`;
  return { text: drawn, rows: { widths: rows.map(cellWidth), row } };
}

/** The prompt and the draft in rows, and the place of the cursor in them. */
function layOutDraft(prompt: string, draft: string, cursor: number, columns: number) {
  const rows = [''];
  let column = 0;
  let at = { row: 0, column: 0 };
  let passed = -prompt.length;
  for (const char of prompt + draft) {
    const shown = charWidth(char) === 0 && char < ' ' ? ' ' : char;
    const width = charWidth(shown);
    if (column + width > columns) {
      rows.push('');
      column = 0;
    }
    if (passed === cursor) at = { row: rows.length - 1, column };
    rows[rows.length - 1] += shown;
    column += width;
    passed += char.length;
  }
  if (column >= columns) {
    rows.push('');
    column = 0;
  }
  if (passed <= cursor) at = { row: rows.length - 1, column };
  return { rows, ...at };
}
