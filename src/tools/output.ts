export const HEAD_BYTES = 4 * 1024 * 1024;
export const TAIL_BYTES = 1024 * 1024;

/** Output that may be endless, in bounded memory: its beginning and its end, and between them how much was left out. */
export type Output = { write(chunk: Buffer): void; text(): string };

export function boundedOutput(headBytes = HEAD_BYTES, tailBytes = TAIL_BYTES): Output {
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
      const from = wholeEnd(start);
      const to = wholeStart(end, end.length - tailBytes);
      const left = start.length - from + dropped + to;
      const note = `\n[${left} bytes were left out here]\n`;
      return start.toString('utf8', 0, from) + note + end.toString('utf8', to);
    },
  };
}

/** Pieces of one output, with something missing between any two of them; nobody counted how much. */
export function piecesInWords(pieces: Buffer[]): string {
  const last = pieces.length - 1;
  return pieces
    .map((bytes, n) => bytes.toString('utf8', n > 0 ? wholeStart(bytes, 0) : 0, n < last ? wholeEnd(bytes) : undefined))
    .join('\n[a part of the output was left out here]\n');
}

/** Where the last whole character ends. */
export function wholeEnd(bytes: Buffer): number {
  let lead = bytes.length - 1;
  while (lead >= bytes.length - 3 && isContinuation(bytes[lead])) lead--;
  const first = bytes[lead] ?? 0;
  const length = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : first >= 0xc0 ? 2 : 1;
  return lead + length > bytes.length ? lead : bytes.length;
}

/** The first place from `at` on where a character begins. */
export function wholeStart(bytes: Buffer, at: number): number {
  let start = at;
  while (start < at + 3 && isContinuation(bytes[start])) start++;
  return start;
}

/** Whether a byte goes on a UTF-8 character that began before it; one has at most four bytes. */
function isContinuation(byte: number | undefined): boolean {
  return byte !== undefined && byte >> 6 === 0b10;
}
