import { randomFillSync } from 'node:crypto';
import * as fs from 'node:fs';
import { dirname } from 'node:path';
import { errorText, isDiskFull } from '../../base/user-error.ts';
import type { Clock, DiskCapacity, SessionPorts } from '../../engine/ports/session-ports.ts';
import { spareFilesOf, stagingName, takeFromReserve } from '../../store/fs/durable-write.ts';

const MIB = 2 ** 20;
const CHECK_EVERY_MS = 1000;
const PROBE_FIRST_MS = 1000;
const PROBE_MAX_MS = 30_000;
/** A reserve that cannot be created, as when something else is in its place, is not written each second for good. */
const RESERVE_RETRY_MAX_MS = 600_000;
/** Share of the floor below which no further call is started. */
const NONE_BELOW_SHARE = 1 / 4;
/** Free space must grow by a quarter before work resumes, so that it does not stop again at once. */
const RESUME_FACTOR = 1.25;
/** The reserve is created only if this many times its size stays free above the floor. */
const MIN_SPARE_RESERVES = 4;
/** A session takes some 15 inodes and a message 4; on a small file system the floor is a twentieth. */
const MIN_INODES = 1024;
const MIN_INODE_SHARE = 1 / 20;
/** Inodes that are kept for messages that stop a run, and their replies. */
const SPARE_FILES = 32;

/** The free space required and the size of the reserve, in MiB. */
export type DiskThresholds = { floorMb: number; reserveMb: number };

/** The result of statfs, in its own units. */
export type FreeSpace = { bavail: number; bsize: number; files: number; ffree: number };

export type DiskMonitor = {
  capacity: () => DiskCapacity;
  /** Frees this many bytes of the reserve after a write did not fit. True if it had any: retry the write. */
  freeReserve(bytes: number): boolean;
  /**
   * A write found no space. Nothing new is started until there is some. The reserve is kept for the event log alone.
   */
  reportFull(error: unknown): void;
  /** Checks and creates the reserve; then checks each second and calls `onRoom` when work may resume. */
  start(onRoom: () => void): void;
  status(): { space: DiskCapacity; free_mb: number; min_free_mb: number; reserve: boolean; why: string | null };
  /** Stops checking. The reserve stays for the next daemon. */
  stop(): void;
};

/**
 * Monitors free space for a workspace. Below the floor no new message is accepted; below a quarter of it, or once a
 * write found no space, no further call is started. Work resumes by itself once a quarter more than the floor is free
 * and the reserve could be recreated.
 */
export function openDiskMonitor(
  options: { folder: string; reserve: string; rules: () => DiskThresholds; clock: Clock; log: SessionPorts['log'] },
  ask: (path: string) => FreeSpace = fs.statfsSync,
): DiskMonitor {
  const { folder, reserve, rules, clock, log } = options;
  let is: DiskCapacity = 'ok';
  let why: string | null = null;
  let full: { why: string; probe: number; pause: number } | null = null;
  let free = Number.NaN;
  let timer: NodeJS.Timeout | null = null;
  let onRoom = () => {};
  let retry = { at: 0, pause: CHECK_EVERY_MS };
  const warn = createWarnOnce(log);

  /** Free space as a multiple of the floor; 1 if it cannot be read. */
  function share(): number {
    try {
      const measured = measureSpace(ask(folder), rules().floorMb);
      ({ free, why } = measured);
      return measured.share;
    } catch (error) {
      why = errorText(error);
      return 1;
    }
  }

  function measure(): DiskCapacity {
    const before = is;
    const left = share();
    if (full && left >= RESUME_FACTOR && clock.elapsed() >= full.probe) {
      if (probeReserve(reserve, rules().reserveMb, warn)) full = null;
      else {
        full.pause = Math.min(full.pause * 2, PROBE_MAX_MS);
        full.probe = clock.elapsed() + full.pause;
      }
    }
    is = full ? 'full' : capacityAt(left, before);
    if (full) why = full.why;
    if (is === 'ok') why = null;
    if (is !== before) logCapacity(is, before, why, log);
    if (is === 'ok' && before !== 'ok') setImmediate(() => onRoom());
    return is;
  }

  function watch(): void {
    measure();
    if (clock.elapsed() < retry.at) return;
    const isMaintained = maintainReserve(reserve, rules(), { is, free }, warn);
    const pause = isMaintained ? CHECK_EVERY_MS : Math.min(retry.pause * 2, RESERVE_RETRY_MAX_MS);
    retry = { at: isMaintained ? 0 : clock.elapsed() + retry.pause, pause };
  }

  return {
    capacity: measure,
    freeReserve: (bytes) => takeFromReserve(reserve, bytes),
    reportFull(error) {
      full ??= { why: errorText(error), probe: 0, pause: PROBE_FIRST_MS };
      full.probe = clock.elapsed() + full.pause;
      measure();
    },
    start(goOn) {
      onRoom = goOn;
      watch();
      timer = setInterval(watch, CHECK_EVERY_MS);
      timer.unref();
    },
    status() {
      return {
        space: is,
        free_mb: Number.isNaN(free) ? 0 : Math.floor(free / MIB),
        min_free_mb: rules().floorMb,
        reserve: fs.existsSync(reserve),
        why,
      };
    },
    stop() {
      if (timer) clearInterval(timer);
    },
  };
}

