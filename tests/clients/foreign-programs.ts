import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { delimiter, dirname, join } from 'node:path';
import { onTestFinished, type TestContext, test } from 'vitest';
import { temporaryFolder } from '../support/temporary.ts';

/** A test of `npm run test:clients`. */
export const foreign = test.skipIf(process.env['AGENTD_TEST_CLIENTS'] !== '1');
/** A Python that has the packages, and a folder with `node_modules`. */
export const PYTHON = process.env['AGENTD_TEST_PYTHON'] ?? 'python3';
const NPM = process.env['AGENTD_TEST_NPM'] ?? '';
export const LIMIT_MS = 120_000;

export type Ran = { code: number | null; out: string; err: string };

/** Runs a program to its end, by default in this folder; a program that is not there ends with 127. */
export function run(program: string, words: string[], env: NodeJS.ProcessEnv = {}, cwd?: string): Promise<Ran> {
  return new Promise((done) => {
    const child = spawn(program, words, { cwd, env: { ...process.env, ...env }, stdio: ['ignore', 'pipe', 'pipe'] });
    onTestFinished(() => void child.kill('SIGKILL'));
    let [out, err] = ['', ''];
    child.stdout.setEncoding('utf8').on('data', (text: string) => {
      out += text;
    });
    child.stderr.setEncoding('utf8').on('data', (text: string) => {
      err += text;
    });
    child.once('error', ({ message }) => done({ code: 127, out, err: message }));
    child.once('close', (code) => done({ code, out, err }));
  });
}

/** A test that was skipped is easily taken for one that passed, so it is said aloud. */
export function skip(context: TestContext, why: string): never {
  console.warn(`SKIPPED: ${why} (docs/testing.md)`);
  return context.skip(why);
}

/** Skips without this package of Python; says which version was tried. */
export async function needPython(context: TestContext, name: string, python = PYTHON): Promise<void> {
  const asked = `import importlib.metadata as m; print(m.version(${JSON.stringify(name)}))`;
  const { code, out } = await run(python, ['-c', asked]);
  if (code !== 0) skip(context, `no package ${name} in ${python}: set AGENTD_TEST_PYTHON`);
  console.log(`${name} ${out.trim()}`);
}

/** The path of a file of a package in AGENTD_TEST_NPM, and the Node.js that is installed beside it, or this one. */
export function needNpmFile(context: TestContext, file: string): { path: string; node: string } {
  const path = join(NPM, 'node_modules', file);
  if (NPM === '' || !existsSync(path)) skip(context, `no ${file}: set AGENTD_TEST_NPM`);
  const newer = join(NPM, 'node_modules', 'node', 'bin', 'node');
  return { path, node: existsSync(newer) ? newer : process.execPath };
}

/** The entry file of a package in AGENTD_TEST_NPM, to be run with words. */
export function needNpm(
  context: TestContext,
  file: string,
): (words: string[], own?: NodeJS.ProcessEnv) => Promise<Ran> {
  const { path, node } = needNpmFile(context, file);
  // They keep files of their own at home.
  const home = temporaryFolder('client');
  const env = { PATH: `${dirname(node)}${delimiter}${process.env['PATH']}`, HOME: home };
  return (words, own) => run(node, [path, ...words], { ...env, ...own });
}
