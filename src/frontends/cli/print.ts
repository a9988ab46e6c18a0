import { styleText } from 'node:util';
import { readable, visible } from '../../protocol/visible.ts';

/** C0 and C1 controls but tab and line feed: what a model or a file says must not steer the terminal. */
const CONTROLS = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f]/g;

/** What was asked for. Nothing in it that nobody would see, or that turns the order of what they see. */
export function say(text: string): void {
  process.stdout.write(`${readable(text)}\n`);
}

/** A line for programs, to the byte, where no terminal shows it. */
export function sayLine(line: string): void {
  if (process.stdout.isTTY) say(line);
  else process.stdout.write(`${line}\n`);
}

/** As JSON, in which characters that nobody sees are escapes. */
export function sayJson(value: unknown): void {
  say(visible(JSON.stringify(value, null, 2)));
}

/** What a person should know besides; never part of the output. */
export function note(text: string): void {
  process.stderr.write(`${readable(text)}\n`);
}

/** Foreign text, fit for a terminal. */
export function plain(text: string): string {
  return text.replace(CONTROLS, '�');
}

/** Foreign text in one line. */
export function oneLine(text: string, max: number): string {
  const line = plain(text.replace(/\s+/g, ' ').trim());
  const points = [...line];
  return points.length <= max ? line : `${points.slice(0, max - 1).join('')}…`;
}

/** Colours only on a terminal that wants them: not in a pipe, not with NO_COLOR, not with TERM=dumb. */
export function paint(format: Parameters<typeof styleText>[0], text: string): string {
  const wanted = process.stdout.isTTY && !process.env['NO_COLOR'] && process.env['TERM'] !== 'dumb';
  return wanted ? styleText(format, text, { validateStream: false }) : text;
}

/** A time as people in this place read it. */
export function localTime(at: string): string {
  const date = new Date(at);
  const two = (n: number) => String(n).padStart(2, '0');
  const day = `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())}`;
  return `${day} ${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`;
}

/** A length of time, roughly. */
export function duration(ms: number): string {
  const seconds = Math.max(0, Math.round(ms / 1000));
  if (seconds < 60) return `${seconds} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min`;
  if (seconds < 86_400) return `${Math.floor(seconds / 3600)} h ${Math.floor((seconds % 3600) / 60)} min`;
  return `${Math.floor(seconds / 86_400)} d ${Math.floor((seconds % 86_400) / 3600)} h`;
}

/** Rows under each other, columns as wide as their widest cell, the last one open. */
export function table(rows: string[][]): string {
  const widths = (rows[0] ?? []).map((_, column) => Math.max(...rows.map((row) => [...(row[column] ?? '')].length)));
  return rows
    .map((row) =>
      row
        .map((cell, column) =>
          column === row.length - 1 ? cell : cell + ' '.repeat((widths[column] ?? 0) - [...cell].length),
        )
        .join('  '),
    )
    .join('\n');
}
