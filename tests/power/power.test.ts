import { spawn } from 'node:child_process';
import { once } from 'node:events';
import * as fs from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { hasStrace } from '../../scripts/crash/trace.ts';

// The complete run is `npm run test:power -- --all`; here are some points of it, and a few disks at each.
const POWER = new URL('../../scripts/power.ts', import.meta.url).pathname;
const BOUNDS = ['--every', '32', '--samples', '2', '--most', '6', '--jobs', '2'];
const LONG_MS = 240_000;

/** The story is told once for all tests. */
let folder: string;
beforeAll(() => {
  folder = fs.mkdtempSync(join(fs.existsSync('/dev/shm') ? '/dev/shm' : tmpdir(), 'agentd-power-'));
});
afterAll(() => fs.rmSync(folder, { recursive: true, force: true }));

async function power(...words: string[]): Promise<{ code: unknown; said: string }> {
  const child = spawn(process.execPath, ['--import', 'tsx', POWER, ...BOUNDS, '--told', folder, ...words], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  let said = '';
  child.stdout.on('data', (data: Buffer) => {
    said += data.toString();
  });
  const [code] = await once(child, 'close');
  return { code, said };
}

test.skipIf(!hasStrace())(
  'whatever a power cut takes of what was not synced, every promise holds',
  { timeout: LONG_MS },
  async () => {
    const { code, said } = await power('--only', 'changes lost');
    expect(said).toMatch(/\| changes lost, in any order \| \d+ \| \d+ \| \d\d+ \| 0 \|/);
    expect(code).toBe(0);
  },
);

test.skipIf(!hasStrace()).each(['the record', 'the names on the way'])(
  'without the syncs of %s promises break, and the harness sees it',
  { timeout: LONG_MS },
  async (what) => {
    const { code, said } = await power('--enough', '1', '--only', `without syncs of ${what}`);
    expect(said, said).toMatch(
      /was safe and has no reply|has changed or is gone|ran 2 times|not there any more|is lost with the whole session/,
    );
    expect(code).toBe(0);
  },
);
