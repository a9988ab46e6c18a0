import * as fs from 'node:fs';
import { join } from 'node:path';
import { z } from 'zod';
import { readLastEvent } from '../event-log/log-reader.ts';
import { listRotatedSegments, openSegments } from '../event-log/segments.ts';
import { encodeSnapshot } from '../event-log/snapshot-file.ts';
import { removeOldStaging, removeStaging, replaceFile, syncFolder } from '../fs/durable-write.ts';
import { readJsonFile } from '../fs/file-reads.ts';
import { type FolderOnPath, statInFolder, withFolder } from '../fs/open-folder.ts';
import { ifExists, wrapDiskErrors } from '../fs/store-errors.ts';
import type { SessionPaths } from '../layout/layout.ts';
import { isIgnoredName } from '../layout/layout.ts';
import { WATCHED_VERSIONS } from '../plan/plan-content.ts';
import { openSnapshotStore } from './snapshots.ts';

/** Days that data is kept; 0: forever. */
export type RetentionDays = { recordDays: number; filesDays: number };

const DAY_MS = 24 * 60 * 60 * 1000;
/** Limits per run, so that a folder that was never swept does not block the daemon. */
const MAX_FILES_PER_RUN = 1000;
const MAX_SEGMENTS_PER_RUN = 64;
const BLOB_NAME = /\b[0-9a-f]{64}\b/g;

/** `retention.json`: which replies may have been removed, so that a rebuild does not publish them again. */
const RetentionFile = z.object({ version: z.literal(1), files_before: z.iso.datetime() });

/**
 * Removes expired data of a session in which nothing is open, a bounded amount at a time; `more`: call again. Data is
 * removed only once it is no longer needed: rotated segments below a base snapshot, and then blobs that nothing kept
 * refers to; replies from `outbox/read/`; dropped files and answered approvals, which are in the event log; attachments
 * while no message waits. A save of `plan.json` that was not accepted is never removed.
 */
export async function applyRetention(
  paths: SessionPaths,
  keep: RetentionDays,
  now: Date,
): Promise<{ removed: number; more: boolean }> {
  const last = readLastEvent(paths);
  if (!(last?.type === 'reply.published' && last.idle)) return { removed: 0, more: false };
  // For sessions that are never opened again; opening a session does this too.
  for (const folder of [paths.folder, paths.checkpoints, paths.checkpointContents]) removeStaging(folder);
  const recordEnd = daysBefore(now, keep.recordDays);
  const segments = keep.recordDays > 0 ? await removeExpiredSegments(paths, recordEnd) : 0;
  const blobs = segments > 0 ? await removeUnnamedBlobs(paths, recordEnd) : 0;
  const filesEnd = daysBefore(now, keep.filesDays);
  const files =
    keep.filesDays > 0 ? (await removeExpiredFiles(paths, filesEnd)) + removeForgottenAttachments(paths, filesEnd) : 0;
  removeOldInboxStaging(paths, now);
  return { removed: segments + blobs + files, more: segments === MAX_SEGMENTS_PER_RUN || files >= MAX_FILES_PER_RUN };
}

const daysBefore = (now: Date, days: number) => new Date(now.getTime() - days * DAY_MS);

/** Oldest first, so that the rest has no gap, and only below a snapshot that is already durable. */
async function removeExpiredSegments(paths: SessionPaths, before: Date): Promise<number> {
  const old = listRotatedSegments(paths).slice(0, MAX_SEGMENTS_PER_RUN);
  const young = old.findIndex((number) => fs.statSync(paths.segment(number)).mtime >= before);
  const candidates = young < 0 ? old : old.slice(0, young);
  // Throws if one is missing already: nothing is removed from an incomplete event log.
  openSegments(paths)?.close();
  const snapshot = candidates.length > 0 ? await openSnapshotStore(paths).load() : undefined;
  const expired = candidates.filter((number) => snapshot !== undefined && number < snapshot.mark.segment);
  if (!snapshot || expired.length === 0) return 0;
  await replaceFile(paths.base, encodeSnapshot(snapshot), { durable: true });
  for (const number of expired)
    wrapDiskErrors('remove', paths.segment(number), () => fs.unlinkSync(paths.segment(number)));
  await syncFolder(paths.rotated);
  return expired.length;
}

/**
 * Removes blobs older than the kept log to which no kept segment or snapshot refers. A blob that is used again
 * meanwhile gets a new time.
 */
