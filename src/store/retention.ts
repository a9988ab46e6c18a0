import * as fs from 'node:fs';
import { join } from 'node:path';
import { z } from 'zod';
import { sweepStaging, syncFolder } from './durable.ts';
import { ifThere, saying } from './errors.ts';
import { lastEventOf } from './last-event.ts';
import type { SessionPaths } from './layout.ts';
import { WATCHED } from './plan-history.ts';
import { replaceFile } from './replace-file.ts';
import { openSegments, sealedNumbers } from './segments.ts';
import { snapshotText } from './snapshot-file.ts';
import { openSnapshots } from './snapshots.ts';

/** Days that things are kept; 0: for ever. */
export type Retention = { recordDays: number; filesDays: number };

const DAY_MS = 24 * 60 * 60 * 1000;
/** Removed in one go: a folder that was never swept does not hold up the daemon. */
const MOST_FILES = 1000;
const MOST_SEGMENTS = 64;

/** `retention.json`: which replies may have been removed, so that a rebuild does not send them again. */
const Swept = z.object({ version: z.literal(1), files_before: z.iso.datetime() });

/**
 * Removes what is old in a session in which nothing is open, a bounded amount at a time; `more`: there is reason to call again.
 * Nothing goes that was not acknowledged: sealed segments only where a snapshot stands for them, replies only from
 * `outbox/read/`, dropped files only once they are on record. A save of `plan.json` that was not taken in is never removed.
 */
export async function sweepSession(
  paths: SessionPaths,
  keep: Retention,
  now: Date,
): Promise<{ removed: number; more: boolean }> {
  const last = lastEventOf(paths);
  if (!(last?.type === 'reply.published' && last.idle)) return { removed: 0, more: false };
  // Of a session that nobody opens any more; of others, opening takes it away.
  sweepStaging(paths.folder);
  const segments = keep.recordDays > 0 ? await sweepSegments(paths, daysBefore(now, keep.recordDays)) : 0;
  const files = keep.filesDays > 0 ? await sweepFiles(paths, daysBefore(now, keep.filesDays)) : 0;
  return { removed: segments + files, more: segments === MOST_SEGMENTS || files === MOST_FILES };
}

const daysBefore = (now: Date, days: number) => new Date(now.getTime() - days * DAY_MS);

/** Oldest first, so that what stays has no gap; and only below a snapshot that is kept for good, durably, before anything goes. */
async function sweepSegments(paths: SessionPaths, before: Date): Promise<number> {
  const old = sealedNumbers(paths).slice(0, MOST_SEGMENTS);
  const young = old.findIndex((number) => fs.statSync(paths.segment(number)).mtime >= before);
  const candidates = young < 0 ? old : old.slice(0, young);
  // Throws where one is missing already: of a record that is not whole nothing is removed.
  openSegments(paths)?.close();
  const snapshot = candidates.length > 0 ? await openSnapshots(paths).load() : undefined;
  const doomed = candidates.filter((number) => snapshot !== undefined && number < snapshot.mark.segment);
  if (!snapshot || doomed.length === 0) return 0;
  await replaceFile(paths.base, snapshotText(snapshot), { durable: true });
  for (const number of doomed) saying('remove', paths.segment(number), () => fs.unlinkSync(paths.segment(number)));
  await syncFolder(paths.sealed);
  return doomed.length;
}

async function sweepFiles(paths: SessionPaths, before: Date): Promise<number> {
  const doomed = [
    ...filesIn(paths.done),
    ...filesIn(paths.rejected),
    ...filesIn(paths.outboxRead),
    ...filesIn(paths.folder, (name) => name.startsWith('events.torn-')),
    ...earlierPlans(paths),
  ]
    .filter((path) => isOlder(path, before))
    .slice(0, MOST_FILES);
  if (doomed.length === 0) return 0;
  const last = removedBefore(paths);
  const latest = last !== undefined && last > before.toISOString() ? last : before.toISOString();
  await replaceFile(paths.swept, `${JSON.stringify({ version: 1, files_before: latest })}\n`, { durable: true });
  for (const path of doomed) fs.rmSync(path, { force: true });
  return doomed.length;
}

function filesIn(folder: string, isMeant = (name: string) => !name.startsWith('.')): string[] {
  const entries = ifThere(() => fs.readdirSync(folder, { withFileTypes: true })) ?? [];
  return entries.filter((entry) => !entry.isDirectory() && isMeant(entry.name)).map(({ name }) => join(folder, name));
}

/** Without the newest, which an editor may still be writing to. */
function earlierPlans({ planHistory }: SessionPaths): string[] {
  const numbers = filesIn(planHistory, (name) => /^\d+\.json$/.test(name)).map((path) => ({
    path,
    number: Number(/(\d+)\.json$/.exec(path)?.[1]),
  }));
  return numbers
    .sort((a, b) => a.number - b.number)
    .slice(0, -WATCHED)
    .map(({ path }) => path);
}

/** By the time it came to its place, which a rename sets: a copied message may bring an old time of change along. */
const isOlder = (path: string, before: Date) => (ifThere(() => fs.lstatSync(path).ctime) ?? before) < before;

/** Replies published before this time (ISO 8601, UTC) may have been removed from `outbox/read/`; undefined: none was. */
export function removedBefore(paths: SessionPaths): string | undefined {
  try {
    return Swept.safeParse(JSON.parse(fs.readFileSync(paths.swept, 'utf8'))).data?.files_before;
  } catch {
    return undefined;
  }
}

/** How many events at the beginning of a record retention has removed. */
export function removedEvents(paths: SessionPaths): number {
  const segments = openSegments(paths);
  try {
    return segments && segments.oldest > 1 ? segments.open(segments.oldest).start.seq : 0;
  } finally {
    segments?.close();
  }
}
