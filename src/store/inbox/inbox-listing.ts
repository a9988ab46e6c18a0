import * as fs from 'node:fs';
import { type OpenFolder, statInFolder } from '../fs/open-folder.ts';
import { inboxOrderOf, isCompleteByName, isIgnoredName } from '../layout/file-names.ts';
import { isRecentlyEmpty } from './readiness.ts';

/** Names kept in their order; a folder with more is gone through this many at a time. */
const PAGE_SIZE = 4000;
/** The newest names of a folder that has more than a page, kept beside it. */
export const NEWEST_SIZE = 64;
/**
 * A folder of this many files is listed at every look; a larger one in a tenth of the time, and once a second at the
 * most.
 */
const SMALL_FOLDER = 256;
const MAX_PAUSE_MS = 1000;
const LISTING_TIME_SHARE = 10;
/** Names read between two breaths. */
const YIELD_EVERY = 256;
/** Bits that remember which names were seen. Two names on one bit: the later one is seen with the next page. */
const SEEN_BITS = 2 ** 23;

export type InboxEntry = { raw: Buffer; order: bigint };

export const compareEntries = (a: InboxEntry, b: InboxEntry): number =>
  a.order === b.order ? Buffer.compare(a.raw, b.raw) : a.order < b.order ? -1 : 1;

/**
 * The files of a folder in the order of their times, however many there are: a page of the oldest and the newest few.
 * Going through all of a hundred thousand costs most of a second, so that is done once a page; in between only names
 * are read, to find what came in. Memory and the time between two breaths are bounded.
 */
export function openInboxListing(elapsed: () => number, now: () => Date) {
  let page: InboxEntry[] = [];
  let newest: InboxEntry[] = [];
  let hasMorePages = false;
  let hasSkipped = false;
  let after: InboxEntry | null = null;
  let seen = new Uint8Array();
  let last = { at: 0, ms: 0, count: 0 };

  const isDue = () =>
    last.count <= SMALL_FOLDER || elapsed() - last.at >= Math.min(MAX_PAUSE_MS, LISTING_TIME_SHARE * last.ms);

  async function eachName(inbox: OpenFolder, each: (raw: Buffer) => void): Promise<void> {
    const began = elapsed();
    let count = 0;
    for await (const some of readNames(inbox)) {
      count += some.length;
      some.forEach(each);
    }
    last = { at: elapsed(), ms: elapsed() - began, count };
  }

  /** The page after `after`, and the newest names. */
  async function readPage(inbox: OpenFolder): Promise<void> {
    const [oldest, youngest] = [
      keepFirst(PAGE_SIZE, compareEntries),
      keepFirst(NEWEST_SIZE, (a, b) => compareEntries(b, a)),
    ];
    let [count, early]: [number, Buffer[]] = [0, []];
    hasSkipped = false;
    seen.fill(0);
    await eachName(inbox, (raw) => {
      early.push(raw);
      if (++count > PAGE_SIZE) {
        early.forEach(markSeen);
        early = [];
      }
      const stat = statInFolder(inbox, raw);
      if (!stat) return;
      // Among many, an empty file that is not due yet must not take a place of one that is ready.
      if (count > SMALL_FOLDER && !isCompleteByName(raw) && isRecentlyEmpty(stat, now())) hasSkipped = true;
      else {
        const one = { raw, order: inboxOrderOf(raw, stat.mtimeNs) };
        youngest.add(one);
        if (!after || compareEntries(one, after) > 0) oldest.add(one);
      }
    });
    page = oldest.all();
    hasMorePages = oldest.dropped();
    const end = page.at(-1);
    newest = hasMorePages && end ? youngest.all().filter((one) => compareEntries(one, end) > 0) : [];
  }

  function markSeen(raw: Buffer): boolean {
    if (seen.length === 0) seen = new Uint8Array(SEEN_BITS / 8);
    const bit = fnv1a(raw) % SEEN_BITS;
    const mask = 1 << (bit & 7);
    const known = ((seen[bit >> 3] ?? 0) & mask) !== 0;
    seen[bit >> 3] = (seen[bit >> 3] ?? 0) | mask;
    return known;
  }

  /** Names that were not there when the page was made. */
  async function addArrivals(inbox: OpenFolder): Promise<void> {
    const found = keepFirst(NEWEST_SIZE, (a, b) => compareEntries(b, a));
    const end = page.at(-1);
    await eachName(inbox, (raw) => {
      const stat = markSeen(raw) ? undefined : statInFolder(inbox, raw);
      if (!stat) return;
      const one = { raw, order: inboxOrderOf(raw, stat.mtimeNs) };
      if (end && compareEntries(one, end) < 0) page.push(one);
      else found.add(one);
    });
    page.sort(compareEntries);
    newest = [...newest, ...found.all()].sort(compareEntries).slice(-NEWEST_SIZE);
  }

  return {
    /** Brings the window up to date; false where it is too early for that. */
    async refresh(inbox: OpenFolder): Promise<boolean> {
      if (page.length === 0 && hasMorePages) await readPage(inbox);
      else if (!isDue()) return false;
      else if (hasMorePages) await addArrivals(inbox);
      else await readPage(inbox);
      return true;
    },
    /** What comes next, the oldest first. */
    page: (): readonly InboxEntry[] => page,
    /** The newest of what waits behind, the oldest first. */
    newest: (): readonly InboxEntry[] => (hasMorePages ? newest : page.slice(-NEWEST_SIZE)),
    /** There is more than the page. */
    behind: () => hasMorePages,
    /** There are files that were left out since they cannot be ready yet. */
    skipped: () => hasSkipped,
    leave(gone: ReadonlySet<InboxEntry>) {
      if (gone.size === 0) return;
      page = page.filter((one) => !gone.has(one));
      newest = newest.filter((one) => !gone.has(one));
    },
    /** Nothing of this page is ready: the next look begins with the one behind it. */
    turn() {
      after = hasMorePages ? (page.at(-1) ?? null) : null;
      if (hasMorePages) page = [];
    },
  };
}

/** The names of a folder, some at a time. As latin1 every name is read, whatever its bytes. */
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

/** Keeps the first `max` of all that is added. */
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

/** FNV-1a. */
function fnv1a(raw: Buffer): number {
  let hash = 0x811c9dc5;
  for (const byte of raw) hash = Math.imul(hash ^ byte, 0x01000193);
  return hash >>> 0;
}
