import * as fs from 'node:fs';
import { type OpenFolder, statInFolder } from '../fs/open-folder.ts';
import { inboxOrderOf, isCompleteByName, isIgnoredName } from '../layout/layout.ts';
import { isRecentlyEmpty } from './readiness.ts';

/** Names kept in order; a larger folder is processed in pages of this size. */
const PAGE_SIZE = 4000;
/** How many of the newest names are kept in addition, for folders with more than a page. */
export const NEWEST_SIZE = 64;
/**
 * A folder with up to this many files is listed each time; a larger one takes at most a tenth of the time, and is
 * listed at most once a second.
 */
const SMALL_FOLDER = 256;
const MAX_PAUSE_MS = 1000;
const LISTING_TIME_SHARE = 10;
/** Names read before yielding to the event loop. */
const YIELD_EVERY = 256;
/** Size of the bitmap of seen names. Of two names with the same bit, the later one is seen with the next page. */
const SEEN_BITS = 2 ** 23;

/** A name in the inbox and its position in time, in ns. */
export type InboxEntry = { raw: Buffer; order: bigint };

/** Compares by time, then by name. */
export const compareEntries = (a: InboxEntry, b: InboxEntry): number =>
  a.order === b.order ? Buffer.compare(a.raw, b.raw) : a.order < b.order ? -1 : 1;

/**
 * The files of a folder ordered by time, however many there are: a page of the oldest and the newest few. Listing a
 * hundred thousand files takes most of a second, so that is done once a page; in between only names are read, to find
 * arrivals. Memory and the time between yields are bounded.
 */
export function openInboxListing(elapsed: () => number, now: () => Date) {
  let [page, newest]: [InboxEntry[], InboxEntry[]] = [[], []];
  let hasMorePages = false;
  let hasSkipped = false;
  let after: InboxEntry | null = null;
  const seen = openSeenNames();
  const { isDue, eachName } = paceListings(elapsed);

  /** Reads the page after `after`, and the newest names. */
  async function readPage(inbox: OpenFolder): Promise<void> {
    const [oldest, youngest] = [keepFirst(PAGE_SIZE, compareEntries), keepNewest()];
    let [count, early]: [number, Buffer[]] = [0, []];
    hasSkipped = false;
    seen.clear();
    await eachName(inbox, (raw) => {
      early.push(raw);
      if (++count > PAGE_SIZE) {
        early.forEach(seen.add);
        early = [];
      }
      const stat = statInFolder(inbox, raw);
      if (!stat) return;
      // Among many, an empty file that is not due yet must not take the place of one that is ready.
      if (count > SMALL_FOLDER && !isCompleteByName(raw) && isRecentlyEmpty(stat, now())) {
        hasSkipped = true;
        return;
      }
      const one = { raw, order: inboxOrderOf(raw, stat.mtimeNs) };
      youngest.add(one);
      if (!after || compareEntries(one, after) > 0) oldest.add(one);
    });
    page = oldest.all();
    hasMorePages = oldest.dropped();
    newest = hasMorePages ? entriesAfter(page.at(-1), youngest.all()) : [];
  }

  /** Adds names that appeared since the page was read. */
  async function addArrivals(inbox: OpenFolder): Promise<void> {
    const found = keepNewest();
    const end = page.at(-1);
    await eachName(inbox, (raw) => {
      const stat = seen.add(raw) ? undefined : statInFolder(inbox, raw);
      if (!stat) return;
      const one = { raw, order: inboxOrderOf(raw, stat.mtimeNs) };
      if (end && compareEntries(one, end) < 0) page.push(one);
      else found.add(one);
    });
    page.sort(compareEntries);
    newest = [...newest, ...found.all()].sort(compareEntries).slice(-NEWEST_SIZE);
  }

  return {
    /** Updates the window; false if it is too early for that. */
    async refresh(inbox: OpenFolder): Promise<boolean> {
      if (page.length === 0 && hasMorePages) await readPage(inbox);
      else if (!isDue()) return false;
      else if (hasMorePages) await addArrivals(inbox);
      else await readPage(inbox);
      return true;
    },
    /** The next files, oldest first. */
    page: (): readonly InboxEntry[] => page,
    /** The newest of the files beyond the page, oldest first. */
    newest: (): readonly InboxEntry[] => (hasMorePages ? newest : page.slice(-NEWEST_SIZE)),
    /** There are more files than the page holds. */
    behind: () => hasMorePages,
    /** Some files were left out because they cannot be ready yet. */
    skipped: () => hasSkipped,
    leave(gone: ReadonlySet<InboxEntry>) {
      if (gone.size === 0) return;
      page = page.filter((one) => !gone.has(one));
      newest = newest.filter((one) => !gone.has(one));
    },
    /** Nothing on this page is ready: the next refresh starts after it. */
    turn() {
      after = hasMorePages ? (page.at(-1) ?? null) : null;
      if (hasMorePages) page = [];
    },
  };
}

