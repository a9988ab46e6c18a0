// `npm run bench`: how long agentd takes, always beside the plainest program that does the same on the same machine in the
// same run. Nothing is asserted. docs/performance.md says what each figure means and what was measured.
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { detectionTable } from './bench/detection.ts';
import { machineLine } from './bench/machine.ts';
import { overhead } from './bench/overhead.ts';
import { pickup } from './bench/pickup.ts';
import { start } from './bench/start.ts';

const USAGE = `npm run bench -- [pickup | overhead | start | detection [corpus]] [options]
  --quick             fewer repetitions and sessions: everything within a minute
  --long              overhead also at 1,000 iterations
  --many              pickup also among 1,000 and 10,000 idle sessions
  --profile <folder>  overhead writes a CPU profile of the daemon there, for the browser's developer tools
  --in <folder>       where the workspaces are made (the system's folder for temporary files): the disk under it is measured`;

const CORPUS = 'tests/detection/dev.jsonl';

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    quick: { type: 'boolean', default: false },
    long: { type: 'boolean', default: false },
    many: { type: 'boolean', default: false },
    profile: { type: 'string' },
    in: { type: 'string', default: tmpdir() },
  },
});
const { quick, long, many } = values;
const [only, corpus = CORPUS] = positionals;

const benches: Record<string, (folder: string) => Promise<string> | string> = {
  pickup: (folder) => pickup(folder, quick ? 40 : 200, many ? [0, 1000, 10_000] : [0]),
  overhead: (folder) =>
    overhead(
      folder,
      [
        { iterations: 50, rounds: quick ? 1 : 4 },
        ...(quick ? [] : [{ iterations: 200, rounds: 2 }]),
        ...(long ? [{ iterations: 1000, rounds: 1 }] : []),
      ],
      values.profile === undefined ? [] : ['--cpu-prof', `--cpu-prof-dir=${resolve(values.profile)}`],
    ),
  start: (folder) => start(folder, quick ? 1 : 5, quick ? [0, 1000] : [0, 1000, 10_000]),
  detection: () => detectionTable(corpus),
};

if (only !== undefined && !Object.hasOwn(benches, only)) {
  console.error(`There is no bench "${only}".\n${USAGE}`);
  process.exit(2);
}
const scratch = mkdtempSync(join(values.in, 'agentd-bench-'));
try {
  console.log(machineLine(scratch));
  for (const [name, bench] of Object.entries(benches)) {
    if (only !== undefined && only !== name) continue;
    const folder = join(scratch, name);
    mkdirSync(folder);
    console.log(`\n${await bench(folder)}`);
  }
} catch (error) {
  console.error(error);
  process.exitCode = 1;
} finally {
  rmSync(scratch, { recursive: true, force: true, maxRetries: 5 });
}
// Children of a bench that failed would keep this process waiting.
process.exit();
