import { createReadStream } from 'node:fs';
import { readdir, stat } from 'node:fs/promises';
import { basename, extname, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Download } from 'playwright-core';
import { formatBytes } from '../../base/strings.ts';
import { errorText, UserError } from '../../base/user-error.ts';
import { openWorkPaths } from '../files/work-paths.ts';
import { findFreePath, writeWorkFile } from '../files/write-file.ts';

const MAX_DOWNLOAD_BYTES = 256 * 1024 * 1024;
const MAX_AT_ONCE = 5;
const POLL_MS = 100;
const BEGIN_MS = 5000;
/** After this long without data a download is cancelled; Chromium itself would wait to resume it. */
const STALLED_MS = 20_000;
/** File names are at most 255 bytes; this leaves room for multi-byte characters and a number. */
const MAX_STEM_CHARS = 60;

type DownloadProgress = {
  download: Download;
  name: string;
  url: string;
  state: 'runs' | 'whole' | 'over';
  why: string;
  path: string;
};

/** Files sent by pages, from start of download until saved in `work/downloads/`. */
export type Downloads = {
  /** Maximum size of a file. */
  mostBytes: number;
  track(download: Download): void;
  /** Number of downloads in progress or not yet saved. */
  pending(): number;
  /** Waits until no download is in progress, at most `ms`. */
  wait(ms: number, signal: AbortSignal): Promise<void>;
  /** The same for a download that is about to begin: its event arrives a moment later. */
  waitForOne(ms: number, signal: AbortSignal): Promise<void>;
  /** Saves completed downloads; reports the outcome of each, including those still in progress. */
  saveFinished(work: string): Promise<{ texts: string[]; saved: number }>;
};

/**
 * `incoming` is the folder Chromium writes to: every file in it is a download in progress, so sizes are known before
 * completion.
 */
export function trackDownloads(incoming: string, mostBytes: number = MAX_DOWNLOAD_BYTES): Downloads {
  const all = new Set<DownloadProgress>();
  const follow = downloadFollower(incoming, mostBytes);

  async function wait(ms: number, signal: AbortSignal): Promise<void> {
    const runs = () => [...all].some(({ state }) => state === 'runs');
    for (let waited = 0; waited < ms && runs(); waited += POLL_MS) await sleep(POLL_MS, undefined, { signal });
  }

  return {
    mostBytes,
    track(download) {
      const url = download.url().slice(0, 300);
      const one: DownloadProgress = {
        download,
        name: safeFileName(download.suggestedFilename()),
        url,
        state: 'runs',
        why: '',
        path: '',
      };
      const running = [...all].filter(({ state }) => state === 'runs').length;
      all.add(one);
      if (running >= MAX_AT_ONCE) {
        one.why = `${MAX_AT_ONCE} others are in progress`;
        void download.cancel().catch(() => undefined);
      }
      void follow(one);
    },
    pending: () => all.size,
    wait,
    async waitForOne(ms, signal) {
      for (let waited = 0; waited < BEGIN_MS && all.size === 0; waited += POLL_MS) {
        await sleep(POLL_MS, undefined, { signal });
      }
      await wait(ms, signal);
    },
    async saveFinished(work) {
      const texts: string[] = [];
      let saved = 0;
      for (const one of all) {
        if (one.state === 'runs') {
          texts.push(`\`${one.name}\` is being downloaded; \`wait\` goes on waiting for it`);
          continue;
        }
        all.delete(one);
        try {
          if (one.state === 'over') throw new UserError(one.why);
          texts.push(await saveDownload(one, work, mostBytes));
          saved++;
        } catch (error) {
          texts.push(`\`${one.name}\` was not downloaded: ${errorText(error)}`);
        }
        void one.download.delete().catch(() => undefined);
      }
      return { texts, saved };
    },
  };
}

/**
 * Returns a function that follows one download to its end. It cancels a download that grows too large or receives no
 * more data.
 */
function downloadFollower(incoming: string, mostBytes: number): (one: DownloadProgress) => Promise<void> {
  let last = { size: 0, at: 0 };

  async function cancelIfDue(one: DownloadProgress): Promise<void> {
    const size = await folderSize(incoming);
    if (size !== last.size) last = { size, at: performance.now() };
    if (size > mostBytes) one.why = `it is larger than ${formatBytes(mostBytes)}`;
    else if (performance.now() - last.at > STALLED_MS) one.why = `no more data arrived for ${STALLED_MS / 1000} s`;
    else return;
    await one.download.cancel().catch(() => undefined);
  }

  return async (one) => {
    last = { size: -1, at: performance.now() };
    const poll = setInterval(() => void cancelIfDue(one), POLL_MS);
    try {
      one.path = await one.download.path();
      one.state = 'whole';
    } catch (error) {
      one.state = 'over';
      one.why ||= (await one.download.failure().catch(() => null)) ?? errorText(error);
    } finally {
      clearInterval(poll);
    }
  };
}

async function saveDownload(one: DownloadProgress, work: string, mostBytes: number): Promise<string> {
  const { size } = await stat(one.path);
  if (size > mostBytes) throw new UserError(`it is larger than ${formatBytes(mostBytes)}`);
  const paths = await openWorkPaths(work, []);
  const resolved = await findFreePath(paths, 'downloads', one.name);
  await writeWorkFile(resolved, createReadStream(one.path), paths);
  return `downloaded \`${resolved.displayName}\`, ${formatBytes(size)}, from ${one.url}`;
}

async function folderSize(folder: string): Promise<number> {
  const names = await readdir(folder).catch(() => []);
  const sizes = await Promise.all(
    names.map((name) =>
      stat(join(folder, name)).then(
        (found) => found.size,
        () => 0,
      ),
    ),
  );
  return sizes.reduce((sum, size) => sum + size, 0);
}

/** The name a server suggested, made safe: no path, not hidden, no characters special to a shell. */
export function safeFileName(suggested: string): string {
  const plain = basename(suggested.replaceAll('\\', '/'))
    .normalize('NFC')
    .replace(/[^\p{L}\p{N}._ ()-]/gu, '_')
    .replace(/^[.\s_-]+/, '');
  const ending = [...extname(plain)].slice(0, 12).join('');
  const stem = [...plain.slice(0, plain.length - extname(plain).length)].slice(0, MAX_STEM_CHARS).join('').trim();
  return `${stem || 'file'}${ending}`;
}