/** Lists a folder's names, and says when it may be listed again. */
function paceListings(elapsed: () => number) {
  let last = { at: 0, ms: 0, count: 0 };
  return {
    isDue: () =>
      last.count <= SMALL_FOLDER || elapsed() - last.at >= Math.min(MAX_PAUSE_MS, LISTING_TIME_SHARE * last.ms),
    async eachName(inbox: OpenFolder, each: (raw: Buffer) => void): Promise<void> {
      const began = elapsed();
      let count = 0;
      for await (const some of readNames(inbox)) {
        count += some.length;
        some.forEach(each);
      }
      last = { at: elapsed(), ms: elapsed() - began, count };
    },
  };
}

/** Names seen since the last `clear`; `add` returns whether the name was among them. */
function openSeenNames(): { add(raw: Buffer): boolean; clear(): void } {
  let bits = new Uint8Array();
  return {
    add(raw) {
      if (bits.length === 0) bits = new Uint8Array(SEEN_BITS / 8);
      const bit = fnv1a(raw) % SEEN_BITS;
      const mask = 1 << (bit & 7);
      const known = ((bits[bit >> 3] ?? 0) & mask) !== 0;
      bits[bit >> 3] = (bits[bit >> 3] ?? 0) | mask;
      return known;
    },
    clear: () => void bits.fill(0),
  };
}

/** The names of a folder, in batches. Read as latin1, so that any byte sequence works. */
async function* readNames(inbox: OpenFolder): AsyncGenerator<Buffer[]> {
  const folder = fs.opendirSync(inbox.path('.'), { encoding: 'latin1', bufferSize: YIELD_EVERY });
  try {
    for (;;) {
      const some: Buffer[] = [];
      let left = YIELD_EVERY;
      for (let entry = folder.readSync(); entry; entry = left-- > 1 ? folder.readSync() : null) {
        some.push(Buffer.from(entry.name, 'latin1'));
      }
      yield some.filter((raw) => !isIgnoredName(raw));
      if (left > 0) return;
      await new Promise(setImmediate);
    }
  } finally {
    folder.closeSync();
  }
}

/** Keeps the first `max` entries added, by the given order. */
function keepFirst(max: number, compare: (a: InboxEntry, b: InboxEntry) => number) {
  const kept: InboxEntry[] = [];
  let dropped = false;
  const trim = () => {
    kept.sort(compare);
    dropped ||= kept.length > max;
    kept.length = Math.min(kept.length, max);
  };
  return {
    add(one: InboxEntry) {
      kept.push(one);
      if (kept.length >= 2 * max) trim();
    },
    dropped: () => dropped,
    all(): InboxEntry[] {
      trim();
      return kept.sort(compareEntries);
    },
  };
}

const keepNewest = () => keepFirst(NEWEST_SIZE, (a, b) => compareEntries(b, a));

const entriesAfter = (end: InboxEntry | undefined, entries: InboxEntry[]): InboxEntry[] =>
  end ? entries.filter((one) => compareEntries(one, end) > 0) : [];

/** FNV-1a. */
function fnv1a(raw: Buffer): number {
  let hash = 0x811c9dc5;
  for (const byte of raw) hash = Math.imul(hash ^ byte, 0x01000193);
  return hash >>> 0;
}
