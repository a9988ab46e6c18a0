import * as fs from 'node:fs';
import { styleText } from 'node:util';
import { escapeControls } from '../../base/strings.ts';
import type { LogSubject, SessionPorts } from '../../engine/ports/session-ports.ts';

export const LOGGER_LEVELS = ['debug', 'info', 'warn', 'error'] as const;
export type LoggerLevel = (typeof LOGGER_LEVELS)[number];

/** A line of the log. */
type LogEntry = { at: string; level: LoggerLevel; text: string } & LogSubject;

/**
 * The log for operators, on stderr: one JSON object a line, with the session, run and step it is about; at a terminal,
 * text for people. What happens in a session is in its event log, not here. `file`: the log of the workspace; if that
 * is what stderr writes to, it is rotated here. `write` receives the lines instead.
 */
export function openDaemonLog(least: LoggerLevel, file: string, write?: (line: string) => void): SessionPorts['log'] {
  const isForPeople = write === undefined && process.stderr.isTTY === true;
  const format = isForPeople ? formatForPeople : (entry: LogEntry) => JSON.stringify(entry);
  const makeRoom = write ? () => {} : rotatesWhenFull(file, process.stderr.fd);
  const put = write ?? ((line: string) => process.stderr.write(line));
  return (level, text, about) => {
    if (LOGGER_LEVELS.indexOf(level) < LOGGER_LEVELS.indexOf(least)) return;
    const line = `${format({ at: new Date().toISOString(), level, ...about, text })}\n`;
    makeRoom(Buffer.byteLength(line));
    put(line);
  };
}

const COLOURS = { debug: 'dim', info: 'green', warn: 'yellow', error: 'red' } as const;

function formatForPeople({ at, level, text, session, run, step }: LogEntry): string {
  const isPlain = process.env['NO_COLOR'] || process.env['TERM'] === 'dumb';
  const colour = (format: 'dim' | 'green' | 'yellow' | 'red', word: string) =>
    isPlain ? word : styleText(format, word, { validateStream: false });
  const time = new Date(at).toTimeString().slice(0, 8);
  const about = [session, run, step].filter((one) => one !== undefined).join(' ');
  const place = about === '' ? '' : `${colour('dim', `[${escapeControls(about)}]`)} `;
  const words = escapeControls(text).replaceAll('\n', '\n  ');
  return `${colour('dim', time)} ${colour(COLOURS[level], level.padEnd(5))} ${place}${words}`;
}

const MAX_LOG_BYTES = 8 * 1024 * 1024;
/** `daemon.log.1` is the newest. */
const KEPT_LOGS = 3;
const RETRY_BYTES = 1024 * 1024;

/**
 * For a file that `fd` appends to: called before that many bytes are written, and copies a full file aside and empties
 * it. Node cannot put another file in place of its stderr, where traces of a crash go too. A file that is elsewhere is
 * left alone.
 */
export function rotatesWhenFull(file: string, fd: number, max = MAX_LOG_BYTES): (bytes: number) => void {
  /** Bytes until the size is looked at. */
  let left = 0;
  return (bytes) => {
    left -= bytes;
    if (left >= 0) return;
    const size = sizeIfSame(file, fd);
    if (size === undefined) left = Number.POSITIVE_INFINITY;
    else if (size + bytes <= max) left = max - size - bytes;
    else left = (putAside(file, fd) ? max : RETRY_BYTES) - bytes;
  };
}

function sizeIfSame(file: string, fd: number): number | undefined {
  try {
    const [ours, named] = [fs.fstatSync(fd), fs.statSync(file)];
    return ours.ino === named.ino && ours.dev === named.dev ? ours.size : undefined;
  } catch {
    return undefined;
  }
}

/** False where that failed, as on a full disk: the log goes on in the same file. */
function putAside(file: string, fd: number): boolean {
  const older = (number: number) => `${file}.${number}`;
  try {
    for (let number = KEPT_LOGS - 1; number >= 1; number--)
      if (fs.existsSync(older(number))) fs.renameSync(older(number), older(number + 1));
    fs.copyFileSync(file, older(1));
    fs.ftruncateSync(fd, 0);
    return true;
  } catch {
    return false;
  }
}
