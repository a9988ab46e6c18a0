import { randomFillSync } from 'node:crypto';
import * as fs from 'node:fs';
import { dirname } from 'node:path';
import { errorText, isDiskFull } from '../../base/user-error.ts';
import type { Clock, DiskCapacity, SessionPorts } from '../../engine/ports/session-ports.ts';
import { stagingName, takeFromReserve } from '../../store/fs/durable-write.ts';

const MIB = 2 ** 20;
const CHECK_EVERY_MS = 1000;
const PROBE_FIRST_MS = 1000;
const PROBE_MAX_MS = 30_000;
/** Share of the floor below which no further call is started. */
const NONE_BELOW_SHARE = 1 / 4;
/** Free space must grow by a quarter before work resumes, so that it does not stop again at once. */
const RESUME_FACTOR = 1.25;
/** The reserve is created only if this many times its size stays free above the floor. */
const MIN_SPARE_RESERVES = 4;
/** A session takes some 15 inodes and a message 4; on a small file system the floor is a twentieth. */
const MIN_INODES = 1024;
const MIN_INODE_SHARE = 1 / 20;

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
  status(): { room: DiskCapacity; free_mb: number; floor_mb: number; reserve: boolean; why: string | null };
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
  let is: DiskCapacity = 'plenty';
  let why: string | null = null;
  let full: { why: string; probe: number; pause: number } | null = null;
  let free = Number.NaN;
  let timer: NodeJS.Timeout | null = null;
  let onRoom = () => {};

  /** Free space as a multiple of the floor, of bytes or of inodes, whichever is less. 1 if it cannot be read. */
  function share(): number {
    try {
      const { bavail, bsize, files, ffree } = ask(folder);
      free = bavail * bsize;
      const floor = Math.max(1, rules().floorMb * MIB);
      // Some file systems (btrfs) have no fixed number of inodes and report none.
      const inodes =
        files > 0 ? ffree / Math.max(1, Math.min(MIN_INODES, files * MIN_INODE_SHARE)) : Number.POSITIVE_INFINITY;
      if (inodes < free / floor) why = `${ffree} free inodes left`;
      else why = `${Math.floor(free / MIB)} MB free, at least ${rules().floorMb} MB required`;
      return Math.min(free / floor, inodes);
    } catch (error) {
      why = errorText(error);
      return 1;
    }
  }

  function look(): DiskCapacity {
    const before = is;
    const left = share();
    const grown = (mark: number, isBelow: boolean) => left >= mark * (isBelow ? RESUME_FACTOR : 1);
    if (full && grown(1, true) && clock.elapsed() >= full.probe && !probeReserve()) {
      full.pause = Math.min(full.pause * 2, PROBE_MAX_MS);
      full.probe = clock.elapsed() + full.pause;
    }
    if (full || !grown(NONE_BELOW_SHARE, before === 'none')) is = 'none';
    else is = grown(1, before !== 'plenty') ? 'plenty' : 'little';
    if (full) why = full.why;
    if (is === 'plenty') why = null;
    if (is !== before) logChange(before);
    return is;
  }

  function logChange(before: DiskCapacity): void {
    if (is === 'plenty') log('info', 'there is disk space again; work resumes');
    else if (before === 'plenty' || is === 'none') {
      const kept =
        is === 'little' ? 'no new messages are accepted; they stay in their inboxes' : 'no further calls are started';
      log('warn', `the disk is full: ${why}; ${kept} until there is space`);
    }
    if (is === 'plenty') setImmediate(() => onRoom());
  }

  /** Whether as much as the reserve can be written, which also detects a quota that statfs does not show. */
  function probeReserve(): boolean {
    if (!makeReserve(Math.max(1, rules().reserveMb))) return false;
    if (rules().reserveMb === 0) removeIfPossible(reserve);
    full = null;
    return true;
  }

  function makeReserve(mb: number): boolean {
    // Created beside the existing reserve: that must not be lost just to find out that there is still no space.
    const fresh = `${dirname(reserve)}/${stagingName()}`;
    try {
      allocateFile(fresh, mb);
      fs.renameSync(fresh, reserve);
      return true;
    } catch (error) {
      removeIfPossible(fresh);
      if (!isDiskFull(error)) log('warn', `could not create the disk reserve: ${errorText(error)}`);
      return false;
    }
  }

  /** Creates it if there is space to spare; on a small disk it would only be in the way. */
  function keepReserve(): void {
    const { floorMb, reserveMb } = rules();
    const isThere = (fs.statSync(reserve, { throwIfNoEntry: false })?.size ?? -1) === reserveMb * MIB;
    if (isThere || is !== 'plenty') return;
    if (reserveMb > 0 && free >= (floorMb + MIN_SPARE_RESERVES * reserveMb) * MIB) makeReserve(reserveMb);
    else removeIfPossible(reserve);
  }

  function watch(): void {
    look();
    try {
      keepReserve();
    } catch (error) {
      log('warn', `disk reserve: ${errorText(error)}`);
    }
  }

  return {
    capacity: look,
    freeReserve: (bytes) => takeFromReserve(reserve, bytes),
    reportFull(error) {
      full ??= { why: errorText(error), probe: 0, pause: PROBE_FIRST_MS };
      full.probe = clock.elapsed() + full.pause;
      look();
    },
    start(goOn) {
      onRoom = goOn;
      watch();
      timer = setInterval(watch, CHECK_EVERY_MS);
      timer.unref();
    },
    status() {
      return {
        room: is,
        free_mb: Number.isNaN(free) ? 0 : Math.floor(free / MIB),
        floor_mb: rules().floorMb,
        reserve: fs.existsSync(reserve),
        why,
      };
    },
    stop() {
      if (timer) clearInterval(timer);
    },
  };
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
