import { createHash } from 'node:crypto';
import type { Locator, Page } from 'playwright-core';
import { z } from 'zod';
import { type ImageFile, MAX_IMAGE_BYTES } from '../../protocol/images.ts';
import { bytesInWords } from '../file-errors.ts';
import { openFence } from '../paths.ts';
import { replaceFile } from '../replace-file.ts';
import { freePlace } from './saved.ts';

const PICTURE_MS = 20_000;
/** Chromium paints no larger ones, and they would take gigabytes. */
const TALLEST = 16_384;

type What = { work: string; signal: AbortSignal; found: Locator | undefined; whole: boolean };

export type Picture = { says: string; images: ImageFile[] };

/**
 * Takes a picture of what is in view, of the whole page or of one element, into `work/screenshots/`; says where it lies. A model that
 * sees is shown it.
 */
export async function picture(page: Page, { work, signal, found, whole }: What): Promise<Picture> {
  const how = { type: 'png', timeout: PICTURE_MS, signal, animations: 'disabled' } as const;
  const height = whole ? z.number().parse(await page.evaluate('document.documentElement.scrollHeight')) : 0;
  const width = page.viewportSize()?.width ?? 1280;
  const clipped = height > TALLEST ? { clip: { x: 0, y: 0, width, height: TALLEST } } : {};
  const png = await (found ? found.screenshot(how) : page.screenshot({ ...how, fullPage: whole, ...clipped }));
  const fence = await openFence(work, []);
  const place = await freePlace(fence, 'screenshots', 'page.png');
  await replaceFile(place, png, fence);
  const size = `${png.readUInt32BE(16)} x ${png.readUInt32BE(20)} pixels`;
  const cut = height > TALLEST ? `; the page is taller, these are its first ${TALLEST}` : '';
  const sha256 = createHash('sha256').update(png).digest('hex');
  const image = { path: place.shown, type: 'image/png' as const, bytes: png.length, sha256 };
  return {
    says: `saved \`${place.shown}\`, ${size}, ${bytesInWords(png.length)}${cut}`,
    images: png.length <= MAX_IMAGE_BYTES ? [image] : [],
  };
}
