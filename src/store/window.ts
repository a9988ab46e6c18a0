import * as fs from 'node:fs';
import { type Folder, statIn } from './folder.ts';
import { isIgnored, orderOf, promisesWhole } from './names.ts';
import { isYoungEmpty } from './readiness.ts';

/** Names kept in their order; a folder with more is gone through this many at a time. */
const PAGE = 4000;
/** The newest names of a folder that has more than a page, kept beside it. */
export const NEWEST = 64;
/** A folder of this many files is listed at every look; a larger one in a tenth of the time, and once a second at the most. */
const SMALL = 256;
const PAUSE_MS = 1000;
const SHARE = 10;
/** Names read between two breaths. */
const BREATHE_EVERY = 256;
/** Bits that remember which names were seen. Two names on one bit: the later one is seen with the next page. */
const BITS = 2 ** 23;

export type Candidate = { raw: Buffer; order: bigint };

export const inOrder = (a: Candidate, b: Candidate): number =>
  a.order === b.order ? Buffer.compare(a.raw, b.raw) : a.order < b.order ? -1 : 1;

/**
 * The files of a folder in the order of their times, however many there are: a page of the oldest and the newest few. Going
 * through all of a hundred thousand costs most of a second, so that is done once a page; in between only names are read, to
 * find what came in. Memory and the time between two breaths are bounded.
 */
export function openWindow(elapsed: () => number, now: () => Date) {
  let page: Candidate[] = [];
  let newest: Candidate[] = [];
  let behind = false;
  let skipped = false;
  let after: Candidate | null = null;
  let seen = new Uint8Array();
  let last = { at: 0, ms: 0, count: 0 };

  const isDue = () => last.count <= SMALL || elapsed() - last.at >= Math.min(PAUSE_MS, SHARE * last.ms);

  async function listed(inbox: Folder, each: (raw: Buffer) => void): Promise<void> {
    const began = elapsed();
    let count = 0;
    for await (const some of names(inbox)) {
      count += some.length;
      some.forEach(each);
    }
    last = { at: elapsed(), ms: elapsed() - began, count };
  }

  /** The page after `after`, and the newest names. */
  async function turn(inbox: Folder): Promise<void> {
    const [oldest, youngest] = [firstOf(PAGE, inOrder), firstOf(NEWEST, (a, b) => inOrder(b, a))];
    let [count, early]: [number, Buffer[]] = [0, []];
    skipped = false;
    seen.fill(0);
    await listed(inbox, (raw) => {
      early.push(raw);
      if (++count > PAGE) {
        early.forEach(remember);
        early = [];
      }
      const stat = statIn(inbox, raw);
      if (!stat) return;
      // Among many, an empty file that is not due yet must not take a place of one that is ready.
      if (count > SMALL && !promisesWhole(raw) && isYoungEmpty(stat, now())) skipped = true;
      else {
        const one = { raw, order: orderOf(raw, stat.mtimeNs) };
        youngest.add(one);
        if (!after || inOrder(one, after) > 0) oldest.add(one);
      }
    });
    page = oldest.all();
    behind = oldest.dropped();
    const end = page.at(-1);
    newest = behind && end ? youngest.all().filter((one) => inOrder(one, end) > 0) : [];
  }

  function remember(raw: Buffer): boolean {
    if (seen.length === 0) seen = new Uint8Array(BITS / 8);
    const bit = hashOf(raw) % BITS;
    const mask = 1 << (bit & 7);
    const known = ((seen[bit >> 3] ?? 0) & mask) !== 0;
    seen[bit >> 3] = (seen[bit >> 3] ?? 0) | mask;
    return known;
  }

  /** Names that were not there when the page was made. */
  async function arrivals(inbox: Folder): Promise<void> {
    const found = firstOf(NEWEST, (a, b) => inOrder(b, a));
    const end = page.at(-1);
    await listed(inbox, (raw) => {
      const stat = remember(raw) ? undefined : statIn(inbox, raw);
      if (!stat) return;
      const one = { raw, order: orderOf(raw, stat.mtimeNs) };
      if (end && inOrder(one, end) < 0) page.push(one);
      else found.add(one);
    });
    page.sort(inOrder);
    newest = [...newest, ...found.all()].sort(inOrder).slice(-NEWEST);
  }

  return {
    /** Brings the window up to date; false where it is too early for that. */
    async refresh(inbox: Folder): Promise<boolean> {
      if (page.length === 0 && behind) await turn(inbox);
      else if (!isDue()) return false;
      else if (behind) await arrivals(inbox);
      else await turn(inbox);
      return true;
    },
    /** What comes next, the oldest first. */
    page: (): readonly Candidate[] => page,
    /** The newest of what waits behind, the oldest first. */
    newest: (): readonly Candidate[] => (behind ? newest : page.slice(-NEWEST)),
    /** There is more than the page. */
    behind: () => behind,
    /** There are files that were left out since they cannot be ready yet. */
    skipped: () => skipped,
    leave(gone: ReadonlySet<Candidate>) {
      if (gone.size === 0) return;
      page = page.filter((one) => !gone.has(one));
      newest = newest.filter((one) => !gone.has(one));
    },
    /** Nothing of this page is ready: the next look begins with the one behind it. */
    turn() {
      after = behind ? (page.at(-1) ?? null) : null;
      if (behind) page = [];
    },
  };
}

/** The names of a folder, some at a time. As latin1 every name is read, whatever its bytes. */
async function* names(inbox: Folder): AsyncGenerator<Buffer[]> {
  const folder = fs.opendirSync(inbox.path('.'), { encoding: 'latin1', bufferSize: BREATHE_EVERY });
  try {
    for (;;) {
      const some: Buffer[] = [];
      let left = BREATHE_EVERY;
      for (let entry = folder.readSync(); entry; entry = left-- > 1 ? folder.readSync() : null) {
        some.push(Buffer.from(entry.name, 'latin1'));
      }
      yield some.filter((raw) => !isIgnored(raw));
      if (left > 0) return;
      await new Promise(setImmediate);
    }
  } finally {
    folder.closeSync();
  }
}

/** Keeps the first `max` of all that is added. */
function firstOf(max: number, compare: (a: Candidate, b: Candidate) => number) {
  const kept: Candidate[] = [];
  let dropped = false;
  const trim = () => {
    kept.sort(compare);
    dropped ||= kept.length > max;
    kept.length = Math.min(kept.length, max);
  };
  return {
    add(one: Candidate) {
      kept.push(one);
      if (kept.length >= 2 * max) trim();
    },
    dropped: () => dropped,
    all(): Candidate[] {
      trim();
      return kept.sort(inOrder);
    },
  };
}

/** FNV-1a. */
function hashOf(raw: Buffer): number {
  let hash = 0x811c9dc5;
  for (const byte of raw) hash = Math.imul(hash ^ byte, 0x01000193);
  return hash >>> 0;
}
