import type { Line } from './record.ts';
import { COLUMNS, ROWS } from './terminal.ts';

/**
 * The recording at real speed, as an asciicast of version 2: a header, then `[seconds, "o", text]`, one JSON per line.
 */
export function asciicast(title: string, lines: Line[]): string {
  const header = { version: 2, width: COLUMNS, height: ROWS, title };
  const output = lines.map(({ at, text }) => [Number(at.toFixed(3)), 'o', `${text}\r\n`]);
  return [header, ...output].map((row) => `${JSON.stringify(row)}\n`).join('');
}
