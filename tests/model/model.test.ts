import { expect, test } from 'vitest';
import fc from '../support/property.ts';
import { atWork, commands, hostileCommands } from './commands.ts';
import { type Real, realWorkspace, whyNoDisk } from './real.ts';

/**
 * `npm run test:model -- --runs 200 --seed 7` tells more stories; a failure prints the seed and the path with which its
 * shortest one is told again. `--endpoint hostile`: with a model that answers at random, in any mode, and fails.
 */
const { MODEL_RUNS = '3', MODEL_SEED = '1', MODEL_PATH, MODEL_REPLAY, MODEL_ENDPOINT = 'jobs' } = process.env;
const LONGEST = { jobs: 30, hostile: 60 };
/** How long a failure may be shortened. */
const SHORTEN_MS = 180_000;

/** What was done in all runs, by its first words. */
function count({ log }: Real, counts: Map<string, number>): void {
  for (const line of log.filter((one) => one.startsWith('-- '))) {
    const what = line.replace(/^-- | (?:into|of|in|\d+) .*/g, '');
    counts.set(what, (counts.get(what) ?? 0) + 1);
  }
}

test.each([MODEL_ENDPOINT])(
  'whatever people, signals, clocks and disks do to a real daemon with an endpoint for %s: it settles, and every promise holds',
  async (endpoint) => {
    const [isHostile, runs] = [endpoint === 'hostile', MODEL_RUNS];
    const noDisk = isHostile ? 'its endpoint is enough' : whyNoDisk();
    console.log(`model-based: seed ${MODEL_SEED}, ${runs} runs${noDisk ? `; the disk is never full: ${noDisk}` : ''}`);
    const replay = MODEL_REPLAY === undefined ? {} : { replayPath: MODEL_REPLAY };
    const reported = fc.commands(isHostile ? hostileCommands() : commands(noDisk === null), {
      maxCommands: isHostile ? LONGEST.hostile : LONGEST.jobs,
      size: 'max',
      ...replay,
    });
    let last: Real | undefined;
    let failedAt: number | undefined;
    const counts = new Map<string, number>();
    const property = fc.asyncProperty(reported, fc.nat(), async (story, seed) => {
      if (failedAt !== undefined && Date.now() - failedAt > SHORTEN_MS) return;
      const real = await realWorkspace(noDisk === null, isHostile ? seed : null);
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
      numRuns: Number(runs),
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
  },
  86_400_000,
);
