import { type IBufferCell, type IBufferLine, Terminal } from '@xterm/headless';

/** Lines that have scrolled out and can be looked at. */
const SCROLLBACK = 2000;
/** Between two times that a screen reader hears of new lines, in ms, and how many it hears. */
const SAY_MS = 500;
const MOST_SAID = 8;
const PROBE_LETTERS = 10;
/** The levels of a colour in the cube of 216 (6 x 6 x 6), and where that begins and the greys do. */
const LEVELS = [0, 95, 135, 175, 215, 255];
const [CUBE, GREYS] = [16, 232];

/** The state of a terminal, drawn into elements: a row is a `div`, and a stretch of one look in it a `span`. */
export type TerminalScreen = {
  readonly terminal: Terminal;
  /** `shown` is called once the bytes are part of it. */
  write(bytes: Uint8Array, shown: () => void): void;
  close(): void;
};

/**
 * Draws into `rows` as much as fits, and tells `said` the latest lines; `resized` is called when it has another size,
 * also because of larger letters. Colours are classes of the style sheet or set by script, since
 * the page's policy forbids styles in markup, which the renderer of xterm.js writes.
 */
export function openTerminalScreen(rows: HTMLElement, said: HTMLElement, resized: () => void): TerminalScreen {
  const terminal = new Terminal({ rows: 24, cols: 80, scrollback: SCROLLBACK, allowProposedApi: true });
  // Of the same letters as the rows.
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

/** How many rows and columns fit, by the size of a letter. */
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

/** Letters that look the same. `fg` and `bg` are colours that no class has. */
type Stretch = { text: string; look: string; fg?: string | undefined; bg?: string | undefined };

function stretchesOf(line: IBufferLine | undefined, cols: number, cursor: number | undefined): Stretch[] {
  const stretches: Stretch[] = [];
  for (let col = 0; col < cols; col++) {
    const cell = line?.getCell(col);
    // The second half of a wide letter.
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
    fg.index !== undefined && `fg-${fg.index}`,
    bg.index !== undefined && `bg-${bg.index}`,
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
  return { text: cell.getChars() || ' ', look: look.filter(Boolean).join(' '), fg: fg.css, bg: bg.css };
}

/** One of the sixteen that the style sheet has, any other as CSS, or neither: the default. */
function colorOf(cell: IBufferCell, ground: 'Fg' | 'Bg'): { index?: number; css?: string } {
  const value = cell[`get${ground}Color`]();
  if (cell[`is${ground}RGB`]()) return { css: `rgb(${value >> 16}, ${(value >> 8) & 255}, ${value & 255})` };
  if (!cell[`is${ground}Palette`]()) return {};
  if (value < CUBE) return { index: value };
  if (value >= GREYS) {
    const grey = 8 + 10 * (value - GREYS);
    return { css: `rgb(${grey}, ${grey}, ${grey})` };
  }
  const place = value - CUBE;
  const levels = [Math.floor(place / 36), Math.floor(place / 6) % 6, place % 6].map((level) => LEVELS[level] ?? 0);
  return { css: `rgb(${levels.join(', ')})` };
}

function elementOf({ text, look, fg, bg }: Stretch): HTMLSpanElement {
  const span = document.createElement('span');
  span.textContent = text;
  if (look !== '') span.className = look;
  if (fg !== undefined) span.style.color = fg;
  if (bg !== undefined) span.style.backgroundColor = bg;
  return span;
}
