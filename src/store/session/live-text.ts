import * as fs from 'node:fs';
import type { LiveText } from '../../engine/ports/store-ports.ts';

const { O_APPEND, O_CREAT, O_NOFOLLOW, O_NONBLOCK, O_WRONLY } = fs.constants;

/** The file of one call; `waiting`: what was written while the text of the call before is still being taken out. */
type OpenText = { fd: number; waiting: string | null; isOver: boolean };

/**
 * Text of the call in flight, for people who watch. By contract no error of it matters: all of them are swallowed here.
 */
export function openLiveText(path: string): LiveText & { close(): void } {
  let open: OpenText | undefined;

  const close = () => {
    if (!open) return;
    open.isOver = true;
    // Else it is closed once it is empty.
    if (open.waiting === null) fs.closeSync(open.fd);
    open = undefined;
  };

  /** Beside the request that goes out meanwhile: right after a sync the file system took 0.7 ms for it. */
  const empty = (one: OpenText) =>
    fs.ftruncate(one.fd, () =>
      ignoreErrors(() => {
        const { waiting } = one;
        one.waiting = null;
        if (one.isOver) fs.closeSync(one.fd);
        else if (waiting) fs.writeSync(one.fd, waiting);
      }),
    );

  return {
    begin() {
      ignoreErrors(() => {
        close();
        const fd = fs.openSync(path, O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW | O_NONBLOCK, 0o600);
        const stat = fs.fstatSync(fd);
        if (!stat.isFile()) return fs.closeSync(fd);
        open = { fd, waiting: stat.size > 0 ? '' : null, isOver: false };
        if (open.waiting !== null) empty(open);
      });
    },
    write(text) {
      ignoreErrors(() => {
        if (open?.waiting === null) fs.writeSync(open.fd, text);
        else if (open) open.waiting += text;
      });
    },
    close: () => ignoreErrors(close),
  };
}

function ignoreErrors(job: () => void): void {
  try {
    job();
  } catch {
    // Nobody waits for this text, and the answer itself goes into the record.
  }
}
