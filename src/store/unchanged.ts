import * as fs from 'node:fs';

/** Times of files stand still for up to 10 ms (a tick at 100 Hz): two changes within one tick may look like one. */
export const TICK_MS = 100;
/** File systems that do not tell of every change (some of those over a network) are asked in full this often. */
const FULL_MS = 5000;

export type Clocks = { now: () => Date; elapsed: () => number };

/** What is remembered of a look at a file or folder, and whether it still holds. */
export type Unchanged = {
  /** Nothing changed there since the look that was kept last: a file's content, or the names in a folder. One call of the system. */
  holds(): boolean;
  /** To be called before a look; what it gives back is called after it, where the look is worth keeping. */
  look(): () => void;
};

/**
 * Knows by inode, size and time of change whether there is anything new at a path, and whether that can be known: not within a
 * tick after a change, and never for longer than five seconds. What is not there has not changed as long as it is not there.
 */
export function openUnchanged(path: string, { now, elapsed }: Clocks): Unchanged {
  let kept: { key: string; at: number } | undefined;
  return {
    holds: () => kept !== undefined && elapsed() - kept.at < FULL_MS && stateOf(path).key === kept.key,
    look() {
      kept = undefined;
      const at = elapsed();
      const { key, changed } = stateOf(path);
      const isSure = now().getTime() - changed >= TICK_MS;
      return () => {
        kept = isSure ? { key, at } : undefined;
      };
    },
  };
}

/** The same text again without reading it, as long as its file did not change. Throws what `read` throws. */
export function rereading<T>(path: string, clocks: Clocks, read: () => T): () => T {
  const unchanged = openUnchanged(path, clocks);
  let last: { value: T } | undefined;
  return () => {
    if (last && unchanged.holds()) return last.value;
    const keep = unchanged.look();
    last = { value: read() };
    keep();
    return last.value;
  };
}

function stateOf(path: string): { key: string; changed: number } {
  const stat = fs.statSync(path, { throwIfNoEntry: false });
  if (!stat) return { key: '', changed: Number.NEGATIVE_INFINITY };
  return { key: `${stat.dev}:${stat.ino}:${stat.size}:${stat.ctimeMs}`, changed: stat.ctimeMs };
}
