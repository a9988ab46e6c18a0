import { spawnSync } from 'node:child_process';
import { expect, test } from 'vitest';
import { childProgram } from '../support/child-program.ts';

test('a story that goes in circles is ended, and its seed is reported', async () => {
  const child = spawnSync(process.execPath, [await childProgram('tests/sim/circles.child.ts')], { encoding: 'utf8' });
  expect(child.signal).toBe('SIGKILL');
  expect(child.stderr).toContain('SEED=17: this story does not end');
});
