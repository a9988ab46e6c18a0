import * as fs from 'node:fs';
import { attempt, errorCode, isFileLimit } from '../../base/user-error.ts';
import { type OpenFolder, statInFolder } from '../fs/open-folder.ts';
import { inboxOrderOf, isCompleteByName, isIgnoredName } from '../layout/layout.ts';

/** The most files processed before the folder is listed again: the oldest. */
const PAGE_SIZE = 4000;
/** How many of the newest files are always listed in addition. */
const NEWEST_SIZE = 64;
/**
 * A folder with up to this many files is listed each time. Listing a larger one may take a tenth of the time at most,
 * but happens at least once a second.
 */
const SMALL_FOLDER = 256;
const MAX_PAUSE_MS = 1000;
const LISTING_TIME_SHARE = 10;
/** Names read before yielding to the event loop. */
const YIELD_EVERY_NAMES = 256;

/** A name in the inbox and its position in time, in ns. */
export type InboxEntry = { raw: Buffer; order: bigint };

/** Compares by time, then by name. */
const compareEntries = (a: InboxEntry, b: InboxEntry): number =>
  a.order === b.order ? Buffer.compare(a.raw, b.raw) : a.order < b.order ? -1 : 1;

/**
 * The oldest files of a folder in order of time, and the newest few, in bounded memory. If there are more than a page,
 * each file's stat is read only once; later listings only read names.
 */
export function openInboxListing(elapsed: () => number, now: () => Date) {
  let [page, newest]: [InboxEntry[], InboxEntry[]] = [[], []];
  let known = new Map<string, InboxEntry>();
  let [isBehind, hasSkipped] = [false, false];
  let after: InboxEntry | null = null;
  let last = { at: 0, ms: 0, count: 0 };
  const isDue = () =>
    last.count <= SMALL_FOLDER || elapsed() - last.at >= Math.min(MAX_PAUSE_MS, LISTING_TIME_SHARE * last.ms);

  async function list(inbox: OpenFolder): Promise<void> {
    const began = elapsed();
    const found = new Map<string, InboxEntry>();
    const [oldest, youngest] = [
      keepFirst(PAGE_SIZE, compareEntries),
      keepFirst(NEWEST_SIZE, (a, b) => compareEntries(b, a)),
    ];
    let count = 0;
    hasSkipped = false;
    for await (const name of readNames(inbox)) {
      count++;
      const one = known.get(name) ?? look(inbox, name, count);
      if (!one) continue;
      found.set(name, one);
      youngest.add(one);
      if (!after || compareEntries(one, after) > 0) oldest.add(one);
    }
    [page, newest] = [oldest.all(), youngest.all().reverse()];
    isBehind = found.size > page.length;
    known = isBehind ? found : new Map();
    last = { at: elapsed(), ms: elapsed() - began, count };
  }

  function look(inbox: OpenFolder, name: string, count: number): InboxEntry | undefined {
    const raw = Buffer.from(name, 'latin1');
    const stat = isIgnoredName(raw) ? undefined : statInFolder(inbox, raw);
    if (!stat) return undefined;
    // In a full folder, an empty file that is not due yet must not take the place of one that is ready.
    if (count > SMALL_FOLDER && !isCompleteByName(raw) && isRecentlyEmpty(stat, now())) {
      hasSkipped = true;
      return undefined;
    }
    return { raw, order: inboxOrderOf(raw, stat.mtimeNs) };
  }

  return {
    /** Updates the listing; false if it is too early for that. */
    async refresh(inbox: OpenFolder): Promise<boolean> {
      if (!isDue() && !(page.length === 0 && isBehind)) return false;
      await list(inbox);
      // After the last page, start again with the first.
      if (page.length === 0 && after) {
        after = null;
        await list(inbox);
      }
      return true;
    },
    /** The next files, oldest first. */
    page: (): readonly InboxEntry[] => page,
    /** The newest of all files, oldest first. */
    newest: (): readonly InboxEntry[] => newest,
    /** Whether there are more files than the page holds. */
    behind: () => isBehind,
    /** Whether files were left out because they cannot be ready yet. */
    skipped: () => hasSkipped,
    leave(gone: ReadonlySet<InboxEntry>) {
      if (gone.size === 0) return;
      page = page.filter((one) => !gone.has(one));
      newest = newest.filter((one) => !gone.has(one));
    },
    /** Makes the next refresh start after this page, because nothing on it is ready. */
    turn() {
      if (!isBehind) return;
      after = page.at(-1) ?? null;
      page = [];
    },
  };
}

/** The names of a folder, as latin1, so that any byte sequence works. */
async function* readNames(inbox: OpenFolder): AsyncGenerator<string> {
  const folder = fs.opendirSync(inbox.path('.'), { encoding: 'latin1', bufferSize: YIELD_EVERY_NAMES });
  try {
    for (let count = 1, entry = folder.readSync(); entry; count++, entry = folder.readSync()) {
      yield entry.name;
      if (count % YIELD_EVERY_NAMES === 0) await new Promise(setImmediate);
    }
  } finally {
    folder.closeSync();
  }
}

/** Keeps the first `max` entries added, by the given order. */
function keepFirst(max: number, compare: (a: InboxEntry, b: InboxEntry) => number) {
  const kept: InboxEntry[] = [];
  const all = (): InboxEntry[] => {
    kept.sort(compare);
    kept.length = Math.min(kept.length, max);
    return kept;
  };
  return {
    add(one: InboxEntry) {
      kept.push(one);
      if (kept.length >= 2 * max) all();
    },
    all,
  };
}

const QUIET_MS = 2000;
const EMPTY_FINAL_MS = 10_000;
const YIELD_EVERY = 32;
const MAX_TRACKED = 10_000;

/** A file as lstat saw it. */
export type SeenFile = { raw: Buffer; stat: fs.BigIntStats };

/** Which of these files any process has open for writing, by `inodeKey`; undefined if that cannot be determined. */
export type FindWriters = (files: fs.BigIntStats[]) => Promise<ReadonlySet<string> | undefined>;

const inodeKey = (stat: fs.BigIntStats) => `${stat.dev}:${stat.ino}`;

/** Whether the content is the same, judging by the stat. */
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

// Processes may end meanwhile, and the open files of other users' processes cannot be read.
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
  if (isFileLimit(error)) throw error;
  return answer;
}

function inodeKeyAt(path: string): string | undefined {
  return attempt(() => inodeKey(fs.statSync(path, { bigint: true })));
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
function isRecentlyEmpty(stat: fs.BigIntStats, now: Date): boolean {
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
  /** The time of day when `elapsed` was 0, so that later changes of the clock do not make files look older. */
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
