import { test } from 'vitest';
import { testJobs } from './jobs-stories.ts';
import { isHeldHere, whyNot } from './sandbox.ts';

if (isHeldHere) testJobs('auto');
else test.skip(`jobs in the sandbox: ${whyNot}`, () => {});
