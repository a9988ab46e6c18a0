import { expect, test } from 'vitest';
import { openSandbox } from '../../src/tools/index.ts';

const hold = openSandbox({ env: process.env, hidden: [] }).statusFor({
  mode: process.platform === 'darwin' ? 'auto' : 'bwrap',
});

/** Whether commands can be sandboxed here; with AGENTD_TEST_SANDBOX, as in CI, they must be. */
export const hasSandbox = hold.isSandboxed;
export const whyNot = hold.isSandboxed ? '' : hold.why;

if (!hasSandbox && process.env['AGENTD_TEST_SANDBOX'] === 'required') {
  test('a sandbox works here', () => expect(whyNot).toBe(''));
}
