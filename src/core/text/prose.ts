/**
 * Markdown reduced to what its author says in their own voice. Everything here works line by line, so one stray
 * backtick or quotation mark can hide the rest of its line and never more.
 */

const FENCE_OPENS = /^[\s>]*(?:[-*+]\s+|\d+[.)]\s+)?(`{3,}|~{3,})(.*)$/;
const FENCE_CLOSES = /^[\s>]*(`{3,}|~{3,})\s*$/;
const INLINE_CODE = /(?<!`)(`{1,3})(?!`).*?[^`]\1(?!`)/g;
const QUOTED = [
  /“[^“”]*”/g,
  /„[^„“”]*[“”]/g,
  /「[^「」]*」/g,
  /『[^『』]*』/g,
  /«[^«»]*»/g,
  /‘[^‘’]*’(?![\p{L}\p{N}])/gu,
  /(?<![A-Za-z0-9])"[^"]*"(?![A-Za-z0-9])/g,
  /(?<![\p{L}\p{N}])'[^']*'(?![\p{L}\p{N}])/gu,
];
/** Stands where code or a quotation stood: a letter-like nothing, so that the words around it keep their distance. */
const HOLE = '\uFFFC';

/** The lines outside fenced code. A fence that never closes runs to the end of the text. */
export function linesOutsideCode(text: string): string[] {
  const lines = text.split(/\r\n?|\n|\u2028|\u2029/);
  if (!text.includes('```') && !text.includes('~~~')) return lines;
  const kept: string[] = [];
  let fence = '';
  for (const line of lines) {
    if (fence === '') {
      fence = opens(line);
      if (fence === '') kept.push(line);
    } else if (FENCE_CLOSES.exec(line)?.[1]?.startsWith(fence)) fence = '';
  }
  return kept;
}

/** CommonMark: the words after a backtick fence hold no backtick; a line where they do is inline code. */
function opens(line: string): string {
  const [, mark = '', info = ''] = FENCE_OPENS.exec(line) ?? [];
  return mark.startsWith('`') && info.includes('`') ? '' : mark;
}

/** A line without its inline code; what code hides is replaced by one neutral character. */
export const withoutInlineCode = (line: string): string =>
  line.includes('`') ? line.replace(INLINE_CODE, HOLE) : line;

/** Lines in the author's own voice: no fenced or inline code, no block quotation, no quoted words. */
export function spokenLines(text: string): string[] {
  return linesOutsideCode(text)
    .filter((line) => !/^\s*>/.test(line))
    .map((line) => withoutQuotes(withoutInlineCode(line)));
}

function withoutQuotes(line: string): string {
  if (!/["'“„「『«‘]/.test(line)) return line;
  return QUOTED.reduce((rest, pattern) => rest.replace(pattern, HOLE), line);
}
