import * as fs from 'node:fs';
import { type OpenFolder, statInFolder } from '../fs/open-folder.ts';
import { inboxOrderOf, isCompleteByName, isIgnoredName } from '../layout/layout.ts';
import { isRecentlyEmpty } from './readiness.ts';

/** The most files processed before the folder is listed again: the oldest. */
const PAGE_SIZE = 4000;
/** How many of the newest files are known too, however many there are. */
const NEWEST_SIZE = 64;
/**
 * A folder with up to this many files is listed each time; a larger one takes at most a tenth of the time, and is
 * listed at least once a second.
 */
const SMALL_FOLDER = 256;
const MAX_PAUSE_MS = 1000;
const LISTING_TIME_SHARE = 10;
/** Names read before yielding to the event loop. */
const YIELD_EVERY = 256;

/** A name in the inbox and its position in time, in ns. */
export type InboxEntry = { raw: Buffer; order: bigint };

/** Compares by time, then by name. */
const compareEntries = (a: InboxEntry, b: InboxEntry): number =>
  a.order === b.order ? Buffer.compare(a.raw, b.raw) : a.order < b.order ? -1 : 1;

/**
 * The files of a folder ordered by time, however many there are: the oldest, and the newest few. A file is looked at
 * once while there are more than a page; later listings only read names.
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
    // Among many, an empty file that is not due yet must not take the place of one that is ready.
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
      // Behind the last page the first one follows.
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
    /** There are more files than the page holds. */
    behind: () => isBehind,
    /** Some files were left out because they cannot be ready yet. */
    skipped: () => hasSkipped,
    leave(gone: ReadonlySet<InboxEntry>) {
      if (gone.size === 0) return;
      page = page.filter((one) => !gone.has(one));
      newest = newest.filter((one) => !gone.has(one));
    },
    /** Nothing on this page is ready: the next refresh starts after it. */
    turn() {
      if (!isBehind) return;
      after = page.at(-1) ?? null;
      page = [];
    },
  };
}

/** The names of a folder, as latin1, so that any byte sequence works. */
async function* readNames(inbox: OpenFolder): AsyncGenerator<string> {
  const folder = fs.opendirSync(inbox.path('.'), { encoding: 'latin1', bufferSize: YIELD_EVERY });
  try {
    for (let count = 1, entry = folder.readSync(); entry; count++, entry = folder.readSync()) {
      yield entry.name;
      if (count % YIELD_EVERY === 0) await new Promise(setImmediate);
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
