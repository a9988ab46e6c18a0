import * as fs from 'node:fs';
import { type FileHandle, open } from 'node:fs/promises';
import { dirname } from 'node:path';
import { createLimiter, createPacer } from '../../base/async.ts';
import { errorCode, UserError } from '../../base/user-error.ts';
import type { CheckpointEntry, LeftOutReason } from '../../protocol/session/checkpoint.ts';
import type { CheckpointLimits } from '../../protocol/settings/checkpoint-limits.ts';
import { TIMESTAMP_TICK_MS } from '../fs/file-reads.ts';
import { type FolderOnPath, type OpenFolder, statInFolder, withFolderAsync, withSubfolder } from '../fs/open-folder.ts';
import { DiskError } from '../fs/store-errors.ts';
import { SLICE_MS } from './manifest-file.ts';
import { emptyState, joinKeys, keyOf, keyOfBytes, leftOutAt, pathOfKey, type WorkState } from './work-state.ts';

const { O_NOFOLLOW, O_NONBLOCK, O_RDONLY } = fs.constants;

/** Folders inside each other: each holds a descriptor while what is in it is read. */
const MAX_DEPTH = 64;
/** How often a file that changes while it is read is tried. */
const MAX_TRIES = 3;

/** Reading files occupies threads that other sessions need for the syncs of their logs. */
const readingSlot = createLimiter(2);

/** What was known of the folder at an earlier scan, and when that began (ms since 1970). */
export type KnownWork = { state: WorkState; at: number };

/** `readContent` returns the SHA-256, in hex, of the first `size` bytes of an open file. */
type ScanOptions = {
  limits: CheckpointLimits;
  known?: KnownWork | undefined;
  readContent: (file: FileHandle, size: number) => Promise<string>;
  signal: AbortSignal;
};

type FileEntry = CheckpointEntry & { kind: 'file' };
type Found = CheckpointEntry | LeftOutReason | undefined;

/** Stands for a file until it is read. */
const UNREAD: CheckpointEntry = { path: '', kind: 'folder', mode: 0 };

/** A scan under way. */
type Scan = ScanOptions & {
  state: WorkState;
  pace: () => Promise<void>;
  isExcluded: (key: string) => boolean;
  /** Files that are in `state` without their content yet. */
  unread: Set<string>;
  /** Of files so far. */
  bytes: number;
  count: number;
  isFull: boolean;
};

/**
 * What a folder below the session's folder holds. Links are never followed, also if one takes a folder's place
 * meanwhile. A file is read only if its size, times or inode differ from those known, or if they are so young that a
 * later change may look the same. Throws the signal's reason.
 */
export async function scanWork(top: string, way: readonly FolderOnPath[], options: ScanOptions): Promise<KnownWork> {
  const at = Date.now();
  const scan: Scan = {
    ...options,
    state: emptyState(),
    pace: createPacer(SLICE_MS, options.signal),
    isExcluded: exclusionOf(options.limits.exclude),
    unread: new Set(),
    ...{ bytes: 0, count: 0, isFull: false },
  };
  await withFolderAsync(top, way, (folder) => walk(scan, folder, '', 0)).catch((error) => {
    if (errorCode(error) !== 'ENOENT') throw error;
  });
  for (const key of scan.unread) scan.state.entries.delete(key);
  scan.state.leftOut.sort((one, other) => (keyOf(one) < keyOf(other) ? -1 : 1));
  return { state: scan.state, at };
}

async function walk(scan: Scan, folder: OpenFolder, key: string, depth: number): Promise<void> {
  const changed: Array<[Buffer, string]> = [];
  for (const name of namesIn(folder)) {
    await scan.pace();
    const at = joinKeys(key, keyOfBytes(name));
    const stat = statInFolder(folder, name);
    if (!stat) continue;
    const found = scan.isExcluded(at) ? 'excluded' : lookAt(scan, folder, name, stat, at);
    if (found === 'too_many') {
      keep(scan, key, found);
      break;
    }
    if (found === 'unread') {
      // Keeps its place, in whatever order files are read.
      scan.state.entries.set(at, UNREAD);
      scan.unread.add(at);
      changed.push([name, at]);
    } else keep(scan, at, found);
    if (typeof found === 'object' && found.kind === 'folder') await enter(scan, folder, name, at, depth + 1);
  }
  const reads = changed.map(([name, at]) =>
    readingSlot(async () => keep(scan, at, await readFile(scan, folder, name, at))),
  );
  // The folder stays open until all have ended.
  const failed = (await Promise.allSettled(reads)).find((read) => read.status === 'rejected');
  if (failed) throw failed.reason;
}

async function enter(scan: Scan, parent: OpenFolder, name: Buffer, key: string, depth: number): Promise<void> {
  if (depth > MAX_DEPTH) return keep(scan, key, 'too_many');
  try {
    await withSubfolder(parent, name, (folder) => walk(scan, folder, key, depth));
  } catch (error) {
    scan.signal.throwIfAborted();
    keep(scan, key, whyUnreadable(error));
  }
}

function lookAt(scan: Scan, folder: OpenFolder, name: Buffer, stat: fs.BigIntStats, key: string): Found | 'unread' {
  scan.isFull ||= scan.count >= scan.limits.maxFiles;
  if (scan.isFull) return 'too_many';
  scan.count++;
  if (stat.isDirectory()) return { ...pathOfKey(key), kind: 'folder', mode: Number(stat.mode & 0o7777n) };
  if (stat.isSymbolicLink()) return linkEntry(folder, name, key);
  if (!stat.isFile()) return 'special';
  const size = Number(stat.size);
  if (size > scan.limits.maxFileBytes || scan.bytes + size > scan.limits.maxBytes) return 'too_large';
  scan.bytes += size;
  return unchangedEntry(scan.known, stat, key) ?? 'unread';
}

