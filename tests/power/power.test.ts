import { spawn } from 'node:child_process';
import { once } from 'node:events';
import * as fs from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { beforeAll, expect, test } from 'vitest';
import { hasStrace } from '../../scripts/crash/trace.ts';
import { everything } from '../support/all.ts';
import { childProgram } from '../support/child-program.ts';

// The complete run is `npm run test:power -- --all`; here are some points of it, and a few disks at each. `.ci/run` has a
// stage for them beside its other samples.
const isAsked = everything || process.env['AGENTD_TEST_POWER'] === '1';
if (!isAsked) console.log('SKIPPED: power cuts of a whole daemon; AGENTD_TEST_POWER=1 runs them');
const BOUNDS = ['--every', '60', '--samples', '2', '--most', '4', '--jobs', '2', '--enough', '1'];
const UNSYNCED = ['the event log', 'the names on the path'];
const ROWS = ['changes lost', ...UNSYNCED.map((what) => `without syncs of ${what}`)];
const canRun = isAsked && hasStrace();
const LONG_MS = 240_000;

/** The scenario is run once, and all rows are tried by one run, for all tests. */
let [code, output]: [unknown, string] = [undefined, ''];
beforeAll(async () => {
  if (!canRun) return;
  const folder = fs.mkdtempSync(join(fs.existsSync('/dev/shm') ? '/dev/shm' : tmpdir(), 'agentd-power-'));
  const words = [...BOUNDS, '--recording', folder, ...ROWS.flatMap((row) => ['--only', row])];
  const power = await childProgram('scripts/power.ts');
  const child = spawn(process.execPath, [power, ...words], { stdio: ['ignore', 'pipe', 'inherit'] });
  child.stdout.on('data', (data: Buffer) => {
    output += data.toString();
  });
  [code] = await once(child, 'close');
  fs.rmSync(folder, { recursive: true, force: true });
}, LONG_MS);

test.skipIf(!canRun)('whatever a power cut takes of what was not synced, every promise holds', () => {
  expect(output).toMatch(/\| changes lost, in any order \| \d+ \| \d+ \| \d\d+ \| 0 \|/);
  expect(code, output).toBe(0);
});

test.skipIf(!canRun).each(UNSYNCED)('without the syncs of %s promises break, and the harness sees it', (what) => {
  const found = output.split('\n').filter((line) => line.startsWith(`without syncs of ${what}`));
  expect(found.join('\n'), output).toMatch(
    /was safe and has no reply|has changed or is gone|ran 2 times|the event log is (?:missing|gone)|is lost with the whole session/,
  );
});
