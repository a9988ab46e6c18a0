/**
 * Runs many seeds of the simulation in tests/sim on all cores: `npm run test:sim -- 10000`. A seed that breaks a
 * promise is printed; `SEED=17 npx vitest run tests/sim` repeats it and shows its story.
 */
import { spawn } from 'node:child_process';
import { availableParallelism } from 'node:os';

const seeds = Number(process.argv[2] ?? process.env['SEEDS'] ?? 10_000);
if (!Number.isInteger(seeds) || seeds < 1) throw new Error(`Expected a number of seeds, got: ${process.argv[2]}`);
const each = Math.ceil(seeds / availableParallelism());
const began = Date.now();
const firsts = Array.from({ length: Math.ceil(seeds / each) }, (_, n) => 1 + n * each);
const codes = await Promise.all(
  firsts.map((from) => {
    const env = { ...process.env, FROM: String(from), SEEDS: String(Math.min(each, seeds - from + 1)) };
    const words = ['node_modules/vitest/vitest.mjs', 'run', 'tests/sim/simulation.test.ts', 'tests/sim/owners.test.ts'];
    const child = spawn(process.execPath, words, { env, stdio: ['ignore', 'inherit', 'inherit'] });
    return new Promise<number>((resolve) => child.on('exit', (code) => resolve(code ?? 1)));
  }),
);
console.log(`${seeds} seeds in ${Math.round((Date.now() - began) / 1000)} s`);
process.exitCode = codes.some((code) => code !== 0) ? 1 : 0;
