import * as fs from 'node:fs';
import { readFile } from 'node:fs/promises';
import { createPacer } from '../../base/async.ts';
import { Manifest } from '../../protocol/session/checkpoint.ts';
import { removeStaging, syncFolder } from '../fs/durable-write.ts';
import { statIfExists } from '../fs/file-reads.ts';
import type { SessionPaths } from '../layout/layout.ts';
import { parseJson } from '../settings/schema-errors.ts';
import { sweepContents } from './contents.ts';
import { listCheckpoints, SLICE_MS } from './manifest-file.ts';

/** What is kept: `needed` are never removed, checkpoints of the open plan last. */
export type KeepRule = { keep: number; maxBytes: number; needed: readonly number[]; plan: string | null };

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
  removeStaging(paths.checkpoints);
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
  return sweepContents(paths, (sha256) => (uses.get(sha256) ?? 0) > 0, pace);
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
  const json = parseJson(text);
  const facts = Facts.safeParse(json.ok ? json.value : undefined).data;
  return { number, isStepEnd: facts ? facts.steps.length > 0 : true, plan: facts?.plan ?? null, contents };
}
