/** Prints each test that failed in the reports of a folder, and the command that runs just that one: `node .ci/summary.mjs FOLDER`. */
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { failuresOf, readReport } from './report.mjs';

const folder = process.argv[2];
for (const name of readdirSync(folder).filter((entry) => entry.endsWith('.json')))
  for (const { file, name: test, error } of failuresOf(readReport(join(folder, name)))) {
    console.log(`FAIL ${file} > ${test}\n     ${error}`);
    const only =
      test === '(file)' ? '' : ` -t '${test.replace(/[.*+?^${}()|[\]\\]/g, '\\$&').replaceAll("'", `'\\''`)}'`;
    console.log(`     npm run build && npx vitest run ${file}${only}`);
  }
