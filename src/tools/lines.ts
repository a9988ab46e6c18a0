/** Lines `first` to `last` (from 1) of `total`, with their line ends. */
export type Page = { text: string; first: number; last: number; total: number; cut: boolean };

const NEWLINE = 10;

/**
 * A page of a text that comes in pieces, in memory bounded by the page: from line `first` on, at most `lines` of them and
 * `characters` code points. Only whole lines, except that a first line longer than the page is `cut`.
 */
export async function pageOf(
  pieces: AsyncIterable<Buffer> | Iterable<Buffer>,
  { first, lines, characters }: { first: number; lines: number; characters: number },
): Promise<Page> {
  // One character more than a page, at four bytes each: enough to know that the page is full.
  const most = 4 * (characters + 1);
  const taken: Buffer[] = [];
  let size = 0;
  let line = 1;
  let atLineStart = true;
  for await (const piece of pieces) {
    for (let from = 0; from < piece.length; ) {
      const newline = piece.indexOf(NEWLINE, from);
      const end = newline < 0 ? piece.length : newline + 1;
      if (line >= first && line < first + lines && size < most) {
        taken.push(piece.subarray(from, Math.min(end, from + most - size)));
        size += end - from;
      }
      atLineStart = newline >= 0;
      if (atLineStart) line++;
      from = end;
    }
  }
  const total = atLineStart ? line - 1 : line;
  return {
    ...wholeLines(Buffer.concat(taken).toString('utf8'), first, Math.min(total, first + lines - 1), characters),
    total,
  };
}

/** As many of the lines as the page holds. */
function wholeLines(text: string, first: number, last: number, characters: number): Omit<Page, 'total'> {
  const points = [...text];
  if (points.length <= characters) return { text, first, last, cut: false };
  const page = points.slice(0, characters).join('');
  const whole = page.slice(0, page.lastIndexOf('\n') + 1);
  if (whole === '') return { text: page, first, last: first, cut: true };
  return { text: whole, first, last: first + whole.split('\n').length - 2, cut: false };
}
