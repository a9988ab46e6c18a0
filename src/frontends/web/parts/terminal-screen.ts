import { type IBufferCell, type IBufferLine, Terminal } from '@xterm/headless';

/** Lines of scrollback. */
const SCROLLBACK = 2000;
/** How often new lines are announced to screen readers, and how many at a time. */
const SAY_MS = 500;
const MOST_SAID = 8;
const PROBE_LETTERS = 10;
/** The levels of the 6 x 6 x 6 colour cube, and the first index of the cube and of the greys. */
const LEVELS = [0, 95, 135, 175, 215, 255];
const [CUBE, GREYS] = [16, 232];
/** The colours before the cube. */
const NAMED = [
  ...['#3b4252', '#ff7b72', '#6fd08c', '#f3bd64', '#8ab4ff', '#e0a0f0', '#6fd3d8', '#d5dae2'],
  ...['#98a2b3', '#ff9d96', '#8fe0a6', '#ffd58a', '#adcaff', '#efbdf8', '#98e6ea', '#ffffff'],
];

/** A terminal, drawn into elements: a row is a `div`, and a run of cells with the same style in it a `span`. */
export type TerminalScreen = {
  readonly terminal: Terminal;
  /** Calls `shown` once the bytes were processed. */
  write(bytes: Uint8Array, shown: () => void): void;
  close(): void;
};

/**
 * Draws into `rows` as much as fits, and writes the latest lines to `said` for screen readers. Calls `resized` when the
 * size changes, which a larger font does too. Colours are set by script, because the page's policy forbids
 * the inline styles that the renderer of xterm.js writes.
 */
export function openTerminalScreen(rows: HTMLElement, said: HTMLElement, resized: () => void): TerminalScreen {
  const terminal = new Terminal({ rows: 24, cols: 80, scrollback: SCROLLBACK, allowProposedApi: true });
  // Measures a letter in the font of the rows.
  const probe = document.createElement('code');
  probe.className = 'probe';
  probe.textContent = 'W'.repeat(PROBE_LETTERS);
  rows.after(probe);
  const drawn: string[] = [];
  let frame = 0;
  let saying: ReturnType<typeof setTimeout> | undefined;

  function draw(): void {
    frame = 0;
    const { active } = terminal.buffer;
    const cursorRow = active.baseY + active.cursorY - active.viewportY;
    while (rows.children.length > terminal.rows) rows.lastChild?.remove();
    while (rows.children.length < terminal.rows) rows.append(document.createElement('div'));
    drawn.length = Math.min(drawn.length, terminal.rows);
    for (let row = 0; row < terminal.rows; row++) {
      const cursor = row === cursorRow ? active.cursorX : undefined;
      const stretches = stretchesOf(active.getLine(active.viewportY + row), terminal.cols, cursor);
      const key = JSON.stringify(stretches);
      if (drawn[row] === key) continue;
      drawn[row] = key;
      rows.children.item(row)?.replaceChildren(...stretches.map(elementOf));
    }
  }
  function drawSoon(): void {
    frame ||= requestAnimationFrame(draw);
    saying ??= setTimeout(say, SAY_MS);
  }
  function say(): void {
    saying = undefined;
    const { active } = terminal.buffer;
    const last = active.baseY + active.cursorY;
    const lines = Array.from({ length: MOST_SAID }, (_, place) => active.getLine(last - MOST_SAID + 1 + place));
    const texts = lines.map((line) => line?.translateToString(true) ?? '').filter((text) => text.trim() !== '');
    const text = texts.join('\n');
    if (said.textContent !== text) said.textContent = text;
  }

  function fit(): void {
    const size = sizeOf(rows, probe);
    if (size === undefined || (size.rows === terminal.rows && size.cols === terminal.cols)) return;
    terminal.resize(size.cols, size.rows);
    draw();
    resized();
  }

  const fitting = new ResizeObserver(fit);
  fitting.observe(rows);
  fitting.observe(probe);
  terminal.onScroll(drawSoon);
  drawSoon();
  return {
    terminal,
    write(bytes, shown) {
      terminal.write(bytes, () => {
        drawSoon();
        shown();
      });
    },
    close() {
      fitting.disconnect();
      probe.remove();
      cancelAnimationFrame(frame);
      clearTimeout(saying);
      terminal.dispose();
    },
  };
}

