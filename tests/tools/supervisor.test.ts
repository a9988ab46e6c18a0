import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import * as fs from 'node:fs';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { bootAndFolderId, callFiles, readExit } from '../../src/tools/process/call-folder.ts';
import { TAIL_BYTES } from '../../src/tools/process/command-output.ts';
import { discardIfNeverStarted, recoverCommand } from '../../src/tools/process/recover-command.ts';
import { SUPERVISOR_SCRIPT } from '../../src/tools/process/supervisor.ts';
import { childProgram } from '../support/child-program.ts';
import { runs, setup } from './tool-setup.ts';

// How a command ends to which no daemon returns: here nobody listens and nobody stops it.

const GIB = String(1024 ** 3);

/** Runs a command to its end under a supervisor that nobody listens to. */
async function alone(command: string, { cpuSeconds = '60', script = SUPERVISOR_SCRIPT } = {}) {
  const { root, work } = setup();
  const folder = join(root, 'call');
  fs.mkdirSync(folder);
  const words = [folder, '/bin/sh', command, 'alone', bootAndFolderId(folder), cpuSeconds];
  const child = spawn('/bin/sh', ['-c', script, 'agentd-call', ...words], {
    cwd: work,
    detached: true,
    stdio: ['ignore', 'ignore', 'ignore', 'ignore'],
  });
  onTestFinished(() => {
    try {
      if (child.pid) process.kill(-child.pid, 'SIGKILL');
    } catch {
      // It has ended, as it should.
    }
  });
  await once(child, 'exit');
  return { work, exit: readExit(folder), files: callFiles(folder) };
}

test('a call whose supervisor has claimed its place may have started, even if it has not identified itself', () => {
  const folder = join(setup().root, 'call');
  fs.mkdirSync(folder);
  fs.writeFileSync(callFiles(folder).boot, bootAndFolderId(folder));
  fs.writeFileSync(callFiles(folder).pid, '');
  expect(discardIfNeverStarted(folder)).toBe(false);
  expect(fs.existsSync(callFiles(folder).pid)).toBe(true);
  fs.rmSync(callFiles(folder).pid);
  expect(discardIfNeverStarted(folder)).toBe(true);
  expect(fs.existsSync(folder)).toBe(false);
});

/** The folder of a command that another machine runs, or ran. */
function ofAnotherMachine() {
  const folder = join(setup().root, 'call');
  fs.mkdirSync(folder);
  const files = callFiles(folder);
  const id = `00000000-1111-4222-8333-444444444444 999:${fs.statSync(folder).ino}`;
  fs.writeFileSync(files.pid, `4711 (sh) S 1 4711 4711 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 12345 1 1\n${id}\n`);
  fs.writeFileSync(files.exit, '');
  return { folder, files };
}

test('a command of another machine is awaited while its heartbeat moves, and its result is taken from the files', async () => {
  const { folder, files } = ofAnotherMachine();
  const beat = setInterval(() => fs.appendFileSync(files.beat, '.'), 300);
  onTestFinished(() => clearInterval(beat));
  const result = recoverCommand(folder, { signal: new AbortController().signal, timeoutMs: 60_000 });
  const early = await Promise.race([result, new Promise((late) => setTimeout(() => late('waits'), 3000))]);
  expect(early).toBe('waits');
  fs.writeFileSync(files.out, 'what it printed\n');
  fs.writeFileSync(files.synced, '');
  fs.writeFileSync(files.exit, '0\nwhole\n');
  expect(await result).toMatchObject({ ending: { how: 'exit', code: 0 }, output: 'what it printed\n' });
});

test('the end of a command of another machine is unknown once its heartbeat stands still, or if it never had one', async () => {
  const limits = { signal: new AbortController().signal, timeoutMs: 60_000 };
  const { folder, files } = ofAnotherMachine();
  fs.writeFileSync(files.beat, '...');
  // Its output may not have reached the disk.
  fs.writeFileSync(files.exit, '0\nwhole\n');
  expect(await recoverCommand(folder, limits)).toBe(null);
  expect(await recoverCommand(ofAnotherMachine().folder, limits)).toBe(null);
});

test('an endless loop is ended by its processor time limit', { timeout: 60_000 }, async () => {
  const { work, exit } = await alone('echo $$ > me; while :; do :; done', { cpuSeconds: '1' });
  expect(exit).toMatchObject({ code: null, whole: true });
  expect(['SIGXCPU', 'SIGKILL']).toContain(exit?.signal);
  expect(runs(Number(fs.readFileSync(join(work, 'me'), 'utf8')))).toBe(false);
});

test('a flood that nobody reads is ended by its closed pipe, and its beginning and end are kept', {
  timeout: 60_000,
}, async () => {
  // At full size, a GiB would have to go through the pipe; only the limit is changed.
  expect(SUPERVISOR_SCRIPT.split(`head -c ${GIB} `)).toHaveLength(2);
  const script = SUPERVISOR_SCRIPT.replace(GIB, '4000000');
  const { work, exit, files } = await alone('echo $$ > me; exec yes', { script });
  expect(exit).toMatchObject({ code: 141 });
  expect(runs(Number(fs.readFileSync(join(work, 'me'), 'utf8')))).toBe(false);
  const head = fs.readFileSync(files.out, 'utf8');
  expect(head === 'y\n'.repeat(head.length / 2)).toBe(true);
  expect(fs.statSync(files.tail).size).toBe(TAIL_BYTES);
});

test('while no file can be opened, a program that cannot be started fails its caller and nothing else', async () => {
  const words = [process.execPath, await childProgram('tests/tools/no-descriptors.child.ts'), setup().root];
  const { stdout, stderr } = spawnSync('sh', ['-c', 'ulimit -n 256; exec "$@"', 'sh', ...words], { encoding: 'utf8' });
  expect(stderr).toBe('');
  expect(JSON.parse(stdout)).toEqual({
    'fork server': 'EMFILE',
    supervisor: 'EMFILE',
    'MCP server': expect.stringContaining('too many files are open'),
    search: 'EMFILE',
    'search without a program': 'Nothing was run: `find` (findutils) is not in PATH.',
    guard: 'done',
    group: 'done',
    again: 'done',
    released: 1,
  });
});
