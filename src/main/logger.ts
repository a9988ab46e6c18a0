import type { SessionPorts } from '../engine/ports/session-ports.ts';

export const LOGGER_LEVELS = ['debug', 'info', 'warn', 'error'] as const;
export type LoggerLevel = (typeof LOGGER_LEVELS)[number];

/** Log lines for operators on stderr, one JSON object each. What happens in a session is in its event log, not here. */
export function createLogger(
  least: LoggerLevel,
  write: (line: string) => void = (line) => process.stderr.write(line),
): SessionPorts['log'] {
  return (level, text) => {
    if (LOGGER_LEVELS.indexOf(level) < LOGGER_LEVELS.indexOf(least)) return;
    write(`${JSON.stringify({ at: new Date().toISOString(), level, text })}\n`);
  };
}
