import type { Fetched } from './outbound.ts';

const MAX_AGE_MS = 15 * 60_000;
const MAX_BYTES = 32 * 1024 * 1024;

/** Pages by the URL they were asked for; the oldest go where they are too many bytes together. */
export type PageCache = { get(url: string): Fetched | undefined; put(url: string, page: Fetched): void };

export function pageCache(elapsed: () => number): PageCache {
  const pages = new Map<string, { page: Fetched; at: number }>();
  let size = 0;
  const drop = (url: string): void => {
    size -= pages.get(url)?.page.bytes.length ?? 0;
    pages.delete(url);
  };
  return {
    get(url) {
      const kept = pages.get(url);
      if (kept && elapsed() - kept.at > MAX_AGE_MS) drop(url);
      return pages.get(url)?.page;
    },
    put(url, page) {
      drop(url);
      pages.set(url, { page, at: elapsed() });
      size += page.bytes.length;
      for (const [oldest] of pages) {
        if (size <= MAX_BYTES) return;
        drop(oldest);
      }
    },
  };
}
