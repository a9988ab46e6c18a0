import { randomFillSync } from 'node:crypto';
import * as fs from 'node:fs';
import type { Clock, Room, World } from '../engine/ports.ts';
import { errorText, isFull } from '../protocol/errors.ts';

const MIB = 2 ** 20;
const LOOK_MS = 1000;
const FIRST_PROBE_MS = 1000;
const LONGEST_PROBE_MS = 30_000;
/** Of the floor: below this nothing further is begun. */
const LAST_PART = 1 / 4;
/** Room must have grown by a quarter before things go on, so that they do not stop again at once. */
const RESUME = 1.25;
/** The reserve is made only where so many times its size stays free above the floor. */
const SPARE_RESERVES = 4;
/** A session takes some 15 inodes and a message 4; of a small file system a twentieth. */
const INODES = 1024;
const INODE_PART = 1 / 20;

export type DiskRules = { floorMb: number; reserveMb: number };

/** What statfs tells, in its own units. */
export type Free = { bavail: number; bsize: number; files: number; ffree: number };

export type Disk = {
  room: () => Room;
  /** Frees the reserve after a write did not fit. True where there was one: the write may be tried again. */
  spend(): boolean;
  /** A write found no room. Nothing new is begun until there is some. */
  hit(error: unknown): void;
  /** Looks and makes the reserve; from then on looks each second and calls `onRoom` when things may go on. */
  start(onRoom: () => void): void;
  told(): { room: Room; free_mb: number; floor_mb: number; reserve: boolean; why: string | null };
  /** Looks no more. The reserve stays for the next daemon. */
  stop(): void;
};

/**
 * How much room there is for a workspace. Below the floor nothing new is taken in; below a quarter of it, or once a write found no
 * room, no further call is begun. It goes on by itself once a quarter more than was wanted is free and the reserve could be made again.
 */
export function openDisk(
  options: { folder: string; reserve: string; rules: () => DiskRules; clock: Clock; log: World['log'] },
  ask: (path: string) => Free = fs.statfsSync,
): Disk {
  const { folder, reserve, rules, clock, log } = options;
  let is: Room = 'plenty';
  let why: string | null = null;
  let full: { why: string; probe: number; pause: number } | null = null;
  let free = Number.NaN;
  let timer: NodeJS.Timeout | null = null;
  let onRoom = () => {};

  /** How many times the floor is free, of bytes or of inodes, whichever is less. 1 where it cannot be asked. */
  function share(): number {
    try {
      const { bavail, bsize, files, ffree } = ask(folder);
      free = bavail * bsize;
      const floor = Math.max(1, rules().floorMb * MIB);
      // Some file systems (btrfs) have no fixed number of inodes and tell none.
      const inodes = files > 0 ? ffree / Math.max(1, Math.min(INODES, files * INODE_PART)) : Number.POSITIVE_INFINITY;
      if (inodes < free / floor) why = `${ffree} inodes are left for new files`;
      else why = `${Math.floor(free / MIB)} MB are free, ${rules().floorMb} MB are wanted`;
      return Math.min(free / floor, inodes);
    } catch (error) {
      why = errorText(error);
      return 1;
    }
  }

  function look(): Room {
    const before = is;
    const left = share();
    const grown = (mark: number, isBelow: boolean) => left >= mark * (isBelow ? RESUME : 1);
    if (full && grown(1, true) && clock.elapsed() >= full.probe && !probed()) {
      full.pause = Math.min(full.pause * 2, LONGEST_PROBE_MS);
      full.probe = clock.elapsed() + full.pause;
    }
    if (full || !grown(LAST_PART, before === 'none')) is = 'none';
    else is = grown(1, before !== 'plenty') ? 'plenty' : 'little';
    if (full) why = full.why;
    if (is === 'plenty') why = null;
    if (is !== before) tell(before);
    return is;
  }

  function tell(before: Room): void {
    if (is === 'plenty') log('info', 'there is room on the disk again; work goes on');
    else if (before === 'plenty' || is === 'none') {
      const kept =
        is === 'little' ? 'nothing new is taken in; messages stay in their inboxes' : 'no further call is begun';
      log('warn', `the disk is full: ${why}; ${kept} until there is room`);
    }
    if (is === 'plenty') setImmediate(() => onRoom());
  }

  /** Whether as much as the reserve can be written, which also tells a quota that statfs does not know of. */
  function probed(): boolean {
    if (!made(Math.max(1, rules().reserveMb))) return false;
    if (rules().reserveMb === 0) gone(reserve);
    full = null;
    return true;
  }

  function made(mb: number): boolean {
    try {
      allocate(reserve, mb);
      return true;
    } catch (error) {
      gone(reserve);
      if (!isFull(error)) log('warn', `no reserve on the disk: ${errorText(error)}`);
      return false;
    }
  }

  /** Makes it where there is room to spare; on a small disk it would only be in the way. */
  function keepReserve(): void {
    const { floorMb, reserveMb } = rules();
    const isThere = (fs.statSync(reserve, { throwIfNoEntry: false })?.size ?? -1) === reserveMb * MIB;
    if (isThere || is !== 'plenty') return;
    if (reserveMb > 0 && free >= (floorMb + SPARE_RESERVES * reserveMb) * MIB) made(reserveMb);
    else gone(reserve);
  }

  function watch(): void {
    look();
    try {
      keepReserve();
    } catch (error) {
      log('warn', `the reserve on the disk: ${errorText(error)}`);
    }
  }

  return {
    room: look,
    spend() {
      return fs.existsSync(reserve) && gone(reserve);
    },
    hit(error) {
      gone(reserve);
      full ??= { why: errorText(error), probe: 0, pause: FIRST_PROBE_MS };
      full.probe = clock.elapsed() + full.pause;
      look();
    },
    start(goOn) {
      onRoom = goOn;
      watch();
      timer = setInterval(watch, LOOK_MS);
      timer.unref();
    },
    told() {
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

/** False where it could not be removed, as on a file system that is read-only now. */
function gone(path: string): boolean {
  try {
    fs.rmSync(path, { force: true });
    return true;
  } catch {
    return false;
  }
}

/** Writes real bytes: holes take no room, and a run of zeros none where the file system compresses. */
function allocate(path: string, mb: number): void {
  const bytes = randomFillSync(Buffer.alloc(MIB));
  gone(path);
  const fd = fs.openSync(path, 'wx', 0o600);
  try {
    for (let left = mb * MIB; left > 0; ) left -= fs.writeSync(fd, bytes, 0, Math.min(left, MIB));
    fs.fdatasyncSync(fd);
  } finally {
    fs.closeSync(fd);
  }
}
