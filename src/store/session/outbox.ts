import * as fs from 'node:fs';
import { join } from 'node:path';
import type { LiveText, Outbox } from '../../engine/ports/store-ports.ts';
import { isReservedOutboxName } from '../../protocol/workspace/session-names.ts';
import type { EventLogOptions } from '../event-log/open-log.ts';
import { placeNewFile, stagingName, syncFolder } from '../fs/durable-write.ts';
import { readFileBytes, statIfExists } from '../fs/file-reads.ts';
import { ifExists, wrapDiskErrors } from '../fs/store-errors.ts';
import { assertReplyName, freeName, type SessionPaths, supersededName } from '../layout/layout.ts';

/**
 * Reply files. A reply counts as published if its bytes are in place under its name, not merely if the name is taken:
 * an event log restored from a backup reuses names under which answers of its lost part still exist. `disk` may use the
 * disk reserve, for bytes and for the two names that a reply takes: its staging file's and its own.
 */
export function openOutbox(paths: SessionPaths, disk?: EventLogOptions['disk']): Outbox {
  const inOutbox = (name: string) => join(paths.outbox, name);
  const isReserved = (name: string) =>
    isReservedOutboxName(name) || statIfExists(inOutbox(name))?.isDirectory() === true;

  /** The name itself, or a similar one if a folder has that name: always the same for the same bytes. */
  const nameFor = (name: string, content: string) =>
    isReserved(name)
      ? freeName(`${name}-2`, (one) => statIfExists(inOutbox(one)) !== undefined && !hasContent(inOutbox(one), content))
      : name;

  const replaceReply = async (wanted: string, content: string) => {
    const name = nameFor(wanted, content);
    const staging = join(paths.outboxStaging, stagingName());
    while (!(await place(staging, inOutbox(name), content))) {
      if (hasContent(inOutbox(name), content)) return;
      renameExisting(name);
    }
  };

  const place = async (staging: string, target: string, content: string): Promise<boolean> => {
    for (;;) {
      try {
        return await placeNewFile(staging, target, content, disk?.write);
      } catch (error) {
        if (!disk?.makeRoom?.(error, content.length)) throw error;
      }
    }
  };

  /** A file with other bytes is renamed and kept: somebody may not have read it yet. */
  const renameExisting = (name: string) => {
    const earlier = freeName(supersededName(name), (one) => statIfExists(inOutbox(one)) !== undefined);
    wrapDiskErrors('rename', inOutbox(name), () => ifExists(() => fs.renameSync(inOutbox(name), inOutbox(earlier))));
  };

  return {
    isReserved,
    async publish(name, content) {
      assertReplyName(name);
      // In this order: a frontend moves files from outbox/ to read/, never back, so none is missed between the checks.
      const published = hasContent(inOutbox(name), content) || hasContent(join(paths.outboxRead, name), content);
      if (published) await syncFolder(paths.outbox);
      else await replaceReply(name, content);
    },
    async restore(name) {
      assertReplyName(name);
      if (statIfExists(inOutbox(name))?.isFile()) return true;
      const content = ifExists(() => readFileBytes(join(paths.outboxRead, name)));
      if (content === undefined) return false;
      await replaceReply(name, content.toString());
      return true;
    },
    async republish(name, content) {
      assertReplyName(name);
      await replaceReply(name, content);
    },
  };
}

/** Whether a regular file with exactly these bytes exists. */
function hasContent(path: string, content: string): boolean {
  const stat = statIfExists(path);
  if (!stat?.isFile() || stat.size !== Buffer.byteLength(content)) return false;
  return ifExists(() => readFileBytes(path))?.equals(Buffer.from(content)) ?? false;
}

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
    // Otherwise `empty` closes it once it is done.
    if (open.waiting === null) fs.closeSync(open.fd);
    open = undefined;
  };

  /** Asynchronous, in parallel with the request: truncating right after a sync took 0.7 ms. */
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
    // The text is only for watching; the answer itself goes into the event log.
  }
}
