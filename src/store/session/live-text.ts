import * as fs from 'node:fs';
import type { LiveText } from '../../engine/ports/store-ports.ts';

const { O_APPEND, O_CREAT, O_NOFOLLOW, O_NONBLOCK, O_WRONLY } = fs.constants;

/** The file of one call; `waiting`: text written while that of the previous call is still being removed. */
type OpenText = { fd: number; waiting: string | null; isOver: boolean };

/**
 * The text of the call in flight, for people who watch. By contract its errors do not matter: all are swallowed here.
 */
export function openLiveText(path: string): LiveText & { close(): void } {
  let open: OpenText | undefined;

  const close = () => {
    if (!open) return;
    open.isOver = true;
    // Otherwise it is closed once it is empty.
    if (open.waiting === null) fs.closeSync(open.fd);
    open = undefined;
  };

  /** In parallel with the request: right after a sync, truncating took the file system 0.7 ms. */
  const empty = (one: OpenText) =>
    fs.ftruncate(one.fd, () =>
      ignoreErrors(() => {
        const { waiting } = one;
        one.waiting = null;
        if (one.isOver) fs.closeSync(one.fd);
        else if (waiting) fs.writeSync(one.fd, waiting);
      }),
    );

  const end = () => ignoreErrors(close);

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
    end,
    close: end,
  };
}

function ignoreErrors(job: () => void): void {
  try {
    job();
  } catch {
    // Nobody depends on this text, and the answer itself goes into the event log.
  }
}
