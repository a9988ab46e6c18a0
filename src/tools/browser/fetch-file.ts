import type { Locator, Page } from 'playwright-core';
import { UserError } from '../../protocol/errors.ts';
import { bytesInWords } from '../file-errors.ts';
import { openFence } from '../paths.ts';
import { replaceFile } from '../replace-file.ts';
import { closePage } from './close-page.ts';
import { type Desk, type Done, isDownload } from './desk.ts';
import { safeName } from './downloads.ts';
import { freePlace } from './saved.ts';

const BEGIN_MS = 20_000;
const DOWNLOAD_MS = 120_000;

/** Clicks what is to bring a file, and waits for it. */
export async function clickForFile(found: Locator, { browser, signal, patience }: Desk): Promise<Done> {
  const { downloads } = browser.tabs;
  const { page } = await browser.tabs.current();
  const began = page.waitForEvent('download', { timeout: BEGIN_MS, signal }).catch(() => undefined);
  await found.click({ timeout: patience.elementMs, signal });
  if (!(await began) && downloads.open() === 0) {
    signal.throwIfAborted();
    throw new UserError('No download began. The page after the click:');
  }
  await downloads.wait(DOWNLOAD_MS, signal);
  return { ok: true, says: [], page: 'changes', wantsFile: true };
}

/** Opens a URL beside the current page, with the cookies of this browser, and keeps what comes as a file. */
export async function fetchFile(url: URL, desk: Desk): Promise<Done> {
  const { browser, signal } = desk;
  const back = browser.tabs.at();
  const { page } = await browser.tabs.open();
  try {
    const said = await fetchInto(page, url, desk);
    return { ok: true, says: said, page: 'none', wantsFile: said.length === 0 };
  } finally {
    await browser.tabs.downloads.wait(DOWNLOAD_MS, signal).catch(() => undefined);
    await closePage(page);
    browser.tabs.show(back);
  }
}

async function fetchInto(page: Page, url: URL, { browser, work, signal }: Desk): Promise<string[]> {
  const response = await page
    .goto(url.href, { timeout: BEGIN_MS, waitUntil: 'commit', signal })
    .catch((error: unknown) => {
      if (isDownload(error)) return null;
      throw error;
    });
  if (!response) {
    await browser.tabs.downloads.waitForOne(DOWNLOAD_MS, signal);
    return [];
  }
  if (!response.ok()) throw new UserError(`${url.href} answered ${response.status()} ${response.statusText()}.`);
  const { mostBytes } = browser.tabs.downloads;
  const tooLarge = new UserError(`It is larger than ${bytesInWords(mostBytes)}.`);
  if (Number(response.headers()['content-length']) > mostBytes) throw tooLarge;
  const bytes = await response.body();
  if (bytes.length > mostBytes) throw tooLarge;
  const fence = await openFence(work, []);
  const name = safeName(decoded(url.pathname.split('/').pop() ?? '') || 'page.html');
  const place = await freePlace(fence, 'downloads', name);
  await replaceFile(place, bytes, fence);
  return [`downloaded \`${place.shown}\`, ${bytesInWords(bytes.length)}, from ${url.href}`];
}

function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}
