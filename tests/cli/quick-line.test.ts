import { execFileSync } from 'node:child_process';
import { resolve } from 'node:path';
import { expect, test } from 'vitest';
import { readQuickLine } from '../../src/frontends/cli/quick-line.ts';
import { desk } from '../support/agentctl.ts';

test('a plain command line and one that yargs reads do and say the same', async () => {
  const { ctl } = desk();
  await ctl(['send', 'demo', 'hello']);
  const lines = [
    ['status', '--json'],
    ['list'],
    ['show', 'demo'],
    ['show', 'nobody'],
    ['show', '1e3'],
    ['send', 'demo', 'two', 'words'],
    ['send', 'demo', '007', '--json'],
  ];
  for (const line of lines) {
    // What follows is no flag: that is for yargs to know.
    const [quick, read] = [await ctl(line), await ctl([...line, '--'])];
    expect(readQuickLine(line), line.join(' ')).toBeDefined();
    expect(readQuickLine([...line, '--'])).toBeUndefined();
    expect(alike(quick), line.join(' ')).toEqual(alike(read));
  }
});

/** Each message has an id of its own, and raises the number of those that wait. */
const alike = ({ code, out, err }: { code: number | null; out: string; err: string }) => ({
  code,
  said: (out + err).replace(/[0-9A-HJKMNP-TV-Z]{26}/g, 'ID').replace(/\d+ not taken/, 'N not taken'),
});

test('a command line with anything that wants to be read is left to yargs', () => {
  expect(readQuickLine(['send', 'demo', 'hi', '--wait', '--workspace', '/w'])).toEqual({
    words: ['send', 'demo', 'hi'],
    json: undefined,
    wait: true,
    workspace: '/w',
  });
  const others = [
    ['send', 'demo', '-'],
    ['send', 'demo', '"quoted"'],
    ['send', 'demo', 'hi', '--after'],
    ['send', ' ', 'hi'],
    ['--json', 'show', 'demo'],
    ['status', '--json', 'false'],
    ['status', '--json', '--json'],
    ['status', '--json=true'],
    ['status', '--workspace'],
    ['status', '--workspace', '--json'],
    ['status', '--workspace', '/a', '--workspace', '/b'],
  ];
  for (const line of others) expect(readQuickLine(line), line.join(' ')).toBeUndefined();
});

test('the commands people type most load no yargs, and sending loads nothing of the meaning of a record', async () => {
  const { ctl, root } = desk();
  await ctl(['send', 'demo', 'hello']);
  for (const line of [['list'], ['show', 'demo'], ['send', 'demo', 'hello']]) {
    expect(loadedBy(root, line).filter((path) => path.includes('/yargs/'))).toEqual([]);
  }
  const sending = loadedBy(root, ['send', 'demo', 'hello']);
  expect(sending.some((path) => path.endsWith('client/send.js'))).toBe(true);
  expect(sending.filter((path) => path.endsWith('/core/fold.js'))).toEqual([]);
});

/** The modules the built agentctl loads for a command line. */
function loadedBy(root: string, line: string[]): string[] {
  const told =
    "export const load = (url, context, next) => { process._rawDebug('LOADS', url); return next(url, context); };";
  const hook = `import { register } from 'node:module'; register("data:text/javascript,${encodeURIComponent(told)}");`;
  const preload = `data:text/javascript,${encodeURIComponent(hook)}`;
  const args = ['--import', preload, resolve('dist/agentctl.js'), '--workspace', root, ...line];
  const script = '"$0" "$@" 2>&1 1>/dev/null';
  const said = execFileSync('sh', ['-c', script, process.execPath, ...args], { encoding: 'utf8' });
  return said.split('\n').flatMap((text) => (text.startsWith('LOADS ') ? [text.slice(6)] : []));
}
