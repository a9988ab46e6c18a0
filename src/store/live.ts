import * as fs from 'node:fs';
import type { Live } from '../engine/ports.ts';

const { O_APPEND, O_CREAT, O_NOFOLLOW, O_NONBLOCK, O_WRONLY } = fs.constants;

/** Text of the call in flight, for people who watch. By contract no error of it matters: all of them are swallowed here. */
export function openLive(path: string): Live & { close(): void } {
  let fd: number | undefined;
  const close = () => {
    if (fd !== undefined) fs.closeSync(fd);
    fd = undefined;
  };
  return {
    begin() {
      ignoringErrors(() => {
        close();
        fd = fs.openSync(path, O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW | O_NONBLOCK, 0o600);
        if (fs.fstatSync(fd).isFile()) fs.ftruncateSync(fd);
        else close();
      });
    },
    write(text) {
      ignoringErrors(() => {
        if (fd !== undefined) fs.writeSync(fd, text);
      });
    },
    close: () => ignoringErrors(close),
  };
}

function ignoringErrors(job: () => void): void {
  try {
    job();
  } catch {
    // Nobody waits for this text, and the answer itself goes into the record.
  }
}