/** A folder of which something is left out stays among the entries. */
function keep({ state, unread }: Scan, key: string, found: Found): void {
  if (typeof found === 'string') state.leftOut.push(leftOutAt(key, found));
  else if (found) {
    unread.delete(key);
    state.entries.set(key, found);
  }
}

async function readFile(scan: Scan, folder: OpenFolder, name: Buffer, key: string): Promise<Found> {
  try {
    const file = await open(folder.bytePath(name), O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
    try {
      return await readUnchanging(file, key, scan);
    } finally {
      await file.close();
    }
  } catch (error) {
    scan.signal.throwIfAborted();
    return errorCode(error) === 'ENOENT' ? undefined : whyUnreadable(error);
  }
}

/** The scan of `work/`, or of a folder in it. */
export function wayTo(work: string, folder: string | undefined): { top: string; way: FolderOnPath[] } {
  const parts = folder === undefined ? [] : folder.split('/');
  const inner = parts.map((_, n) => ({ path: [work, ...parts.slice(0, n + 1)].join('/') }));
  return { top: dirname(work), way: [{ path: work }, ...inner] };
}

const namesIn = (folder: OpenFolder): Buffer[] =>
  fs.readdirSync(folder.path('.'), { encoding: 'buffer' }).sort(Buffer.compare);

function linkEntry(folder: OpenFolder, name: Buffer, key: string): Found {
  const target = fs.readlinkSync(folder.bytePath(name), { encoding: 'buffer' });
  const { path, path_bytes } = pathOfKey(keyOfBytes(target));
  return {
    ...pathOfKey(key),
    kind: 'link',
    target: path,
    ...(path_bytes !== undefined && { target_bytes: path_bytes }),
  };
}

/** Of a file that is the same as at the last scan, what was read of it then. */
function unchangedEntry(known: KnownWork | undefined, stat: fs.BigIntStats, key: string): FileEntry | undefined {
  const was = known?.state.entries.get(key);
  if (!known || was?.kind !== 'file') return undefined;
  const isSame =
    was.ino === String(stat.ino) &&
    was.size === Number(stat.size) &&
    was.mtime_ns === String(stat.mtimeNs) &&
    was.ctime_ns === String(stat.ctimeNs);
  const isSettled = known.at - Math.max(Number(stat.mtimeMs), Number(stat.ctimeMs)) >= TIMESTAMP_TICK_MS;
  if (!isSame || !isSettled) return undefined;
  const mode = Number(stat.mode & 0o7777n);
  return mode === was.mode ? was : { ...was, mode };
}

async function readUnchanging(file: FileHandle, key: string, { limits, readContent }: ScanOptions): Promise<Found> {
  for (let tries = 0; tries < MAX_TRIES; tries++) {
    const before = await file.stat({ bigint: true });
    if (!before.isFile()) return 'special';
    const size = Number(before.size);
    if (size > limits.maxFileBytes) return 'too_large';
    const sha256 = await readContent(file, size);
    const after = await file.stat({ bigint: true });
    if (after.size !== before.size || after.mtimeNs !== before.mtimeNs || after.ctimeNs !== before.ctimeNs) continue;
    return {
      ...pathOfKey(key),
      kind: 'file',
      mode: Number(after.mode & 0o7777n),
      size,
      mtime_ns: String(after.mtimeNs),
      ctime_ns: String(after.ctimeNs),
      ino: String(after.ino),
      sha256,
    };
  }
  return 'changing';
}

/** Why something that could not be read is left out. What is no fault of it, but of the disk or of us, is thrown. */
function whyUnreadable(error: unknown): LeftOutReason {
  const code = errorCode(error);
  const isOurs = error instanceof DiskError ? !FAULTS_OF_PATHS.has(code) : code === undefined || code === 'EMFILE';
  if (isOurs && !(error instanceof UserError && code === undefined)) throw error;
  return code === 'ENOENT' || code === 'ELOOP' || code === 'ENOTDIR' || code === undefined ? 'changing' : 'unreadable';
}
const FAULTS_OF_PATHS: ReadonlySet<unknown> = new Set(['EACCES', 'EPERM', 'ENOENT', 'ELOOP', 'ENOTDIR']);

/** Whether a path is left out: its name is in the list, or its path. What is below it is not looked at. */
function exclusionOf(rules: readonly string[]): (key: string) => boolean {
  const patterns = rules.map((rule) => ({ isPath: rule.includes('/'), test: patternOf(rule) }));
  return (key) => {
    const name = key.slice(key.lastIndexOf('/') + 1);
    return patterns.some(({ isPath, test }) => test(isPath ? key : name));
  };
}

function patternOf(rule: string): (key: string) => boolean {
  const key = keyOfBytes(Buffer.from(rule.replace(/^\/|\/$/g, '')));
  if (!key.includes('*')) return (other) => other === key;
  const pattern = new RegExp(
    `^${key
      .split(/\*+/)
      .map((part) => part.replace(/[\\^$.*+?()[\]{}|]/g, '\\$&'))
      .join('[^/]*')}$`,
    's',
  );
  return (other) => pattern.test(other);
}
