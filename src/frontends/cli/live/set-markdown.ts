import { cellWidth, colorize } from '../common/terminal.ts';

/**
 * Sets the Markdown of a text that arrives in pieces for a terminal: bold, code, headings, lists and tables, without
 * their marks. What has been returned does not change any more, whatever follows.
 */
export type MarkdownSetter = {
  /** What is settled by another piece, and `open`: the rest of the last line, as it is. The piece has no controls. */
  write(piece: string): { set: string; open: string };
  /** The rest, as the text ends here. */
  end(): string;
};

/** `columns`: how wide a table may be. */
export function openMarkdown(columns: () => number): MarkdownSetter {
  const lines = openLines(columns);
  let line = '';
  /** How much of the set line was returned. */
  let sent = 0;
  const finish = (): string => {
    const set = lines.whole(line);
    const rest = set === undefined ? '' : `${set.slice(sent)}\n`;
    [line, sent] = ['', 0];
    return rest;
  };
  return {
    write(piece) {
      const parts = piece.split('\n');
      let set = '';
      for (const part of parts.slice(0, -1)) {
        line += part;
        set += lines.before(line) + finish();
      }
      line += parts.at(-1) ?? '';
      if (lines.isOpen(line)) return { set, open: line };
      set += lines.before(line);
      const { set: begun, open } = lines.begun(line);
      const fresh = begun.slice(sent);
      sent = Math.max(sent, begun.length);
      return { set: set + fresh, open };
    },
    end() {
      const rest = line === '' ? '' : lines.before(line) + finish();
      return rest + lines.end();
    },
  };
}

const FENCE = /^\s*(?:```|~~~)/;
const TABLE = /^\s*\|/;
/** It is not known yet what such a line is. */
const UNDECIDED = /^\s*(?:`{0,2}|~{1,2}|#{1,6}\s*|[-*+] ?|(?:```|~~~).*|\|.*)$/;
const HEADING = /^#{1,6}\s+/;
const BULLET = /^(\s*)[-*+] (?=.)/;
const INDENT = '  ';

/** Lines of Markdown, one after the other. */
function openLines(columns: () => number) {
  let isCode = false;
  let table: string[] = [];
  const endTable = (): string => {
    const rows = table;
    table = [];
    return rows.length === 0 ? '' : `${setTable(rows, columns()).join('\n')}\n`;
  };
  return {
    isOpen: (line: string) =>
      isCode ? /^\s*(?:`{1,3}|~{1,3})?$/.test(line) || FENCE.test(line) : UNDECIDED.test(line),
    /** A table that this line ends. */
    before: (line: string) => (TABLE.test(line) && !isCode ? '' : endTable()),
    /** The beginning of a line, which may go on. */
    begun(line: string): SetLine {
      if (isCode) return { set: INDENT + openOf('cyan') + line, open: '' };
      const { set, open } = inline(withoutMark(line), false);
      return { set: (HEADING.test(line) ? openOf('bold') : '') + set, open };
    },
    /** A whole line; undefined if nothing is shown of it, or not yet. */
    whole(line: string): string | undefined {
      if (FENCE.test(line)) {
        isCode = !isCode;
        return undefined;
      }
      if (!isCode && TABLE.test(line)) {
        table.push(line);
        return undefined;
      }
      if (isCode) return INDENT + openOf('cyan') + line + closeOf('cyan');
      const { set } = inline(withoutMark(line), true);
      return HEADING.test(line) ? openOf('bold') + set + closeOf('bold') : set;
    },
    end: endTable,
  };
}

const withoutMark = (line: string): string => line.replace(HEADING, '').replace(BULLET, '$1• ');

/** `open`: what is not settled yet, as it is. */
type SetLine = { set: string; open: string };

const sides = (format: Parameters<typeof colorize>[0]) => colorize(format, '\0').split('\0');
const openOf = (format: Parameters<typeof colorize>[0]): string => sides(format)[0] ?? '';
const closeOf = (format: Parameters<typeof colorize>[0]): string => sides(format)[1] ?? '';

/**
 * Bold and code within a line. Each mark is judged by what is before it and the character behind it, so that the set
 * beginning of a line is the beginning of the set line. Bold that has no end lasts until the end of the line.
 */
function inline(line: string, isWhole: boolean): SetLine {
  let [set, at, isBold] = ['', 0, false];
  while (at < line.length) {
    const here = line[at] ?? '';
    const end = here === '`' ? line.indexOf('`', at + 1) : -1;
    const behind = line[at + 2];
    const isMark = here === '*' && line[at + 1] === '*';
    const isUnsettled = here === '`' ? end < 0 : here === '*' && (line.length === at + 1 || (isMark && !behind));
    if (isUnsettled && !isWhole) break;
    if (end > at + 1) {
      set += colorize('cyan', line.slice(at + 1, end)) + (isBold ? openOf('bold') : '');
      at = end + 1;
    } else if (isMark) {
      const before = line[at - 1] ?? ' ';
      const isTurned = isBold ? /\S/.test(before) : !/[\p{L}\p{N}*]/u.test(before) && /[^\s*]/.test(behind ?? ' ');
      if (isTurned) isBold = !isBold;
      set += isTurned ? (isBold ? openOf('bold') : closeOf('bold')) : '**';
      at += 2;
    } else {
      set += here;
      at += 1;
    }
  }
  return { set: isWhole && isBold ? set + closeOf('bold') : set, open: line.slice(at) };
}

/** Columns under each other, the head bold; if they do not fit, the lines as they are. */
function setTable(rows: readonly string[], columns: number): string[] {
  const cells = rows
    .filter((row) => !/^[\s|:-]+$/.test(row))
    .map((row) =>
      row
        .replace(/^\s*\||\|\s*$/g, '')
        .split(/(?<!\\)\|/)
        .map((cell) => inline(cell.trim(), true).set),
    );
  const widths = cells.reduce<number[]>(
    (most, row) => row.map((cell, place) => Math.max(most[place] ?? 0, cellWidth(cell))).concat(most.slice(row.length)),
    [],
  );
  if (widths.reduce((sum, width) => sum + width + 2, 0) > columns) return cells.map((row) => row.join(' | '));
  return cells.map((row, number) => {
    const line = row
      .map((cell, place) => cell + ' '.repeat(Math.max(0, (widths[place] ?? 0) - cellWidth(cell))))
      .join('  ')
      .trimEnd();
    return number === 0 ? colorize('bold', line) : line;
  });
}
