import { spawn } from 'node:child_process';
import * as fs from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { testsFor } from './catalog.ts';
import type { Mutation } from './discover.ts';

const LONGEST_MS = 5 * 60_000;
/** The parts of a checkout that tests read. */
const PARTS = [
  'src',
  'tests',
  'scripts',
  'docs',
  'examples',
  'package.json',
  'vitest.config.ts',
  'tsconfig.json',
  'README.md',
  'CHANGELOG.md',
];

/**
 * `by`: the first test that failed, as text. `wrong`: inconclusive, for example if a test fails without the mutation.
 */
export type Outcome = { is: 'noticed'; by: string; test?: Test } | { is: 'survived' } | { is: 'wrong'; why: string };

/** A copy of the project in which one mutation at a time is tried with the tests of its room. */
export type Bench = {
  /** A mutation counts as noticed if one test fails with it twice and passes without it. */
  try(mutation: Mutation): Promise<Outcome>;
  remove(): void;
};

export function openBench(root: string): Bench {
  const copy = fs.mkdtempSync(join(tmpdir(), 'agentd-mutations-'));
  for (const part of PARTS) fs.cpSync(join(root, part), join(copy, part), { recursive: true });
  fs.symlinkSync(join(root, 'node_modules'), join(copy, 'node_modules'));

  const outcomeOf = async (tests: string[]): Promise<Outcome> =>
    (await run(copy, ['scripts/bundle.mjs'])) === 0 ? tested(copy, tests) : { is: 'wrong', why: 'it does not build' };

  return {
    async try(mutation) {
      const path = join(copy, mutation.file);
      const text = fs.readFileSync(path, 'utf8');
      try {
        fs.writeFileSync(path, mutated(text, mutation));
        let first: Outcome = { is: 'survived' };
        for (const tests of mutation.tests ?? testsFor(mutation.file))
          if (first.is === 'survived') first = await outcomeOf(tests);
        if (first.is !== 'noticed' || !first.test) return first;
        const again = await outcomeOf(only(first.test));
        fs.writeFileSync(path, text);
        const without = await outcomeOf(only(first.test));
        if (again.is === 'noticed' && without.is === 'survived') return first;
        return { is: 'wrong', why: `it is a matter of luck whether this fails: ${first.by}` };
      } finally {
        fs.writeFileSync(path, text);
      }
    },
    remove: () => fs.rmSync(copy, { recursive: true, force: true }),
  };
}

type Test = { file: string; title: string };

/** Arguments that run one test alone. */
const only = ({ file, title }: Test): string[] => [file, '-t', `${title.replace(/[.*+?^${}()|[\]\\]/g, '\\$&')}$`];

function mutated(text: string, { start, length, replacement }: Mutation): string {
  return text.slice(0, start) + replacement + text.slice(start + length);
}

async function tested(copy: string, tests: string[]): Promise<Outcome> {
  const report = join(copy, 'report.json');
  fs.rmSync(report, { force: true });
  const vitest = ['node_modules/vitest/vitest.mjs', 'run', ...tests];
  const code = await run(copy, [...vitest, '--bail=1', '--maxWorkers=1', '--reporter=json', `--outputFile=${report}`]);
  if (code === 'timeout') return { is: 'noticed', by: 'the tests did not end' };
  if (!fs.existsSync(report)) return { is: 'wrong', why: 'the tests left no report' };
  const { testResults } = JSON.parse(fs.readFileSync(report, 'utf8')) as Report;
  for (const { name, status, message, assertionResults } of testResults) {
    const failed = assertionResults.find((one) => one.status === 'failed');
    const file = name.slice(copy.length + 1);
    if (failed) return { is: 'noticed', by: `${file}: ${failed.title}`, test: { file, title: failed.title } };
    if (status === 'failed') return { is: 'wrong', why: `${file} did not load: ${message}` };
  }
  return code === 0 ? { is: 'survived' } : { is: 'wrong', why: 'the tests failed without a failing test' };
}

type Report = {
  testResults: Array<{
    name: string;
    status: string;
    message: string;
    assertionResults: Array<{ status: string; title: string }>;
  }>;
};

/** The exit code; after a time limit the process ends with all that it started: a mutation can make a worker run for ever. */
function run(cwd: string, args: string[]): Promise<number | 'timeout'> {
  return new Promise((resolve, reject) => {
    const child = spawn(process.execPath, args, { cwd, detached: true, stdio: 'ignore' });
    let isLate = false;
    const timer = setTimeout(() => {
      isLate = true;
      if (child.pid !== undefined) process.kill(-child.pid, 'SIGKILL');
    }, LONGEST_MS);
    child.once('error', reject);
    child.once('exit', (code) => {
      clearTimeout(timer);
      resolve(isLate ? 'timeout' : (code ?? 1));
    });
  });
}
