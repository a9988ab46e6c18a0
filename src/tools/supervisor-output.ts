import * as fs from 'node:fs';
import { HEAD_BYTES, piecesInWords, TAIL_BYTES } from './output.ts';
import { callFiles } from './supervisor.ts';

/** Puts what a daemon heard into the folder of the call as it comes, for a daemon after it; as much as would be shown first. */
export type Keeper = { write(chunk: Buffer): void; close(): void };

export function keeper(folder: string): Keeper {
  const files = callFiles(folder);
  let fd: number | undefined;
  let size = 0;
  let full = false;
  const cut = (): void => {
    full = true;
    try {
      fs.writeFileSync(files.cut, String(size), { mode: 0o600 });
    } catch {
      // A full disk. The command goes on all the same: this is only read after a crash.
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

/** What a command said, from the folder of its call: what a daemon heard, then what the supervisor kept after it. */
export function keptIn(folder: string): string {
  const files = callFiles(folder);
  const [out, tail] = [bytesOf(files.out), bytesOf(files.tail)];
  const cut = fs.existsSync(files.cut) ? Number(fs.readFileSync(files.cut, 'utf8')) : out.length;
  const [heard, after] = [out.subarray(0, cut), out.subarray(cut)];
  const isWhole = tail.length < TAIL_BYTES;
  const rest = isWhole ? [Buffer.concat([after, tail])] : [after, tail];
  if (cut < out.length || fs.existsSync(files.cut)) return piecesInWords([heard, ...rest]);
  return piecesInWords(isWhole ? [Buffer.concat([heard, ...rest])] : [heard, tail]);
}

function bytesOf(path: string): Buffer {
  return fs.existsSync(path) ? fs.readFileSync(path) : Buffer.alloc(0);
}
