import * as fs from 'node:fs';
import { finished, pipeline } from 'node:stream/promises';
import { type Pack, pack } from 'tar-stream';
import { sha256 } from '../../base/sha256.ts';
import { UserError } from '../../base/user-error.ts';
import type { CheckpointEntry } from '../../protocol/session/checkpoint.ts';
import {
  EXPORT_HEADER,
  type ExportedFile,
  type ExportHeader,
  isInsideLink,
} from '../../protocol/workspace/export-file.ts';
import { hashFile, openContents } from '../../store/checkpoints/contents.ts';
import { listCheckpoints } from '../../store/checkpoints/manifest-file.ts';
import { scanWork, wayTo } from '../../store/checkpoints/scan-work.ts';
import { openSegments } from '../../store/event-log/segments.ts';
import { ensureFolder } from '../../store/fs/durable-write.ts';
import { listNames, readFileBytes, statIfExists } from '../../store/fs/file-reads.ts';
import { replayLog } from '../sessions/replay.ts';
import type { KnownSession } from '../sessions/session-folders.ts';

/** One entry of the tar, and where its bytes are: a file that no longer changes, or a part of an open one. */
type Entry = ExportedFile & { source?: { path: string } | { bytes: Buffer } };

/** Of a session: its name in the tar, the last event it has, and what is not in it. */
type CollectedSession = { name: string; seq: number; leftOut: string[] };

/** A tar of sessions, ready to be written. `leftOut`: what it leaves out, in words. */
export type Export = { header: ExportHeader; leftOut: string[]; write(out: NodeJS.WritableStream): Promise<void> };

/**
 * Collects sessions for a tar: the log up to its last event, blobs, messages that were answered, replies, checkpoints
 * and `work/`, whose files are copied to `staging` first, so that a session may be running. What waits in the inbox,
 * jobs, the browser's profile and child sessions are left out. The caller removes `staging`.
 */
export async function prepareExport(sessions: readonly KnownSession[], staging: string, at: Date): Promise<Export> {
  ensureFolder(staging);
  const entries: Entry[] = [];
  const exported: CollectedSession[] = [];
  for (const [place, session] of sessions.entries()) {
    const seq = await collectLog(session, entries);
    const late = await collectFolders(session, seq, entries);
    const copies = ensureFolder(`${staging}/${place}`);
    exported.push({ name: session.name, seq, leftOut: [...late, ...(await collectWork(session, copies, entries))] });
  }
  const header: ExportHeader = {
    format: 1,
    at: at.toISOString(),
    sessions: exported.map(({ name, seq }) => ({ name, seq })),
    files: entries.map(({ source: _, ...file }) => file),
  };
  return {
    header,
    leftOut: exported.flatMap(({ name, leftOut }) => leftOut.map((one) => `${name}: ${one}`)),
    async write(out) {
      const tar = pack();
      const ended = pipeline(tar, out);
      const filled = async () => {
        await add(tar, { name: EXPORT_HEADER, mode: 0o600 }, Buffer.from(`${JSON.stringify(header)}\n`));
        for (const entry of entries) await addEntry(tar, entry);
        tar.finalize();
      };
      // Whoever reads it may leave early.
      await Promise.race([filled().then(() => ended), ended]);
    },
  };
}

/** Rotated segments whole, and the one with the last event up to its end. Returns that event's number. */
async function collectLog(session: KnownSession, entries: Entry[]): Promise<number> {
  const { mark } = await replayLog(session, () => {});
  const segments = openSegments(session);
  if (!segments) return 0;
  try {
    for (let number = segments.oldest; number < mark.segment; number++)
      entries.push(await plainFile(session, session.segment(number)));
    const bytes = Buffer.alloc(mark.offset);
    fs.readSync(segments.open(mark.segment).file, bytes, 0, bytes.length, 0);
    const last = { size: bytes.length, sha256: sha256(bytes), source: { bytes } };
    entries.push({ ...fileOf(session, session.events), ...last });
    if (statIfExists(session.base)?.isFile()) entries.push(await plainFile(session, session.base));
  } finally {
    segments.close();
  }
  return mark.seq;
}

/**
 * What does not change once it is there. Manifests before the contents that they name would be useless alone. Returns
 * what was left out, in words: a message that came in after event `seq` would prove that the copy's log has lost it.
 */
