import { test } from 'vitest';
import { testJobs } from './jobs-stories.ts';
import { hasSandbox, whyNot } from './sandbox.ts';

if (hasSandbox) testJobs('auto');
else test.skip(`jobs in the sandbox: ${whyNot}`, () => {});