/** How many rows and columns fit, given the size of a letter. */
function sizeOf(rows: HTMLElement, probe: HTMLElement): { rows: number; cols: number } | undefined {
  const letters = probe.getBoundingClientRect();
  const { paddingLeft, paddingTop } = getComputedStyle(rows);
  const width = rows.clientWidth - 2 * Number.parseFloat(paddingLeft);
  const height = rows.clientHeight - 2 * Number.parseFloat(paddingTop);
  const lineHeight = Number.parseFloat(getComputedStyle(rows).lineHeight);
  if (letters.width === 0 || width <= 0 || height <= 0) return undefined;
  const within = (value: number, least: number, most: number) => Math.min(Math.max(Math.floor(value), least), most);
  return { rows: within(height / lineHeight, 4, 200), cols: within((PROBE_LETTERS * width) / letters.width, 20, 400) };
}

/** Cells with the same style. */
type Stretch = { text: string; look: string; fg?: string | undefined; bg?: string | undefined };

function stretchesOf(line: IBufferLine | undefined, cols: number, cursor: number | undefined): Stretch[] {
  const stretches: Stretch[] = [];
  for (let col = 0; col < cols; col++) {
    const cell = line?.getCell(col);
    // The second half of a wide character.
    if (cell?.getWidth() === 0) continue;
    const next = stretchOf(cell, col === cursor);
    const last = stretches.at(-1);
    const isWide = next.look.includes('wide');
    if (last && !isWide && last.look === next.look && last.fg === next.fg && last.bg === next.bg)
      last.text += next.text;
    else stretches.push(next);
  }
  return stretches;
}

function stretchOf(cell: IBufferCell | undefined, isCursor: boolean): Stretch {
  if (!cell) return { text: ' ', look: isCursor ? 'cursor' : '' };
  const isInverse = cell.isInverse() !== 0;
  const own = { fg: colorOf(cell, 'Fg'), bg: colorOf(cell, 'Bg') };
  const [fg, bg] = isInverse ? [own.bg, own.fg] : [own.fg, own.bg];
  const look = [
    isInverse && 'inverse',
    cell.isBold() && 'bold',
    cell.isDim() && 'dim',
    cell.isItalic() && 'italic',
    cell.isUnderline() && 'underline',
    cell.isStrikethrough() && 'strike',
    cell.isInvisible() && 'invisible',
    cell.getWidth() === 2 && 'wide',
    isCursor && 'cursor',
  ];
  return { text: cell.getChars() || ' ', look: look.filter(Boolean).join(' '), fg, bg };
}

/** A colour as CSS; undefined for the default. */
function colorOf(cell: IBufferCell, ground: 'Fg' | 'Bg'): string | undefined {
  const value = cell[`get${ground}Color`]();
  if (cell[`is${ground}RGB`]()) return `rgb(${value >> 16}, ${(value >> 8) & 255}, ${value & 255})`;
  if (!cell[`is${ground}Palette`]()) return undefined;
  if (value < CUBE) return NAMED[value];
  if (value >= GREYS) {
    const grey = 8 + 10 * (value - GREYS);
    return `rgb(${grey}, ${grey}, ${grey})`;
  }
  const place = value - CUBE;
  const levels = [Math.floor(place / 36), Math.floor(place / 6) % 6, place % 6].map((level) => LEVELS[level] ?? 0);
  return `rgb(${levels.join(', ')})`;
}

function elementOf({ text, look, fg, bg }: Stretch): HTMLSpanElement {
  const span = document.createElement('span');
  span.textContent = text;
  if (look !== '') span.className = look;
  if (fg !== undefined) span.style.setProperty('--fg', fg);
  if (bg !== undefined) span.style.setProperty('--bg', bg);
  return span;
}
