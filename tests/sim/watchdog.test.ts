import { spawnSync } from 'node:child_process';
import { expect, test } from 'vitest';

test('a story that goes in circles is ended, and its seed is reported', () => {
  const child = spawnSync(process.execPath, ['--import', 'tsx', 'tests/sim/circles.child.ts'], { encoding: 'utf8' });
  expect(child.signal).toBe('SIGKILL');
  expect(child.stderr).toContain('SEED=17: this story does not end');
});
