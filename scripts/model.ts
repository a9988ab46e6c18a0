/**
 * Runs the model-based tests in tests/model against a real daemon, more of them than `npm test` does:
 *
 *   npm run test:model -- --runs 200 --seed 7
 *   npm run test:model -- --endpoint hostile     whose model answers at random; `jobs`: one that does its work
 *   npm run test:model -- --seed 7 --path 12:3:1 --replay "AAB/F:G"     repeats one failure, as printed
 */
import { spawnSync } from 'node:child_process';
import { parseArgs } from 'node:util';

const { values } = parseArgs({
  options: {
    runs: { type: 'string', default: '200' },
    endpoint: { type: 'string' },
    seed: { type: 'string', default: String(Date.now() % 1_000_000) },
    path: { type: 'string' },
    replay: { type: 'string' },
  },
});
const env = {
  ...process.env,
  MODEL_RUNS: values.runs,
  MODEL_SEED: values.seed,
  ...(values.endpoint !== undefined && { MODEL_ENDPOINT: values.endpoint }),
  ...(values.path !== undefined && { MODEL_PATH: values.path }),
  ...(values.replay !== undefined && { MODEL_REPLAY: values.replay }),
};
const words = ['node_modules/vitest/vitest.mjs', 'run', 'tests/model/model.test.ts', '--disable-console-intercept'];
process.exitCode = spawnSync(process.execPath, words, { env, stdio: 'inherit' }).status ?? 1;
