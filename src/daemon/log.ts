import type { World } from '../engine/ports.ts';

export const LEVELS = ['debug', 'info', 'warn', 'error'] as const;
export type Level = (typeof LEVELS)[number];

/** Lines for operators on stderr, one JSON object each. The story of a session is its record, not this. */
export function logger(
  least: Level,
  write: (line: string) => void = (line) => process.stderr.write(line),
): World['log'] {
  return (level, text) => {
    if (LEVELS.indexOf(level) < LEVELS.indexOf(least)) return;
    write(`${JSON.stringify({ at: new Date().toISOString(), level, text })}\n`);
  };
}
