import { availableParallelism } from 'node:os';
import { defineConfig } from 'vitest/config';
import type { Reporter } from 'vitest/reporters';

/** One plain line at the end, for whoever reads logs with a program. */
const closingLine: Reporter = {
  onTestRunEnd(modules) {
    const states = modules.flatMap((module) => [...module.children.allTests()].map((test) => test.result().state));
    const count = (state: string) => states.filter((one) => one === state).length;
    console.log(`\n${count('passed')} passed, ${count('failed')} failed, ${count('skipped')} skipped`);
  },
};

export default defineConfig({
  test: {
    include: ['tests/**/*.test.ts'],
    testTimeout: 60_000,
    hookTimeout: 30_000,
    // Most tests wait for daemons: one worker on two cores would leave one idle.
    maxWorkers: Math.max(2, availableParallelism() - 1),
    reporters: ['default', closingLine],
  },
});
