import { type Frame, paced } from './pace.ts';
import type { Line } from './record.ts';
import { COLUMNS, ROWS, type Span, spansOf, width } from './terminal.ts';

/** Sizes in px. A letter is 0.6 em wide in nearly every monospace font; `textLength` forces it for the others. */
const LETTER = 8.4;
const ROW = 19;
const MARGIN = 18;
const BAR = 40;
const WIDTH = COLUMNS * LETTER + 2 * MARGIN;

/** How long the last screen stays before the animation restarts, in seconds. */
const REST = 6;

const PAPER = '#0d1117';
const COLOURS = ['#6e7681', '#ff7b72', '#7ee787', '#e3b341', '#79c0ff', '#d2a8ff', '#76e3ea', '#f0f6fc'];
const STYLE = `text{font:14px ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace;white-space:pre;font-variant-emoji:text;fill:#c9d1d9}
.b{font-weight:700;fill:#f0f6fc}.d{opacity:.6}${COLOURS.map((colour, n) => `.c${n}{fill:${colour}}`).join('')}`;

const escaped = (text: string) => text.replace(/[&<>"]/g, (sign) => `&#${sign.codePointAt(0)};`);
const round = (number: number) => Number(number.toFixed(2));

/** A picture of a terminal with all these lines. */
export function still(title: string, lines: Line[]): string {
  return terminal(title, lines.length, '', text(lines));
}

/**
 * An animation of a terminal in which these lines appear and scroll, in a loop. It uses only CSS, so it works inside an
 * `<img>`. A cover hides the rows that have not appeared yet; cover and text move in steps. With reduced motion or
 * without CSS, the attributes show the last screen.
 */
export function film(title: string, lines: Line[]): string {
  const frames = paced(lines);
  const seconds = (frames.at(-1)?.at ?? 0) + REST;
  const style = `@media (prefers-reduced-motion:no-preference){
.text{animation:text ${round(seconds)}s step-end infinite}.cover{animation:cover ${round(seconds)}s step-end infinite}}
${keyframes('text', frames, seconds, (rows) => -scrolled(rows))}
${keyframes('cover', frames, seconds, (rows) => rows)}`;
  const cover = `<g class="cover" transform="translate(0 ${lines.length * ROW})"><rect width="${WIDTH}" height="${ROWS * ROW}" fill="${PAPER}"/><rect x="${MARGIN}" y="2" width="${LETTER}" height="${ROW - 3}" fill="#c9d1d9"/></g>`;
  const moved = `<g class="text" transform="translate(0 ${-scrolled(lines.length) * ROW})">\n${text(lines)}\n${cover}\n</g>`;
  return terminal(title, ROWS, style, moved);
}

/** How many rows have scrolled out when the cursor is below this many rows. */
const scrolled = (rows: number) => Math.max(0, rows + 1 - ROWS);

function keyframes(name: string, frames: Frame[], seconds: number, place: (rows: number) => number): string {
  const steps = frames.map(
    ({ at, rows }) => `${round((at / seconds) * 100)}%{transform:translateY(${place(rows) * ROW}px)}`,
  );
  return `@keyframes ${name}{${steps.join('')}}`;
}

function text(lines: Line[]): string {
  const rows = spansOf(lines.map((line) => line.text));
  return rows.flatMap((spans, n) => spans.map((span) => drawn(span, n))).join('\n');
}

function drawn({ column, text, look }: Span, row: number): string {
  const place = `x="${round(MARGIN + column * LETTER)}" y="${row * ROW + 14}" textLength="${round(width(text) * LETTER)}"`;
  return `<text ${place}${look ? ` class="${look}"` : ''}>${escaped(text)}</text>`;
}

function terminal(title: string, rows: number, style: string, content: string): string {
  const height = BAR + rows * ROW + MARGIN;
  const dots = ['#ff5f57', '#febc2e', '#28c840'].map(
    (fill, n) => `<circle cx="${22 + n * 20}" cy="20" r="6" fill="${fill}"/>`,
  );
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${height}" width="${WIDTH}" height="${height}" role="img">
<title>${escaped(title)}</title>
<style>${STYLE}${style}</style>
<rect x=".5" y=".5" width="${WIDTH - 1}" height="${height - 1}" rx="8" fill="${PAPER}" stroke="#30363d"/>
${dots.join('')}<text x="${WIDTH / 2}" y="25" text-anchor="middle" class="d">${escaped(title)}</text>
<svg y="${BAR}" width="${WIDTH}" height="${rows * ROW}">
${content}
</svg>
</svg>
`;
}
