/**
 * Fuzzes the whole system: a real daemon, ten sessions, an endpoint that answers at random, people who send and edit
 * meanwhile, kills and stops. Then everything settles and every promise is checked; see docs/reliability.md.
 *
 *   npm run test:fuzz -- --seed 7 --seconds 30
 *   npm run test:fuzz -- --seeds 1..100 --parallel 2
 *   npm run test:fuzz -- --seed 7 --kill          or --no-kill; else the seed decides
 *
 * A seed decides what the endpoint answers and what people do, but timing depends on the machine, so a seed repeats the
 * kind of run, not the exact run. KEEP=1 keeps the workspace of passed runs too.
 */
import * as fs from 'node:fs';
import { parseArgs } from 'node:util';
import { type Outcome, runSeed } from './fuzz/run.ts';
import { chanceFor } from './fuzz/words.ts';

const { values } = parseArgs({
  options: {
    seed: { type: 'string' },
    seeds: { type: 'string' },
    seconds: { type: 'string', default: '20' },
    parallel: { type: 'string', default: '1' },
    kill: { type: 'boolean' },
  },
  allowNegative: true,
});
const seeds = seedsOf(values.seeds ?? values.seed ?? String(Date.now() % 100_000));
const [seconds, parallel] = [Number(values.seconds), Number(values.parallel)];
if (!(seconds > 0) || !(parallel >= 1)) throw new Error(`Expected numbers above 0, got: ${JSON.stringify(values)}`);

for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => process.exit(130));

const failed: number[] = [];
const left = [...seeds];
console.log(
  '| seed | kill -9 | kills | stops | messages | requests | children | events | ended | seconds | violations |',
);
console.log('|---|---|---|---|---|---|---|---|---|---|---|');
await Promise.all(Array.from({ length: parallel }, work));
console.log(
  `\n${seeds.length - failed.length} of ${seeds.length} seeds passed${failed.length > 0 ? `; failed: ${failed.join(', ')}` : ''}`,
);
process.exit(failed.length > 0 ? 1 : 0);

async function work(): Promise<void> {
  for (let seed = left.shift(); seed !== undefined; seed = left.shift()) {
    const kills = values.kill ?? chanceFor(seed, 'kills').oneIn(2);
    report(await runSeed({ seed, seconds, kills }));
  }
}

function report({ seed, kills, base, wrong, last, counts, ends, tookMs }: Outcome): void {
  const cells = [counts.kills, counts.stops, counts.messages, counts.requests, counts.children, counts.events];
  const row = [seed, kills ? 'yes' : 'no', ...cells, ends, Math.round(tookMs / 1000), wrong.length];
  console.log(`| ${row.join(' | ')} |`);
  if (wrong.length > 0) {
    failed.push(seed);
    console.log(`\nseed ${seed} failed; its workspace is kept in ${base}\n  ${wrong.slice(0, 30).join('\n  ')}`);
    console.log(`${last.join('\n')}\n`);
  } else if (process.env['KEEP']) console.log(`kept in ${base}`);
  else fs.rmSync(base, { recursive: true, force: true });
}

/** `7` or `1..100`. */
function seedsOf(text: string): number[] {
  const [, from, to = from] = /^(\d+)(?:\.\.(\d+))?$/.exec(text) ?? [];
  if (from === undefined) throw new Error(`Expected a number, or two as in 1..100; got: ${text}`);
  return Array.from({ length: Math.max(0, Number(to) - Number(from) + 1) }, (_, n) => Number(from) + n);
}
