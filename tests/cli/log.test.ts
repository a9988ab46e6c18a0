import { expect, test } from 'vitest';
import { sessionPaths } from '../../src/store/layout/layout.ts';
import { opened, planned, received, record, started } from '../client/rig.ts';
import { bench } from '../support/agentctl-here.ts';

test('a claim whose checks are still to run is not called refused', async () => {
  const at = bench();
  await at.ctl('send', 'demo', 'x');
  const claim = { type: 'step.claimed', step: 'step_1', tier: 'marker', evidence: 'Counted. [Done]' } as const;
  const events = [opened, received('1.md'), started('1.md'), ...planned('plan_1', 'Count'), claim];
  await record(sessionPaths(at.path('.sessions', 'demo')), [...events, { ...claim, veto: 'check_failed' }]);
  const lines = (await at.ctl('log', 'demo')).out.split('\n').filter((line) => line.includes('step.claimed'));
  expect(lines).toEqual([
    expect.stringMatching(/step_1 by marker: Counted\. \[Done\]$/),
    expect.stringMatching(/step_1 by marker, refused \(check_failed\): Counted\. \[Done\]$/),
  ]);
});
