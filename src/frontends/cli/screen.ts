import { readable } from '../../protocol/visible.ts';

/** Back to the beginning of the line, and the line emptied. */
const CLEAR = '\r\x1b[2K';

/** A terminal with lines that stay and one status line below them that changes. Off a terminal there is no status line. */
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
    if (isDrawn) out.write(CLEAR);
    isDrawn = false;
  };
  const draw = () => {
    clear();
    if (!out.isTTY || isMidLine || status === '') return;
    out.write(fitting(readable(status), (out.columns || 80) - 1));
    isDrawn = true;
  };
  const text = (piece: string) => {
    if (piece === '') return;
    clear();
    out.write(readable(piece));
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

/** As much of a text as fits into so many cells; letters of East Asia take two. */
function fitting(text: string, cells: number): string {
  let used = 0;
  let kept = '';
  for (const char of text) {
    used += /[\u1100-\u115f\u2e80-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60\u{1f300}-\u{1faff}]/u.test(
      char,
    )
      ? 2
      : 1;
    if (used > cells) break;
    kept += char;
  }
  return kept;
}
