import { styleText } from 'node:util';
import { escapeInvisible, escapeMisleading } from '../../../base/strings.ts';

/** C0 and C1 controls but tab and line feed: what a model or a file says must not steer the terminal. */
const CONTROL_CHARS = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f]/g;

/** Prints output. Invisible characters and those that reorder text are escaped. */
export function print(text: string): void {
  process.stdout.write(`${escapeMisleading(text)}\n`);
}

/** What the flags of a command line say about output: set once, before anything is printed. */
const output = { quiet: false, color: true };

export function configureOutput(wanted: Partial<typeof output>): void {
  Object.assign(output, wanted);
}

/** Prints that something was done. It is no result: with `--quiet` the exit code alone says so. */
export function printDone(text: string): void {
  if (!output.quiet) print(text);
}

/** Prints a line unchanged, byte for byte, unless the output is a terminal. */
export function printRawLine(line: string): void {
  if (process.stdout.isTTY) print(line);
  else process.stdout.write(`${line}\n`);
}

/** Prints JSON with invisible characters escaped. */
export function printJson(value: unknown): void {
  print(escapeInvisible(JSON.stringify(value, null, 2)));
}

/** Prints a note for a person to standard error, unless `--quiet` is given; never part of the output. */
export function printNote(text: string): void {
  if (!output.quiet) printError(text);
}

/** Prints what went wrong, to standard error. */
export function printError(text: string): void {
  process.stderr.write(`${escapeMisleading(text)}\n`);
}

type Talk = { input: NodeJS.ReadableStream; output: NodeJS.WritableStream };

/** Asks a person something; `leaving` is the answer of one who leaves with Ctrl-C or Ctrl-D. */
export async function askPerson(question: string, leaving: string, talk?: Talk): Promise<string> {
  const { createInterface } = await import('node:readline/promises');
  const { input, output: screen } = talk ?? { input: process.stdin, output: process.stderr };
  const prompt = createInterface({ input, output: screen });
  const left = new Promise<string>((resolve) =>
    prompt.once('close', () => {
      screen.write('\n');
      resolve(leaving);
    }),
  );
  // Closing rejects the question as well.
  const answer = await Promise.race([prompt.question(question).catch(() => left), left]);
  prompt.removeAllListeners('close');
  prompt.close();
  return answer.trim();
}

/** Untrusted text, safe for a terminal. */
export function stripControls(text: string): string {
  return text.replace(CONTROL_CHARS, '�');
}

/** Untrusted text in one line. */
export function toSingleLine(text: string, max: number): string {
  const line = stripControls(text.replace(/\s+/g, ' ').trim());
  const points = [...line];
  return points.length <= max ? line : `${points.slice(0, max - 1).join('')}…`;
}

/** Colours only on a terminal that supports them: not in a pipe, not with `--no-color`, NO_COLOR or TERM=dumb. */
export function colorize(format: Parameters<typeof styleText>[0], text: string): string {
  const wanted = output.color && process.stdout.isTTY && !process.env['NO_COLOR'] && process.env['TERM'] !== 'dumb';
  return wanted ? styleText(format, text, { validateStream: false }) : text;
}

/** A length of time, roughly. */
export function formatDuration(ms: number): string {
  const seconds = Math.max(0, Math.round(ms / 1000));
  if (seconds < 60) return `${seconds} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min`;
  if (seconds < 86_400) return `${Math.floor(seconds / 3600)} h ${Math.floor((seconds % 3600) / 60)} min`;
  return `${Math.floor(seconds / 86_400)} d ${Math.floor((seconds % 86_400) / 3600)} h`;
}

/** Rows under each other, columns as wide as their widest cell, the last one open. */
export function formatTable(rows: string[][]): string {
  const widths = (rows[0] ?? []).map((_, column) => Math.max(...rows.map((row) => cellWidth(row[column] ?? ''))));
  return rows
    .map((row) =>
      row
        .map((cell, column) =>
          column === row.length - 1 ? cell : cell + ' '.repeat((widths[column] ?? 0) - cellWidth(cell)),
        )
        .join('  '),
    )
    .join('\n');
}

/** Back to the beginning of the line, and the line emptied. */
const CLEAR_LINE = '\r\x1b[2K';

/**
 * A terminal with lines that stay and one status line below them that changes. Off a terminal there is no status line.
 */
export type Screen = {
  /** A line that stays. */
  line(text: string): void;
  /** A piece of text as it comes; it may end anywhere. */
  text(piece: string): void;
  /** What the status line says from now on; drawn whenever no text is half-way through a line. */
  status(text: string): void;
  end(): void;
};

export function openScreen(out: Pick<NodeJS.WriteStream, 'write' | 'isTTY' | 'columns'>): Screen {
  let status = '';
  let isMidLine = false;
  let isDrawn = false;
  const clear = () => {
    if (isDrawn) out.write(CLEAR_LINE);
    isDrawn = false;
  };
  const draw = () => {
    clear();
    if (!out.isTTY || isMidLine || status === '') return;
    out.write(fitToWidth(escapeMisleading(status), (out.columns || 80) - 1));
    isDrawn = true;
  };
  const text = (piece: string) => {
    if (piece === '') return;
    clear();
    out.write(escapeMisleading(piece));
    isMidLine = !piece.endsWith('\n');
    draw();
  };
  return {
    text,
    line: (whole) => text(`${isMidLine ? '\n' : ''}${whole}\n`),
    status(next) {
      status = next;
      draw();
    },
    end() {
      clear();
      if (isMidLine) out.write('\n');
    },
  };
}

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

/** A colour, which takes no cell, or a character. */
const COLOUR_OR_CHAR = /(?:\u001b\[[\d;]*m)|[\s\S]/gu;

/**
 * A line in rows of at most so many cells, broken at spaces and between wide characters where possible. More text at
 * the end of the line changes no row but the last. A colour that goes on ends with its row and begins with the next.
 */
export function wrapLine(line: string, cells: number): string[] {
  const rows: string[] = [];
  let row = '';
  let used = 0;
  /** Where the row may be broken; 0: nowhere. */
  let gap = 0;
  for (const [char] of line.matchAll(COLOUR_OR_CHAR)) {
    if (char.length > 2) {
      row += char;
      continue;
    }
    const width = charWidth(char);
    if (used + width > cells && row !== '') {
      const isSpace = char === ' ';
      const end = isSpace || width === 2 || gap === 0 ? row.length : gap;
      const open = openColours(row.slice(0, end));
      rows.push(row.slice(0, end).trimEnd() + (open === '' ? '' : '\u001b[0m'));
      row = open + row.slice(end);
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

/** The colours that are on at the end of a text. */
function openColours(text: string): string {
  const open = new Map<string, string>();
  for (const [colour] of text.matchAll(COLOUR)) {
    const code = Number(colour.slice(2, -1));
    const kind = code === 22 || code < 3 ? 'weight' : 'colour';
    if (code === 0) open.clear();
    else if (code === 22 || code === 39 || code === 27) open.delete(kind);
    else open.set(kind, colour);
  }
  return [...open.values()].join('');
}
