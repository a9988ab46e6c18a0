const NEWLINE = 0x0a;

/** Bytes as they come, given back line by line. A long line is not looked at again with each piece of it. */
export function lineBuffer(largest: number): { take(chunk: Buffer): string[] } {
  let parts: Buffer[] = [];
  let size = 0;
  return {
    /** The lines that are whole now. Throws where one is larger than allowed. */
    take(chunk) {
      const lines: string[] = [];
      let from = 0;
      for (let end = chunk.indexOf(NEWLINE); end >= 0; end = chunk.indexOf(NEWLINE, from)) {
        lines.push(Buffer.concat([...parts, chunk.subarray(from, end)]).toString('utf8'));
        parts = [];
        size = 0;
        from = end + 1;
      }
      if (from < chunk.length) parts.push(chunk.subarray(from));
      size += chunk.length - from;
      if (size > largest) throw new Error(`a line of more than ${largest} bytes`);
      return lines;
    },
  };
}
