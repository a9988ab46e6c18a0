import * as fs from 'node:fs';
import { readFile } from 'node:fs/promises';
import { createPacer } from '../../base/async.ts';
import { parseJson } from '../../base/json.ts';
import { Manifest } from '../../protocol/session/checkpoint.ts';
import { syncFolder } from '../fs/durable-write.ts';
import { listNames, statIfExists, TIMESTAMP_TICK_MS } from '../fs/file-reads.ts';
import type { SessionPaths } from '../layout/layout.ts';
import { sweepContents } from './contents.ts';
import { listCheckpoints, SLICE_MS } from './manifest-file.ts';

/**
 * What is kept: `needed` are never removed, checkpoints of the open plan last. `before` (ms): contents that are newer
 * stay, because somebody may be saving.
 */
export type KeepRule = {
  keep: number;
  maxBytes: number;
  needed: readonly number[];
  plan: string | null;
  before?: number;
};

/** Of so many as may be kept, this part is left, so that not every checkpoint removes one. */
const PART_LEFT = 0.8;

/** `steps`: empty if it was taken between two step ends. `contents`: the hashes it names, or null if unreadable. */
type Kept = { number: number; isStepEnd: boolean; plan: string | null; contents: ReadonlySet<string> };

/**
 * Removes the checkpoints that are too many or too large: first the oldest between step ends, then the oldest of other
 * plans, at last those of the open plan; then contents that no manifest names. Returns the bytes that are left. A
 * manifest that cannot be read keeps what it names.
 */
export async function pruneCheckpoints(paths: SessionPaths, rule: KeepRule, signal: AbortSignal): Promise<number> {
  const pace = createPacer(SLICE_MS, signal);
  const kept: Kept[] = [];
  for (const number of listCheckpoints(paths)) {
    await pace();
    kept.push(await readKept(paths, number));
  }
  const sizes = new Map<string, number>();
  const sizeOf = (sha256: string): number => {
    const known = sizes.get(sha256) ?? statIfExists(`${paths.checkpointContents}/${sha256}`)?.size ?? 0;
    sizes.set(sha256, known);
    return known;
  };
  const uses = new Map<string, number>();
  for (const { contents } of kept) for (const sha256 of contents) uses.set(sha256, (uses.get(sha256) ?? 0) + 1);
  let bytes = 0;
  for (const sha256 of uses.keys()) {
    bytes += sizeOf(sha256);
    await pace();
  }
  const most = kept.length > rule.keep ? Math.max(1, Math.floor(rule.keep * PART_LEFT)) : rule.keep;
  let count = kept.length;
  for (const one of inOrderOfRemoval(kept, rule)) {
    if (count <= most && bytes <= rule.maxBytes) break;
    fs.rmSync(paths.checkpoint(one.number), { force: true });
    count--;
    for (const sha256 of one.contents) {
      const left = (uses.get(sha256) ?? 1) - 1;
      uses.set(sha256, left);
      if (left === 0) bytes -= sizeOf(sha256);
    }
  }
  // A manifest must not outlive its contents.
  await syncFolder(paths.checkpoints);
  return sweepContents(paths, (sha256) => (uses.get(sha256) ?? 0) > 0, rule.before ?? Number.POSITIVE_INFINITY, pace);
}

function inOrderOfRemoval(kept: readonly Kept[], { needed, plan }: KeepRule): Kept[] {
  const rank = (one: Kept): number => (plan !== null && one.plan === plan ? 2 : one.isStepEnd ? 1 : 0);
  return kept
    .filter(({ number }) => number !== kept.at(-1)?.number && !needed.includes(number))
    .sort((one, other) => rank(one) - rank(other) || one.number - other.number);
}

const Facts = Manifest.pick({ steps: true, plan: true });

async function readKept(paths: SessionPaths, number: number): Promise<Kept> {
  const text = await readFile(paths.checkpoint(number), 'utf8').catch(() => '');
  const contents = new Set(Array.from(text.matchAll(/"sha256": ?"([0-9a-f]{64})"/g), ([, hash = '']) => hash));
  // What comes before the entries is enough; parsing all of it would keep other sessions waiting.
  const facts = Facts.safeParse(parseJson(`${text.slice(0, text.indexOf(',\n "entries": ['))}}`)).data;
  return { number, isStepEnd: facts ? facts.steps.length > 0 : true, plan: facts?.plan ?? null, contents };
}

/** How many checkpoints a session keeps, and the bytes that they take. */
export function measureCheckpoints(paths: SessionPaths): { count: number; bytes: number } {
  const files = [paths.checkpoints, paths.checkpointContents].flatMap((folder) =>
    listNames(folder).map((name) => `${folder}/${name}`),
  );
  const bytes = files.reduce((sum, path) => {
    const stat = statIfExists(path);
    return sum + (stat?.isFile() ? stat.size : 0);
  }, 0);
  return { count: listCheckpoints(paths).length, bytes };
}

/**
 * Cuts the checkpoints of a session that nobody has open to its share, if those of the whole workspace are larger than
 * `maxBytes`. Returns whether any were removed.
 */
export async function trimToShare(
  paths: SessionPaths,
  all: readonly SessionPaths[],
  maxBytes: number,
): Promise<boolean> {
  const sizes: number[] = [];
  for (const one of all) {
    const { bytes } = measureCheckpoints(one);
    if (bytes > 0) sizes.push(bytes);
    await new Promise(setImmediate);
  }
  const total = sizes.reduce((sum, bytes) => sum + bytes, 0);
  const share = maxBytes / Math.max(1, sizes.length);
  const before = measureCheckpoints(paths);
  if (total <= maxBytes || before.bytes <= share) return false;
  const newer = Date.now() - TIMESTAMP_TICK_MS;
  const rule = { keep: Number.POSITIVE_INFINITY, maxBytes: share, needed: [], plan: null, before: newer };
  await pruneCheckpoints(paths, rule, new AbortController().signal);
  return measureCheckpoints(paths).count < before.count;
}