async function collectFolders(session: KnownSession, seq: number, entries: Entry[]): Promise<string[]> {
  const late: string[] = [];
  const files = [session.settings, session.memory, ...listCheckpoints(session).map(session.checkpoint)];
  const folders = [session.blobs, session.done, session.rejected, session.outbox, session.outboxRead];
  for (const folder of [...folders, session.checkpointContents])
    for (const name of listNames(folder)) if (!name.startsWith('.')) files.push(`${folder}/${name}`);
  for (const path of files) {
    if (!statIfExists(path)?.isFile()) continue;
    const [, received] = /\/done\/(\d+)-/.exec(path.slice(session.folder.length)) ?? [];
    if (Number(received ?? 0) > seq) {
      late.push(`${path.slice(session.folder.length + 1)} (it came in after event ${seq}, the last that is exported)`);
      continue;
    }
    // One that was removed or moved meanwhile is not in the tar.
    const entry = await plainFile(session, path).catch(() => undefined);
    if (entry) entries.push(entry);
  }
  return late;
}

/** `work/` as it is, with its files copied to `copies`. Returns what cannot be in the tar, in words. */
async function collectWork(session: KnownSession, copies: string, entries: Entry[]): Promise<string[]> {
  const contents = openContents({ checkpointContents: copies });
  const { top, way } = wayTo(session.work, undefined);
  const most = Number.POSITIVE_INFINITY;
  const { signal } = new AbortController();
  const { state } = await scanWork(top, way, {
    limits: { exclude: [], keep: 1, maxFiles: most, maxFileBytes: most, maxBytes: most, maxWorkspaceBytes: most },
    readContent: contents.put,
    signal,
  });
  await contents.commit(signal);
  const leftOut = state.leftOut.map(({ path, why }) => `work/${path} (${why.replace('_', ' ')})`);
  for (const entry of state.entries.values()) {
    const why = whyNotInTar(entry);
    if (why) leftOut.push(`work/${entry.path} (${why})`);
    else entries.push(workEntry(session, entry, copies));
  }
  return leftOut;
}

function whyNotInTar(entry: CheckpointEntry): string | undefined {
  if (entry.path_bytes !== undefined) return 'its name is no UTF-8';
  if (entry.kind === 'link' && (entry.target_bytes !== undefined || !isInsideLink(entry.path, entry.target)))
    return 'a link that leads out of work/';
  return undefined;
}

function workEntry({ name }: KnownSession, entry: CheckpointEntry, copies: string): Entry {
  const path = `${name}/work/${entry.path}`;
  if (entry.kind === 'folder') return { path, kind: 'folder', mode: entry.mode & 0o777 };
  if (entry.kind === 'link') return { path, kind: 'link', target: entry.target };
  const { size, sha256, mode } = entry;
  return { path, kind: 'file', mode: mode & 0o777, size, sha256, source: { path: `${copies}/${sha256}` } };
}

const fileOf = ({ folder, name }: KnownSession, path: string) => ({
  path: `${name}/${path.slice(folder.length + 1)}`,
  kind: 'file' as const,
  mode: 0o600,
});

async function plainFile(session: KnownSession, path: string): Promise<Entry> {
  const file = await fs.promises.open(path, fs.constants.O_RDONLY | fs.constants.O_NOFOLLOW);
  try {
    const { size } = await file.stat();
    return { ...fileOf(session, path), size, sha256: await hashFile(file, size), source: { path } };
  } finally {
    await file.close();
  }
}

async function addEntry(tar: Pack, entry: Entry): Promise<void> {
  const { path: name } = entry;
  if (entry.kind === 'folder') return add(tar, { name: `${name}/`, mode: entry.mode, type: 'directory' });
  if (entry.kind === 'link') return add(tar, { name, type: 'symlink', linkname: entry.target });
  const { source, mode, size } = entry;
  if (source && 'bytes' in source) return add(tar, { name, mode }, source.bytes);
  const path = source?.path ?? '';
  if (size <= MAX_WHOLE_BYTES) {
    const bytes = readFileBytes(path);
    if (bytes.length !== size) throw changedMeanwhile(name);
    return add(tar, { name, mode }, bytes);
  }
  const target = tar.entry({ name, mode, size });
  await finished(fs.createReadStream(path, { end: size - 1 }).pipe(target));
}

/** A larger file is streamed. */
const MAX_WHOLE_BYTES = 1024 * 1024;

const changedMeanwhile = (path: string): UserError =>
  new UserError(`${path} changed while it was exported. Export again.`);

function add(tar: Pack, header: Parameters<Pack['entry']>[0], bytes?: Buffer): Promise<void> {
  return new Promise((resolve, reject) => {
    const done = (error?: Error | null) => (error ? reject(error) : resolve());
    if (bytes) tar.entry(header, bytes, done);
    else tar.entry(header, done);
  });
}
