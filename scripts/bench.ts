// `npm run bench`: measures agentd, always next to the simplest program that does the same (the floor) on the same
// machine in the same run. Nothing is asserted. docs/performance.md has the meaning of each figure, and results.
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { checkpoints } from './bench/checkpoints.ts';
import { cluster } from './bench/cluster.ts';
import { detectionTable } from './bench/detection.ts';
import { growth } from './bench/growth.ts';
import { http } from './bench/http.ts';
import { machineLine } from './bench/machine.ts';
import { overhead } from './bench/overhead.ts';
import { recovery } from './bench/recovery.ts';
import { request } from './bench/request.ts';
import type { Setting } from './bench/setting.ts';
import { start } from './bench/start.ts';

const USAGE = `npm run bench -- [overhead | start | growth | recovery | checkpoints | http | cluster | request | detection [corpus]] [options]
  --quick             fewer repetitions and sessions: everything within a minute on a quiet machine
  --all               also what takes very long: 50,000 idle sessions, 100 MB of history
  --profile <folder>  the daemon writes its CPU profiles there, for the browser's developer tools
  --in <folder>       where the workspaces are made (the system's folder for temporary files): the disk under it is measured`;

const CORPUS = 'tests/detection/dev.jsonl';

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    quick: { type: 'boolean', default: false },
    all: { type: 'boolean', default: false },
    profile: { type: 'string' },
    in: { type: 'string', default: tmpdir() },
  },
});
const [only, corpus = CORPUS] = positionals;

const benches: Record<string, (setting: Setting) => Promise<string> | string> = {
  overhead,
  start,
  growth,
  recovery,
  checkpoints,
  http,
  cluster,
  request,
  detection: ({ size }) => detectionTable(corpus, { refits: size !== 'quick' }),
};

if (only !== undefined && !Object.hasOwn(benches, only)) {
  console.error(`There is no bench "${only}".\n${USAGE}`);
  process.exit(2);
}
const scratch = mkdtempSync(join(values.in, 'agentd-bench-'));
const size = values.quick ? 'quick' : values.all ? 'all' : 'usual';
const nodeFlags = values.profile === undefined ? [] : ['--cpu-prof', `--cpu-prof-dir=${resolve(values.profile)}`];
try {
  console.log(machineLine(scratch));
  for (const [name, bench] of Object.entries(benches)) {
    if (only !== undefined && only !== name) continue;
    const folder = join(scratch, name);
    mkdirSync(folder);
    const began = performance.now();
    const report = await bench({ folder, size, nodeFlags });
    console.log(`\n${report}\n(${name} took ${((performance.now() - began) / 1000).toFixed(0)} s)`);
    rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
  }
} catch (error) {
  console.error(error);
  process.exitCode = 1;
} finally {
  rmSync(scratch, { recursive: true, force: true, maxRetries: 5 });
}
// Child processes of a failed bench would keep this process alive.
process.exit();
