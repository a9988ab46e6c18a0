import { basename } from 'node:path';
import { lookAt } from './open-file.ts';
import type { Fence, Place } from './paths.ts';
import { walk } from './walk.ts';

/** Folders with much in them that is seldom meant. */
const LEFT_OUT = new Set(['.git', 'node_modules']);
/** Files given on at a time. */
const BATCH = 200;

/** The real paths of the files in and below a folder, or of the one file, some at a time. Throws once the signal is aborted. */
export async function* filesToSearch(place: Place, fence: Fence, signal: AbortSignal): AsyncGenerator<string[]> {
  const { real } = place;
  if (!lookAt(place, fence).isDirectory()) {
    yield [real];
    return;
  }
  let batch: string[] = [];
  for await (const entry of walk(
    real,
    fence,
    Number.POSITIVE_INFINITY,
    ({ real: folder }) => !LEFT_OUT.has(basename(folder)),
  )) {
    signal.throwIfAborted();
    if (entry.kind === 'file') batch.push(entry.real);
    if (batch.length < BATCH) continue;
    yield batch;
    batch = [];
  }
  if (batch.length > 0) yield batch;
}
