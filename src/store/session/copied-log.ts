import * as fs from 'node:fs';
import { UserError } from '../../base/user-error.ts';
import type { EventBody } from '../../protocol/session/event.ts';
import type { LogPosition } from '../../protocol/session/log-entry.ts';
import { encodeEventLine, stampEvents } from '../event-log/event-codec.ts';
import { streamEventLog } from '../event-log/log-reader.ts';
import { writeAll } from '../fs/durable-write.ts';
import { wrapDiskErrors } from '../fs/store-errors.ts';
import type { SessionPaths } from '../layout/layout.ts';

/** The epoch of a copied log. Voided lines of the original are not copied, so nothing has to be told apart. */
const EPOCH = 1;

const { O_APPEND, O_CREAT, O_NOFOLLOW, O_WRONLY } = fs.constants;

/**
 * Writes the events of a session up to `upto`, in one segment, as the log of a copy that nobody has open yet. Returns
 * the hashes of the blobs they name. Throws UserError if retention has removed the beginning of the log. Not synced.
 */
export async function copyEventLog(from: SessionPaths, to: SessionPaths, upto: number): Promise<Set<string>> {
  const blobs = new Set<string>();
  await withLog(to, async (write) => {
    for await (const batch of streamEventLog(from, 'oldest')) {
      const kept = batch.filter(({ event }) => event.seq <= upto);
      const [first] = kept;
      if (first && blobs.size === 0 && first.event.seq > 1 && fs.fstatSync(write.fd).size === 0)
        throw new UserError(
          'The beginning of its event log was removed (retention.log_days), so it cannot be copied as it was then. To copy it as it is now: agentctl export and import --as.',
        );
      for (const { event } of kept) {
        const { v, seq, epoch: _, at, fence: __, ...body } = event;
        const line = encodeEventLine({ v, seq, epoch: EPOCH, at }, body);
        for (const [name] of line.matchAll(/\b[0-9a-f]{64}\b/g)) blobs.add(name);
        write.line(line);
      }
      if (kept.length < batch.length) break;
    }
  });
  return blobs;
}

/** Appends events to a log that nobody has open, and syncs it. `end`: where it ends, and the epoch of its last line. */
export async function appendToCopiedLog(
  paths: SessionPaths,
  end: Pick<LogPosition, 'seq'> & { epoch?: number },
  bodies: EventBody[],
  at: string,
): Promise<void> {
  await withLog(paths, async (write) => {
    write.line(stampEvents(bodies, { seq: end.seq, epoch: Math.max(EPOCH, end.epoch ?? 0), at }).text);
    wrapDiskErrors('sync', paths.events, () => fs.fsyncSync(write.fd));
  });
}

async function withLog(
  { events }: SessionPaths,
  job: (write: { fd: number; line(text: string): void }) => Promise<void>,
): Promise<void> {
  const fd = wrapDiskErrors('open', events, () =>
    fs.openSync(events, O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW, 0o600),
  );
  try {
    await job({ fd, line: (text) => wrapDiskErrors('write', events, () => writeAll(fd, Buffer.from(text))) });
  } finally {
    fs.closeSync(fd);
  }
}
