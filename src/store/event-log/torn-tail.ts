import * as fs from 'node:fs';
import type { Event } from '../../protocol/session/event.ts';
import { syncFolder, writeAll } from '../fs/durable-write.ts';
import { listNames, statIfExists, withOpenFile } from '../fs/file-reads.ts';
import { type CorruptLogError, wrapDiskErrors } from '../fs/store-errors.ts';
import type { SessionPaths } from '../layout/layout.ts';
import { freeName } from '../layout/layout.ts';
import { type DecodedLine, decodeEventLine } from './event-codec.ts';

/** Checks the rest of a segment from its first bad line on. Throws if it may not be cut off. */
export type TornTail = { addLine(bytes: Buffer, line: DecodedLine): void };

/**
 * An incomplete end consists of unreadable lines and nothing else. Good lines may follow only if everything unreadable
 * contains zeros, their numbers match what was lost, and none of them says that it had been synced. A power cut leaves
 * such zeros if two appends were not synced and the file system kept only the later one. Every sync covers the whole
 * file, so these lines were not synced either, and since nothing is acted upon before it is synced, everything from the
 * zeros on may be cut: the result is what a power cut some moments earlier would have left.
 *
 * `last`: the last event before. `damaged` creates the error.
 */
export function inspectTornTail(last: number, damaged: (why?: string) => CorruptLogError): TornTail {
  let isHole = true;
  // The first bad line was at least one event.
  let next = last + 2;
  let gap = true;

  const behind = ({ seq, synced = 0 }: Event) => {
    if (!isHole) throw damaged();
    if (gap ? seq < next : seq !== next) throw damaged(`it holds zeros, and event ${seq} cannot follow`);
    if (synced > last)
      throw damaged(`it holds zeros where something had been synced: event ${seq} was written after that`);
    next = seq + 1;
    gap = false;
  };

  return {
    addLine(bytes, line) {
      const isZeros = !line.ok && hasZeroBytes(bytes);
      if (!line.ok) gap = true;
      if (!line.ok && !isZeros) isHole = false;
      // The line feed before it was lost with the zeros.
      const end = isZeros ? decodeEventLine(bytes.subarray(bytes.lastIndexOf(0) + 1)) : line;
      if (end.ok) behind(end.event);
      else if (!end.torn) throw damaged();
    },
  };
}

/** JSON escapes NUL, so we never write a zero byte. */
const hasZeroBytes = (bytes: Buffer): boolean => bytes.includes(0);

const CHUNK_BYTES = 256 * 1024;

/**
 * Copies everything after the first `good` bytes of the log to a file beside it, durably: cutting it off then destroys
 * nothing.
 */
export async function saveTornTail(paths: SessionPaths, good: number): Promise<void> {
  const path = freeName(paths.torn(good), (one) => statIfExists(one) !== undefined);
  withOpenFile(paths.events, (from) =>
    wrapDiskErrors('write', path, () => {
      const to = fs.openSync(path, 'wx', 0o600);
      try {
        const buffer = Buffer.alloc(CHUNK_BYTES);
        let at = good;
        for (let read = -1; read !== 0; at += read) {
          read = fs.readSync(from, buffer, 0, CHUNK_BYTES, at);
          writeAll(to, buffer.subarray(0, read));
        }
        fs.fdatasyncSync(to);
      } finally {
        fs.closeSync(to);
      }
    }),
  );
  await syncFolder(paths.folder);
}

/** Names beside the log that keep what was cut off its end: after a crash, or because a person accepted that. */
export const listCuts = (paths: SessionPaths): string[] =>
  listNames(paths.folder)
    .filter((name) => /^events\.(?:torn|accepted)-/.test(name))
    .sort();
