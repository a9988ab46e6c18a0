import * as fs from 'node:fs';
import { errorCode } from '../../base/user-error.ts';

const QUIET_MS = 2000;
const EMPTY_FINAL_MS = 10_000;
const YIELD_EVERY = 32;
const MAX_TRACKED = 10_000;

/** A file as lstat saw it. */
export type SeenFile = { raw: Buffer; stat: fs.BigIntStats };

/** Which of these files any process has open for writing, by `inodeKey`; undefined if that cannot be determined. */
export type FindWriters = (files: fs.BigIntStats[]) => Promise<ReadonlySet<string> | undefined>;

const inodeKey = (stat: fs.BigIntStats) => `${stat.dev}:${stat.ino}`;

/** The same content, as far as the file system shows. */
export const isSameContent = (a: fs.BigIntStats, b: fs.BigIntStats) =>
  a.ino === b.ino && a.size === b.size && a.mtimeNs === b.mtimeNs && a.ctimeNs === b.ctimeNs;

/**
 * Reads /proc once for all files. Exact for processes of this user; there is no other way to observe that a file was
 * closed, since Node's watchers do not report that event, and waiting for a stable size accepts incomplete files.
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

// Processes may end meanwhile, and those of other users are unreadable: we cannot know of files they have open.
function listFolderUnlessScarce(folder: string): string[] {
  try {
    return fs.readdirSync(folder);
  } catch (error) {
    return rethrowIfScarce(error, []);
  }
}

/**
 * If this process is out of file descriptors nothing was determined, and a file being written must not be taken for
 * complete.
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

/** Whether none of the process's files are readable, as with other users' processes without full root rights. */
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

/** An empty file that was created or written to a short while ago. */
export function isRecentlyEmpty(stat: fs.BigIntStats, now: Date): boolean {
  const age = now.getTime() - Number(stat.mtimeMs);
  return stat.isFile() && stat.size === 0n && age >= 0 && age < EMPTY_FINAL_MS;
}

export type Readiness = 'ready' | 'empty' | 'pending';

/**
 * Checks files dropped without a special name. Ready: not empty, and nobody has it open for writing; if that cannot be
 * determined, unchanged for 2 s. Empty: nobody has written to it for 10 s. All files are checked together first, then
 * judged one by one.
 */
export function openReadinessCheck(elapsed: () => number, now: () => Date, ask: FindWriters) {
  const watched = new Map<string, { stat: fs.BigIntStats; since: number }>();
  /** The time of day when `elapsed` was 0: later changes of the clock make no file older. */
  const origin = now().getTime() - elapsed();

  /** How long this file has been unchanged while observed. */
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