/** Free space as a multiple of the floor, of bytes or of inodes, whichever is less. */
function measureSpace({ bavail, bsize, files, ffree }: FreeSpace, floorMb: number) {
  const free = bavail * bsize;
  const floor = Math.max(1, floorMb * MIB);
  // Some file systems (btrfs) have no fixed number of inodes and report none.
  const inodes =
    files > 0 ? ffree / Math.max(1, Math.min(MIN_INODES, files * MIN_INODE_SHARE)) : Number.POSITIVE_INFINITY;
  const why =
    inodes < free / floor
      ? `${ffree} free inodes left`
      : `${Math.floor(free / MIB)} MB free, at least ${floorMb} MB required`;
  return { free, why, share: Math.min(free / floor, inodes) };
}

/** The capacity at a share of the floor; after a shortage, more must be free than before it. */
function capacityAt(share: number, before: DiskCapacity): DiskCapacity {
  const reaches = (mark: number, isShort: boolean) => share >= mark * (isShort ? RESUME_FACTOR : 1);
  if (!reaches(NONE_BELOW_SHARE, before === 'full')) return 'full';
  return reaches(1, before !== 'ok') ? 'ok' : 'low';
}

function logCapacity(is: DiskCapacity, before: DiskCapacity, why: string | null, log: SessionPorts['log']): void {
  if (is === 'ok') log('info', 'there is disk space again; work resumes');
  else if (before === 'ok' || is === 'full') {
    const kept =
      is === 'low' ? 'no new messages are accepted; they stay in their inboxes' : 'no further calls are started';
    log('warn', `the disk is full: ${why}; ${kept} until there is space`);
  }
}

type Warn = (text: string) => void;

/** Logs a fault that persists once; '' once it is over. */
export function createWarnOnce(log: SessionPorts['log']): Warn {
  let last = '';
  return (text) => {
    if (text !== '' && text !== last) log('warn', text);
    last = text;
  };
}

/** Whether as much as the reserve can be written, which also detects a quota that statfs does not show. */
function probeReserve(path: string, mb: number, warn: Warn): boolean {
  if (!createReserve(path, Math.max(1, mb), warn)) return false;
  if (mb === 0) removeIfPossible(path);
  return true;
}

/** Creates it if there is space to spare; on a small disk it would only be in the way. False if that failed. */
function maintainReserve(
  path: string,
  { floorMb, reserveMb }: DiskThresholds,
  { is, free }: { is: DiskCapacity; free: number },
  warn: Warn,
): boolean {
  try {
    if (is === 'ok') keepSpareFiles(spareFilesOf(path), reserveMb > 0 ? SPARE_FILES : 0);
    const isThere = (fs.statSync(path, { throwIfNoEntry: false })?.size ?? -1) === reserveMb * MIB;
    if (isThere || is !== 'ok') return true;
    if (reserveMb > 0 && free >= (floorMb + MIN_SPARE_RESERVES * reserveMb) * MIB)
      return createReserve(path, reserveMb, warn);
    removeIfPossible(path);
    return true;
  } catch (error) {
    warn(`disk reserve: ${errorText(error)}`);
    return false;
  }
}

