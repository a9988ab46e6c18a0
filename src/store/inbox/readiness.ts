import * as fs from 'node:fs';
import { errorCode } from '../../base/user-error.ts';

const QUIET_MS = 2000;
const EMPTY_FINAL_MS = 10_000;
const YIELD_EVERY = 32;
const MAX_TRACKED = 10_000;

/** A file as lstat saw it. */
export type SeenFile = { raw: Buffer; stat: fs.BigIntStats };

/** Which of these files some process holds open for writing, by `inodeKey`; undefined where that cannot be asked. */
export type FindWriters = (files: fs.BigIntStats[]) => Promise<ReadonlySet<string> | undefined>;

const inodeKey = (stat: fs.BigIntStats) => `${stat.dev}:${stat.ino}`;

/** The same content, so far as the file system tells. */
export const isSameContent = (a: fs.BigIntStats, b: fs.BigIntStats) =>
  a.ino === b.ino && a.size === b.size && a.mtimeNs === b.mtimeNs && a.ctimeNs === b.ctimeNs;

/**
 * Asks /proc, once for all files together. Exact for processes of this user; closing a file cannot be observed
 * otherwise, since Node's watchers do not carry that event, and waiting for a stable size takes half a file for a whole
 * one.
 */
export const findWritersInProc: FindWriters = async (files) => {
  if (!fs.existsSync('/proc/self/fd')) return undefined;
  const wanted = new Set(files.map(inodeKey));
  const found = new Set<string>();
  for (const [index, pid] of fs.readdirSync('/proc').filter(isNumber).entries()) {
    if (index % YIELD_EVERY === YIELD_EVERY - 1) await new Promise(setImmediate);
    for (const fd of listFolderUnlessScarce(`/proc/${pid}/fd`)) {
      const path = `/proc/${pid}/fd/${fd}`;
      const key = inodeKeyAt(path);
      if (key === undefined && isUnreadableProcess(path)) break;
      if (key && wanted.has(key) && isOpenForWriting(`/proc/${pid}/fdinfo/${fd}`)) found.add(key);
    }
  }
  return found;
};

const isNumber = (name: string) => /^\d+$/.test(name);

// Processes end while we look, and those of other users do not answer: both hold nothing that we could know of.
function listFolderUnlessScarce(folder: string): string[] {
  try {
    return fs.readdirSync(folder);
  } catch (error) {
    return rethrowIfScarce(error, []);
  }
}

/**
 * Where this process may open no more files nothing was answered, and a file that is being written must not be taken
 * for whole.
 */
function rethrowIfScarce<T>(error: unknown, answer: T): T {
  if (['EMFILE', 'ENFILE'].includes(errorCode(error) ?? '')) throw error;
  return answer;
}

function inodeKeyAt(path: string): string | undefined {
  try {
    return inodeKey(fs.statSync(path, { bigint: true }));
  } catch {
    return undefined;
  }
}

/** Whether the process keeps all its files to itself, as those of others do where root has not every right. */
function isUnreadableProcess(path: string): boolean {
  try {
    fs.readlinkSync(path);
    return false;
  } catch (error) {
    return errorCode(error) === 'EACCES';
  }
}

function isOpenForWriting(fdinfo: string): boolean {
  try {
    const flags = /^flags:\s*([0-7]+)/m.exec(fs.readFileSync(fdinfo, 'latin1'))?.[1] ?? '0';
    return (Number.parseInt(flags, 8) & 3) !== fs.constants.O_RDONLY;
  } catch (error) {
    return rethrowIfScarce(error, false);
  }
}

/** An empty file that was made or written to a short while ago. */
export function isRecentlyEmpty(stat: fs.BigIntStats, now: Date): boolean {
  const age = now.getTime() - Number(stat.mtimeMs);
  return stat.isFile() && stat.size === 0n && age >= 0 && age < EMPTY_FINAL_MS;
}

export type Readiness = 'ready' | 'empty' | 'pending';

/**
 * Judges files of the plain way. Ready: not empty, and nobody holds it open for writing; where that cannot be asked,
 * unchanged for 2 s. Empty: nobody has written to it for 10 s. One question serves all files; then each is judged.
 */
export function openReadinessCheck(elapsed: () => number, now: () => Date, ask: FindWriters) {
  const watched = new Map<string, { stat: fs.BigIntStats; since: number }>();
  /** The time of day when `elapsed` was 0: a clock that is set later makes no file old. */
  const origin = now().getTime() - elapsed();

  /** How long we have seen this file unchanged. */
  const quietFor = (stat: fs.BigIntStats): number => {
    const key = inodeKey(stat);
    const before = watched.get(key);
    if (before && isSameContent(before.stat, stat)) return elapsed() - before.since;
    watched.delete(key);
    watched.set(key, { stat, since: elapsed() });
    const [oldest] = watched.keys();
    if (watched.size > MAX_TRACKED && oldest) watched.delete(oldest);
    return 0;
  };

  return async (files: fs.BigIntStats[]): Promise<(stat: fs.BigIntStats) => Readiness> => {
    const ours = files.filter((stat) => stat.uid === BigInt(process.geteuid?.() ?? -1));
    const writers = ours.length > 0 ? await ask(ours) : undefined;
    const asked = new Set(writers && ours.map(inodeKey));
    return (stat) => {
      const quiet = quietFor(stat);
      if (writers?.has(inodeKey(stat))) return 'pending';
      if (stat.size === 0n) {
        const age = origin + elapsed() - Number(stat.mtimeMs);
        return age >= EMPTY_FINAL_MS || quiet >= EMPTY_FINAL_MS ? 'empty' : 'pending';
      }
      return asked.has(inodeKey(stat)) || quiet >= QUIET_MS ? 'ready' : 'pending';
    };
  };
}