async function removeUnnamedBlobs(paths: SessionPaths, before: Date): Promise<number> {
  const candidates = listFilesIn(paths.blobs, (name) => /^[0-9a-f]{64}$/.test(name));
  const old = new Set(candidates.filter((path) => isOlder(path, before)));
  const segments = listRotatedSegments(paths).map((number) => paths.segment(number));
  for (const path of [...segments, paths.events, paths.base, paths.snapshot]) {
    const text = ifExists(() => fs.readFileSync(path, 'latin1')) ?? '';
    for (const [name] of text.matchAll(BLOB_NAME)) old.delete(join(paths.blobs, name));
    await new Promise(setImmediate);
  }
  const unnamed = [...old].filter((path) => isOlder(path, before));
  for (const path of unnamed) fs.rmSync(path, { force: true });
  return unnamed.length;
}

/** Removes files that a sender did not finish; opening a session does this too. */
function removeOldInboxStaging(paths: SessionPaths, now: Date): void {
  inFolderIfThere(paths, [{ path: paths.inbox }, { path: paths.inboxStaging }], (folder) =>
    removeOldStaging(folder.path('.'), now, 'all'),
  );
}

/** Removes files in `inbox/.files/` that no message took, unless a waiting message may name them. */
function removeForgottenAttachments(paths: SessionPaths, before: Date): number {
  const isEmpty = inFolderIfThere(paths, [{ path: paths.inbox }], (inbox) =>
    fs.readdirSync(inbox.path('.'), { encoding: 'buffer' }).every(isIgnoredName),
  );
  if (!isEmpty) return 0;
  return (
    inFolderIfThere(paths, [{ path: paths.inbox }, { path: paths.inboxFiles }], (files) => {
      const forgotten = fs
        .readdirSync(files.path('.'), { encoding: 'buffer' })
        .filter((name) => {
          const stat = statInFolder(files, name);
          return stat?.isFile() && stat.ctime < before;
        })
        .slice(0, MAX_FILES_PER_RUN);
      for (const name of forgotten) fs.rmSync(files.bytePath(name), { force: true });
      return forgotten.length;
    }) ?? 0
  );
}

const inFolderIfThere = <T>(paths: SessionPaths, way: FolderOnPath[], job: Parameters<typeof withFolder<T>>[2]) =>
  ifExists(() => withFolder(paths.folder, way, job));

async function removeExpiredFiles(paths: SessionPaths, before: Date): Promise<number> {
  const expired = [
    ...listFilesIn(paths.done),
    ...listFilesIn(paths.rejected),
    ...listFilesIn(paths.outboxRead),
    ...listFilesIn(paths.approvalsAnswered),
    ...listFilesIn(paths.folder, (name) => name.startsWith('events.torn-')),
    ...listOldPlanVersions(paths),
  ]
    .filter((path) => isOlder(path, before))
    .slice(0, MAX_FILES_PER_RUN);
  if (expired.length === 0) return 0;
  const last = filesRemovedBefore(paths);
  const latest = last !== undefined && last > before.toISOString() ? last : before.toISOString();
  await replaceFile(paths.swept, `${JSON.stringify({ version: 1, files_before: latest })}\n`, { durable: true });
  for (const path of expired) fs.rmSync(path, { force: true });
  return expired.length;
}

function listFilesIn(folder: string, isMeant = (name: string) => !name.startsWith('.')): string[] {
  const entries = ifExists(() => fs.readdirSync(folder, { withFileTypes: true })) ?? [];
  return entries.filter((entry) => !entry.isDirectory() && isMeant(entry.name)).map(({ name }) => join(folder, name));
}

/** Without the newest, which an editor may still be writing to. */
function listOldPlanVersions({ planHistory }: SessionPaths): string[] {
  const numbers = listFilesIn(planHistory, (name) => /^\d+\.json$/.test(name)).map((path) => ({
    path,
    number: Number(/(\d+)\.json$/.exec(path)?.[1]),
  }));
  return numbers
    .sort((a, b) => a.number - b.number)
    .slice(0, -WATCHED_VERSIONS)
    .map(({ path }) => path);
}

/** Compares ctime, which the move to its place has set: a copied message may have an old modification time. */
const isOlder = (path: string, before: Date) => (ifExists(() => fs.lstatSync(path).ctime) ?? before) < before;

/**
 * Replies published before this time (ISO 8601, UTC) may have been removed from `outbox/read/`; undefined: none was.
 */
export function filesRemovedBefore(paths: SessionPaths): string | undefined {
  return readJsonFile(paths.swept, RetentionFile)?.files_before;
}

/** How many events retention has removed from the beginning of an event log. */
export function countRemovedEvents(paths: SessionPaths): number {
  const segments = openSegments(paths);
  try {
    return segments && segments.oldest > 1 ? segments.open(segments.oldest).start.seq : 0;
  } finally {
    segments?.close();
  }
}
