/**
 * `npm run test:all`: everything that takes too long for each change. All steps run, even after a failure; a table at
 * the end shows which failed. Property tests use a new seed each time and print it; `FC_SEED=N npm test` repeats it.
 *
 *   npm run test:all
 *   npm run test:all -- tests crash     only these steps
 */
import { spawnSync } from 'node:child_process';

const seed = process.env['FC_SEED'] ?? String(Date.now() % 1_000_000_000);
const env = { ...process.env, AGENTD_TEST_ALL: '1', AGENTD_TEST_CLIENTS: '1', FC_SEED: seed };
const script = (name: string, ...options: string[]) => ['--import', 'tsx', `scripts/${name}.ts`, ...options];

const STEPS: Record<string, string[]> = {
  tests: ['node_modules/vitest/vitest.mjs', 'run'],
  model: script('model', '--endpoint', 'jobs', '--runs', '200'),
  crash: script('crash', '--all'),
  modes: script('modes', '--all'),
  hostile: script('model', '--endpoint', 'hostile', '--runs', '60'),
  bench: script('bench', '--quick'),
  shots: script('shots', '--check'),
  power: script('power', '--all'),
};

const named = process.argv.slice(2);
const unknown = named.filter((name) => !(name in STEPS));
if (unknown.length > 0) {
  console.error(`There is no step ${unknown.join(', ')}. Steps: ${Object.keys(STEPS).join(', ')}`);
  process.exit(2);
}
console.log(`FC_SEED=${seed}`);
const results = Object.entries(STEPS)
  .filter(([name]) => named.length === 0 || named.includes(name))
  .map(([name, words]) => {
    const began = performance.now();
    const passed = spawnSync(process.execPath, words, { stdio: 'inherit', env }).status === 0;
    return {
      step: name,
      result: passed ? 'passed' : 'FAILED',
      seconds: Math.round((performance.now() - began) / 1000),
    };
  });
console.table(results);
console.log(`FC_SEED=${seed}`);
process.exitCode = results.every(({ result }) => result === 'passed') ? 0 : 1;
