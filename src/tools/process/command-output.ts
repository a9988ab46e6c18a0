import * as fs from 'node:fs';
import { callFiles } from './call-folder.ts';

/** How much of the beginning of an output is kept, in bytes. */
export const HEAD_BYTES = 4 * 1024 * 1024;
/** How much of the end of an output is kept, in bytes. */
export const TAIL_BYTES = 1024 * 1024;

/** Unbounded output in bounded memory: its beginning and its end, and how much was left out between them. */
export type BoundedOutput = { write(chunk: Buffer): void; text(): string };

/** Keeps the first `headBytes` and the last `tailBytes` of an output. */
export function boundedOutput(headBytes = HEAD_BYTES, tailBytes = TAIL_BYTES): BoundedOutput {
  const head: Buffer[] = [];
  const tail: Buffer[] = [];
  let headSize = 0;
  let tailSize = 0;
  let dropped = 0;
  return {
    write(chunk) {
      const first = chunk.subarray(0, headBytes - headSize);
      const rest = chunk.subarray(first.length);
      if (first.length > 0) head.push(first);
      if (rest.length > 0) tail.push(rest);
      headSize += first.length;
      tailSize += rest.length;
      while (tail[0] && tailSize - tail[0].length >= tailBytes) {
        tailSize -= tail[0].length;
        dropped += tail[0].length;
        tail.shift();
      }
    },
    text() {
      if (dropped === 0) return Buffer.concat([...head, ...tail]).toString('utf8');
      const start = Buffer.concat(head);
      const end = Buffer.concat(tail);
      const from = lastCharBoundary(start);
      const to = nextCharBoundary(end, end.length - tailBytes);
      const left = start.length - from + dropped + to;
      const note = `\n[${left} bytes were left out here]\n`;
      return start.toString('utf8', 0, from) + note + end.toString('utf8', to);
    },
  };
}

/** Joins pieces of one output with gaps of unknown size between them. */
function joinOutputPieces(pieces: Buffer[]): string {
  const last = pieces.length - 1;
  return pieces
    .map((bytes, n) =>
      bytes.toString('utf8', n > 0 ? nextCharBoundary(bytes, 0) : 0, n < last ? lastCharBoundary(bytes) : undefined),
    )
    .join('\n[a part of the output was left out here]\n');
}

/** The end of the last complete character. */
export function lastCharBoundary(bytes: Buffer): number {
  let lead = bytes.length - 1;
  while (lead >= bytes.length - 3 && isContinuationByte(bytes[lead])) lead--;
  const first = bytes[lead] ?? 0;
  const length = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : first >= 0xc0 ? 2 : 1;
  return lead + length > bytes.length ? lead : bytes.length;
}

/** The first position from `at` on where a character begins. */
export function nextCharBoundary(bytes: Buffer, at: number): number {
  let start = at;
  while (start < at + 3 && isContinuationByte(bytes[start])) start++;
  return start;
}

/** Whether a byte continues a UTF-8 character (at most four bytes) that began before it. */
function isContinuationByte(byte: number | undefined): boolean {
  return byte !== undefined && byte >> 6 === 0b10;
}

/** Stores output in the folder of the call as it arrives, for a later daemon, up to the size kept in memory. */
export type OutputRecorder = { write(chunk: Buffer): void; close(): void };

/** Records output in the folder of a call. A full disk stops the recording, not the command. */
export function recordOutput(folder: string): OutputRecorder {
  const files = callFiles(folder);
  let fd: number | undefined;
  let size = 0;
  let full = false;
  const cut = (): void => {
    full = true;
    try {
      fs.writeFileSync(files.cut, String(size), { mode: 0o600 });
    } catch {
      // The disk is full. The command continues, since the file is only read after a crash.
    }
  };
  const append = (bytes: Buffer): void => {
    try {
      fd ??= fs.openSync(files.out, 'ax', 0o600);
      for (let done = 0; done < bytes.length; ) done += fs.writeSync(fd, bytes, done);
      size += bytes.length;
    } catch {
      cut();
    }
  };
  return {
    write(chunk) {
      if (full) return;
      const room = HEAD_BYTES - size;
      append(chunk.subarray(0, room));
      if (chunk.length > room) cut();
    },
    close() {
      if (fd !== undefined) fs.closeSync(fd);
    },
  };
}

/**
 * The output of a command from the folder of its call: what a daemon received, then what the supervisor stored after
 * it.
 */
export function readRecordedOutput(folder: string): string {
  const files = callFiles(folder);
  const [out, tail] = [readBytesOrNone(files.out), readBytesOrNone(files.tail)];
  const cut = fs.existsSync(files.cut) ? Number(fs.readFileSync(files.cut, 'utf8')) : out.length;
  const [emitted, after] = [out.subarray(0, cut), out.subarray(cut)];
  const isWhole = tail.length < TAIL_BYTES;
  const rest = isWhole ? [Buffer.concat([after, tail])] : [after, tail];
  if (cut < out.length || fs.existsSync(files.cut)) return joinOutputPieces([emitted, ...rest]);
  return joinOutputPieces(isWhole ? [Buffer.concat([emitted, ...rest])] : [emitted, tail]);
}

function readBytesOrNone(path: string): Buffer {
  return fs.existsSync(path) ? fs.readFileSync(path) : Buffer.alloc(0);
}
