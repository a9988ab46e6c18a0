import type { PendingWork } from '../../engine/ports/store-ports.ts';
import { listNames, readTextFile, statIfExists } from '../fs/file-reads.ts';
import type { SessionPaths } from '../layout/layout.ts';
import { type LogExtent, readEventLog } from './log-reader.ts';
import { corruptLog } from './segments.ts';
import { readSnapshot } from './snapshot-file.ts';

/** A file that was made after a sync of an event which the log does not have. */
export type ProofOfLoss = { path: string; what: string };

/** What a log that has not begun anything leaves open. */
export const NOTHING_PENDING: PendingWork = { calls: [], replies: [] };

/**
 * Files beside the log that are made only after a sync, and show that the log had more events: a snapshot, messages
 * that left the inbox (`done/<seq>-…`), the folders of calls (`tools/<seq of the answer>.…`), and replies. `last`: the
 * highest number in the log, also of lines that do not count.
 */
export function findProofsOfLoss(paths: SessionPaths, last: number, pending: PendingWork): ProofOfLoss[] {
  const snapshot = readSnapshot(paths.snapshot)?.mark.seq ?? 0;
  const numbered = (folder: string, format: RegExp, what: string): ProofOfLoss[] =>
    listNames(folder)
      .filter((name) => Number(format.exec(name)?.[1] ?? 0) > last)
      .map((name) => ({ path: `${folder}/${name}`, what }));
  const begun = new Set(listNames(paths.tools));
  return [
    ...(snapshot > last ? [{ path: paths.snapshot, what: `was made after event ${snapshot}` }] : []),
    ...numbered(paths.done, /^(\d+)-/, 'is a message that was received after that'),
    ...numbered(paths.tools, /^(\d+)\./, 'is of a call that was requested after that'),
    ...pending.calls
      .filter((call) => begun.has(call))
      .map((call) => ({ path: `${paths.tools}/${call}`, what: 'is of a call that began after that' })),
    ...pending.replies.flatMap(({ name, message }) =>
      [`${paths.outbox}/${name}`, `${paths.outboxRead}/${name}`]
        .filter((path) => answeredBy(path) === message)
        .map((path) => ({ path, what: 'is the reply to a message that has none in the log' })),
    ),
  ];
}

const IN_REPLY_TO = /^ *"?in_reply_to"?: (.*?),?$/m;

/** The id of the message that a reply file answers; undefined if it is no reply. */
function answeredBy(path: string): string | undefined {
  try {
    const found = statIfExists(path)?.isFile() ? IN_REPLY_TO.exec(readTextFile(path) ?? '')?.[1] : undefined;
    return found?.startsWith('"') ? String(JSON.parse(found)) : found;
  } catch {
    return undefined;
  }
}

/** Replies to messages that the log does not have, which must not be taken for those to later messages of that id. */
export function findStrayReplies(paths: SessionPaths, isKnown: (message: string) => boolean): string[] {
  return [paths.outbox, paths.outboxRead]
    .flatMap((folder) => listNames(folder).map((name) => `${folder}/${name}`))
    .filter((path) => {
      const message = answeredBy(path);
      return message !== undefined && !isKnown(message);
    });
}

/**
 * Throws CorruptLogError if something proves that synced events are missing at the end of the log. `closed`: the epoch
 * of the last daemon if it ended in order, so that all it wrote was on disk.
 */
export async function assertEndIsThere(
  paths: SessionPaths,
  extent: LogExtent,
  pending: PendingWork,
  closed?: number,
): Promise<void> {
  const { torn, top, mark } = extent;
  const isClosed = torn > 0 && closed !== undefined && Math.max(extent.epoch, extent.tornEpoch) === closed;
  let proofs = findProofsOfLoss(paths, top, pending);
  // Lines of an earlier owner that do not count may be in a part that was not read.
  const whole = proofs.length > 0 ? await readEventLog(paths, () => {}, 'oldest') : 'unfit';
  if (whole !== 'unfit') proofs = findProofsOfLoss(paths, Math.max(top, whole.top), pending);
  const first = proofs[0];
  if (!first && !isClosed) return;
  const end =
    torn > 0 ? `what follows event ${mark.seq} (${torn} bytes) cannot be read` : `it ends with event ${mark.seq}`;
  const others = proofs.length > 1 ? `, and so do ${proofs.length - 1} more files` : '';
  const proof = first
    ? `${first.path.slice(paths.folder.length + 1)} ${first.what}${others}`
    : 'the daemon that wrote there had ended in order, with everything on disk';
  throw corruptLog(paths.events, `${end}, but it had been longer: ${proof}`);
}
