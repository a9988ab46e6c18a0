import { expect, test } from 'vitest';
import fc from '../support/property.ts';
import { atWork, commands } from './commands.ts';
import { type Real, realWorkspace, whyNoDisk } from './real.ts';

/**
 * `npm run test:model -- --runs 200 --seed 7` tells more stories; a failure prints the seed and the path with which its
 * shortest one is told again.
 */
const { MODEL_RUNS = '3', MODEL_SEED = '1', MODEL_PATH, MODEL_REPLAY } = process.env;
const LONGEST = 30;
/** How long a failure may be shortened. */
const SHORTEN_MS = 180_000;

/** What was done in all runs, by its first words. */
function count({ log }: Real, counts: Map<string, number>): void {
  for (const line of log.filter((one) => one.startsWith('-- '))) {
    const what = line.replace(/^-- | (?:into|of|in|\d+) .*/g, '');
    counts.set(what, (counts.get(what) ?? 0) + 1);
  }
}

test('whatever people, signals, clocks and disks do to a real daemon: it settles, and every promise holds', async () => {
  const noDisk = whyNoDisk();
  console.log(
    `model-based: seed ${MODEL_SEED}, ${MODEL_RUNS} runs${noDisk ? `; the disk is never full: ${noDisk}` : ''}`,
  );
  const replay = MODEL_REPLAY === undefined ? {} : { replayPath: MODEL_REPLAY };
  const reported = fc.commands(commands(noDisk === null), { maxCommands: LONGEST, size: 'max', ...replay });
  let last: Real | undefined;
  let failedAt: number | undefined;
  const counts = new Map<string, number>();
  const property = fc.asyncProperty(reported, async (story) => {
    if (failedAt !== undefined && Date.now() - failedAt > SHORTEN_MS) return;
    const real = await realWorkspace(noDisk === null);
    try {
      await fc.asyncModelRun(async () => ({ model: await atWork(real), real }), story);
      count(real, counts);
      const wrong = await real.settle();
      if (wrong.length === 0) return;
      last = real;
      failedAt ??= Date.now();
      throw new Error(wrong.join('\n'));
    } finally {
      await real.close();
    }
  });
  const seen = await fc.check(property, {
    numRuns: Number(MODEL_RUNS),
    seed: Number(MODEL_SEED),
    ...(MODEL_PATH === undefined ? {} : { path: MODEL_PATH, endOnFailure: true }),
  });
  console.log(
    [...counts]
      .sort()
      .map(([what, times]) => `${times} ${what}`)
      .join(', '),
  );
  const again = `npm run test:model -- --seed ${seen.seed} --path ${seen.counterexamplePath} --replay "<replayPath above>"`;
  const report = seen.failed
    ? [fc.defaultReportMessage(seen), String(seen.errorInstance), again, ...(last?.log ?? [])]
    : [];
  expect(report.join('\n')).toBe('');
}, 86_400_000);
