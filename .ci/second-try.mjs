/**
 * Runs test files that failed once more, each alone: `node .ci/second-try.mjs REPORT`. What passes then is printed as
 * `LUCK file > test: first line of its error` and counts as passed: a defect to repair next, but no reason to reject a change.
 * No second try for more than five files, or for rooms without processes and sockets, where nothing depends on luck.
 */
import { spawnSync } from 'node:child_process';
import { rmSync } from 'node:fs';
import { failuresOf, readReport } from './report.mjs';

const MOST_FILES = 5;
const DETERMINISTIC = /^tests\/(core|engine|modes|protocol|templates)\//;

const path = process.argv[2];
const report = readReport(path);
if (report === null) fail('the run ended before it wrote its report');
const failures = failuresOf(report);
const files = [...new Set(failures.map(({ file }) => file))];
if (files.length === 0) fail('the run failed, but none of its tests did');
if (files.length > MOST_FILES) fail(`${files.length} files failed, more than ${MOST_FILES}`);
const certain = files.filter((file) => DETERMINISTIC.test(file));
if (certain.length > 0) fail(`${certain.join(', ')} cannot fail by bad luck`);

rmSync(path);
const again = files.filter((file, index) => !passes(file, path.replace(/\.json$/, `-again-${index}.json`)));
for (const { file, name, error } of failures)
  if (!again.includes(file)) console.log(`LUCK ${file} > ${name}: ${error}`);
if (again.length > 0) process.exit(1);
console.log(`\n${report.numTotalTests - report.numPendingTests} passed, 0 failed, ${report.numPendingTests} skipped`);

function passes(file, reportPath) {
  console.log(`\nSecond try of ${file}:`);
  const words = ['vitest', 'run', file, '--maxWorkers=1'];
  const env = { ...process.env, AGENTD_TEST_REPORT: reportPath };
  return spawnSync('npx', words, { stdio: 'inherit', env }).status === 0;
}

function fail(why) {
  console.log(`No second try: ${why}.`);
  process.exit(1);
}
