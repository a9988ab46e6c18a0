import { defineConfig } from 'vitest/config';
import type { Reporter } from 'vitest/reporters';
import { LongestFirst } from './tests/support/longest-first.ts';
import { isolated, shared } from './tests/support/projects.ts';
import { endStuckWorkers } from './tests/support/stuck-workers.ts';

/** One plain line at the end, for whoever reads logs with a program. */
const closingLine: Reporter = {
  onTestRunEnd(modules) {
    const states = modules.flatMap((module) => [...module.children.allTests()].map((test) => test.result().state));
    const count = (state: string) => states.filter((one) => one === state).length;
    console.log(`\n${count('passed')} passed, ${count('failed')} failed, ${count('skipped')} skipped`);
  },
};

const report = process.env['AGENTD_TEST_REPORT'];

// Nothing of who runs the tests decides what they see. The certificates are a third of what an empty program costs to
// start, and no test speaks to anybody outside.
for (const name of ['NODE_EXTRA_CA_CERTS', 'EDITOR', 'VISUAL', 'NO_COLOR', 'FORCE_COLOR', 'LC_ALL', 'LANGUAGE', 'TZ']) {
  delete process.env[name];
}
Object.assign(process.env, { TERM: 'xterm-256color', LANG: 'C.UTF-8' });

export default defineConfig({
  test: {
    testTimeout: 60_000,
    hookTimeout: 30_000,
    setupFiles: 'tests/support/bounded-children.ts',
    // Most tests wait for daemons: with as many workers as cores, both cores are idle half the time.
    // Two quiet cores took 297 s with six workers and 321 s with four.
    maxWorkers: 6,
    pool: 'forks',
    sequence: { sequencer: LongestFirst },
    reporters: [
      'default',
      closingLine,
      endStuckWorkers(),
      ...(report ? [['json', { outputFile: report }] satisfies [string, object]] : []),
    ],
    projects: [
      { extends: true, test: { name: 'shared', ...shared, isolate: false } },
      { extends: true, test: { name: 'isolated', ...isolated } },
    ],
  },
});