function keepSpareFiles(folder: string, count: number): void {
  if (count > 0) fs.mkdirSync(folder, { recursive: true, mode: 0o700 });
  const names = count > 0 ? new Set(fs.readdirSync(folder)) : new Set();
  for (let n = 0; n < count; n++) if (!names.has(`${n}`)) fs.writeFileSync(`${folder}/${n}`, '', { mode: 0o600 });
  if (count === 0) fs.rmSync(folder, { recursive: true, force: true });
}

/** Creates or replaces the reserve; false if it could not be written. */
function createReserve(path: string, mb: number, warn: Warn): boolean {
  // Created beside the existing reserve: that must not be lost just to find out that there is still no space.
  const fresh = `${dirname(path)}/${stagingName()}`;
  try {
    allocateFile(fresh, mb);
    fs.renameSync(fresh, path);
    warn('');
    return true;
  } catch (error) {
    removeIfPossible(fresh);
    if (!isDiskFull(error)) warn(`could not create the disk reserve: ${errorText(error).replaceAll(fresh, path)}`);
    return false;
  }
}

/** False if it could not be removed, as on a file system that became read-only. */
function removeIfPossible(path: string): boolean {
  try {
    fs.rmSync(path, { force: true });
    return true;
  } catch {
    return false;
  }
}

/** Writes real bytes: holes take no space, nor do zeros on a compressing file system. */
function allocateFile(path: string, mb: number): void {
  const bytes = randomFillSync(Buffer.alloc(MIB));
  const fd = fs.openSync(path, 'wx', 0o600);
  try {
    for (let left = mb * MIB; left > 0; ) left -= fs.writeSync(fd, bytes, 0, Math.min(left, MIB));
    fs.fdatasyncSync(fd);
  } finally {
    fs.closeSync(fd);
  }
}

/** A file system, and whether this kernel sees every change of it and enforces its locks. */
export type FileSystem = { local: boolean; name: string };

/** The magic numbers of statfs(2) and linux/magic.h; those of macOS are below 64. */
const LOCAL_TYPES: ReadonlyMap<number, string> = new Map([
  [0xef53, 'ext4'],
  [0x58465342, 'xfs'],
  [0x9123683e, 'btrfs'],
  [0x01021994, 'tmpfs'],
  [0x858458f6, 'ramfs'],
  [0xf2f52010, 'f2fs'],
  [0x794c7630, 'overlay'],
  [0x2fc12fc1, 'zfs'],
  [0xca451a4e, 'bcachefs'],
  [0x3153464a, 'jfs'],
  [0x52654973, 'reiserfs'],
  [0x3434, 'nilfs2'],
  [0x4d44, 'vfat'],
  [0x2011bab0, 'exfat'],
  [0x7366746e, 'ntfs3'],
  [17, 'hfs'],
  [26, 'apfs'],
]);

/** Known to be changed from elsewhere; any type not in the list above is treated the same. */
const REMOTE_TYPES: ReadonlyMap<number, string> = new Map([
  [0x6969, 'nfs'],
  [0x517b, 'smb'],
  [0xff534d42, 'cifs'],
  [0xfe534d42, 'smb2'],
  [0x65735546, 'fuse'],
  [0x01021997, '9p'],
  [0x00c36400, 'ceph'],
  [0x0bd00bd0, 'lustre'],
  [0x786f4256, 'vboxsf'],
]);

/** Reads the type of a path's file system; replaceable in tests, since not every machine has one of each. */
export type ReadFsType = (path: string) => number;
export const readFsType: ReadFsType = (path) => fs.statfsSync(path).type;

/** The file system of a path. Throws what statfs throws. */
export function fileSystemAt(path: string, ask: ReadFsType = readFsType): FileSystem {
  // Some platforms return a signed number.
  const type = ask(path) >>> 0;
  const known = LOCAL_TYPES.get(type);
  return known
    ? { local: true, name: known }
    : { local: false, name: REMOTE_TYPES.get(type) ?? `type 0x${type.toString(16)}` };
}
