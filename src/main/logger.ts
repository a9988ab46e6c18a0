import type { SessionPorts } from '../engine/ports/session-ports.ts';

export const LOGGER_LEVELS = ['debug', 'info', 'warn', 'error'] as const;
export type LoggerLevel = (typeof LOGGER_LEVELS)[number];

/** Lines for operators on stderr, one JSON object each. The story of a session is its record, not this. */
export function createLogger(
  least: LoggerLevel,
  write: (line: string) => void = (line) => process.stderr.write(line),
): SessionPorts['log'] {
  return (level, text) => {
    if (LOGGER_LEVELS.indexOf(level) < LOGGER_LEVELS.indexOf(least)) return;
    write(`${JSON.stringify({ at: new Date().toISOString(), level, text })}\n`);
  };
}
