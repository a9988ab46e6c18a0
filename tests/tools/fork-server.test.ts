import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Writable } from 'node:stream';
import { expect, onTestFinished, test } from 'vitest';
import { currentBootId } from '../../src/store/fs/process-identity.ts';
import { bootAndFolderId, callFiles, readSupervisorIdentity } from '../../src/tools/process/call-folder.ts';
import { forkSupervisor as begun, canUseForkServer, FORK_SERVER_SCRIPT } from '../../src/tools/process/fork-server.ts';
import { eventually, runs, setup } from './tool-setup.ts';

const BASH = '/bin/bash';
const testForkServer = test.runIf(existsSync(BASH) && canUseForkServer(BASH));

/** The fork server of a command, which leads its process session. */
const MINE = 'cut -d" " -f6 /proc/$$/stat';
const forkServerIn = (text: string): number => Number(/^exit 0\n(\d+)\n/.exec(text)?.[1]);
const kill = (pid: number): void => {
  if (!(pid > 1)) throw new Error('A signal to that would end the tests.');
  process.kill(pid, 'SIGKILL');
};

type Use = ReturnType<typeof setup>['use'];
const forkServerOf = async (use: Use): Promise<number> => forkServerIn((await use('shell', { command: MINE })).text);
/** The current fork servers; each idle one is used in turn. */
async function serving(use: Use): Promise<number[]> {
  const found: number[] = [];
  for (let n = 0; n < 9; n++) found.push(await forkServerOf(use));
  return found;
}
/** Ends idle fork servers, including those of earlier test files in this process; the next command gets a new one. */
async function endIdle(use: Use): Promise<void> {
  const idle = new Set(await serving(use));
  for (const pid of idle) kill(pid);
  await eventually(() => ![...idle].some(runs));
}

testForkServer('sequential commands share one fork server, concurrent ones use two', async () => {
  const { use, work } = setup();
  await endIdle(use);
  const first = await forkServerOf(use);
  expect(await forkServerOf(use)).toBe(first);
  const waits = use('shell', { command: `${MINE}; echo begun > begun; while [ ! -e go ]; do sleep 0.02; done` });
  await eventually(() => existsSync(join(work, 'begun')));
  const second = await forkServerOf(use);
  writeFileSync(join(work, 'go'), '');
  expect(forkServerIn((await waits).text)).toBe(first);
  expect(second).not.toBe(first);
});

testForkServer(
  'a fork server that is killed while its command runs costs no result, and the next command has another',
  async () => {
    const { use, work } = setup();
    const call = use('shell', {
      command: `echo one; ${MINE} > server; while [ ! -e go ]; do sleep 0.02; done; sleep 300 > /dev/null 2>&1 & echo two; exit 3`,
    });
    const file = join(work, 'server');
    await eventually(() => existsSync(file) && readFileSync(file, 'utf8').endsWith('\n'));
    const forkServer = Number(readFileSync(file, 'utf8'));
    kill(forkServer);
    await eventually(() => !runs(forkServer));
    writeFileSync(join(work, 'go'), '');
    const { text } = await call;
    expect(text).toMatch(/^exit 3\none\ntwo\n\[left behind: processes were ended/);
    expect(forkServerIn((await use('shell', { command: MINE })).text)).not.toBe(forkServer);
  },
);

testForkServer('a fork server that is killed while it is idle is replaced', async () => {
  const { use } = setup();
  const forkServer = forkServerIn((await use('shell', { command: MINE })).text);
  kill(forkServer);
  await eventually(() => !runs(forkServer));
  const { text } = await use('shell', { command: MINE });
  expect(forkServerIn(text)).toBeGreaterThan(1);
  expect(forkServerIn(text)).not.toBe(forkServer);
});

testForkServer('a fork server that is killed before it starts its command does not start it, and says so', async () => {
  const { use, work, folder } = setup();
  await endIdle(use);
  const forkServer = await forkServerOf(use);
  process.kill(forkServer, 'SIGSTOP');
  const call = use('shell', { command: 'echo x > begun' });
  // The call is prepared and requested in one turn of the event loop; a fork server killed before that is not used.
  await eventually(() => existsSync(callFiles(folder()).boot));
  kill(forkServer);
  expect(await call).toMatchObject({
    ok: false,
    text: expect.stringContaining('not started: the process that should'),
  });
  expect(existsSync(join(work, 'begun'))).toBe(false);
});

testForkServer(
  'a fork server is reused only after a clean end, not if its command was killed or abandoned',
  async () => {
    const { use, work, root } = setup();
    await use('shell', { command: `${MINE} > server; kill -KILL 0` });
    expect(await serving(use)).not.toContain(Number(readFileSync(join(work, 'server'), 'utf8')));

    const folder = join(root, 'left');
    mkdirSync(folder);
    const words = [folder, BASH, 'sleep 300', 'control', bootAndFolderId(folder), '60'];
    const supervisor = begun(BASH, folder, { words, cwd: work, env: { PATH: process.env['PATH'] } });
    await eventually(() => readSupervisorIdentity(folder) !== null);
    const group = readSupervisorIdentity(folder)?.pid ?? Number.NaN;
    const left = Number(readFileSync(`/proc/${group}/stat`, 'utf8').split(' ')[5]);
    supervisor.detach();
    expect(await serving(use)).not.toContain(left);
    process.kill(-group, 'SIGKILL');
  },
);

testForkServer('processes that a command killed do not affect the next one', async () => {
  const { use } = setup();
  for (const command of ['kill -KILL 0', 'sleep 0.1; kill -KILL $PPID', `kill -KILL $(${MINE})`, 'kill -TERM 0']) {
    await use('shell', { command: `echo before; ${command}` });
    expect((await use('shell', { command: 'echo after; exit 4' })).text).toBe('exit 4\nafter\n');
  }
});

testForkServer('a command has the same environment as one that was started without a fork server', async () => {
  const bin = join(setup().root, 'bin');
  mkdirSync(bin);
  // The same bash under a name for which no fork server is used.
  symlinkSync(BASH, join(bin, 'other'));
  const command = [
    'env | sort; pwd; umask; ulimit -a; trap; set -o; id; ls /proc/self/fd',
    // Bash itself blocks other signals from moment to moment; what its commands inherit stays the same.
    'grep -E "^(Sig[IC]|Shd|Cap|NoNewPrivs|Seccomp|Threads)" /proc/$$/status; grep SigBlk /proc/self/status; cat /proc/$$/oom_score_adj /proc/$$/cgroup',
    'tr "\\0" "\\n" < /proc/$$/environ | grep -v "^_=" | sort; echo "$0 $# $- $SHLVL"',
  ].join('\n');
  const env = {
    PATH: process.env['PATH'],
    LANG: 'C.UTF-8',
    LC_ALL: 'C',
    LC_TIME: "it's\na \\ $date `x`",
    TMPDIR: '/var/tmp',
  };
  const { use, work } = setup({ env });
  const reported = async (shell: string) => {
    const { runSupervised } = await import('../../src/tools/process/run-command.ts');
    const program = { shell, command, cwd: work, env: { ...env, HOME: work, TERM: 'dumb' } };
    const folder = join(bin, `call-${shell.split('/').at(-1)}`);
    const limits = { signal: new AbortController().signal, timeoutMs: 10_000 };
    const { ending, output } = await runSupervised(program, null, folder, limits);
    expect(ending).toMatchObject({ how: 'exit', code: 0 });
    return output.replaceAll(shell, 'SHELL');
  };
  const nursedOutput = await reported(BASH);
  expect(nursedOutput).toBe(await reported(join(bin, 'other')));
  expect(nursedOutput).toContain(' $date `x`\n');
  expect((await use('shell', { command: 'echo $LC_ALL' })).text).toBe('exit 0\nC\n');
});

testForkServer('a command of 100 KB with any characters arrives unchanged', async () => {
  const { use, work } = setup();
  const every = Array.from({ length: 0x17f }, (_, code) => String.fromCharCode(code + 1)).join('');
  const text = `${every}漢字 😀 'quoted' "too" \\ $x \`y\` ${'long '.repeat(20_000)}`;
  const command = `cat > text <<'END OF IT'\n${text}\nEND OF IT`;
  expect(await use('shell', { command })).toMatchObject({ ok: true, exit: 0 });
  expect(readFileSync(join(work, 'text'), 'utf8')).toBe(`${text}\n`);
});

testForkServer('if the work folder is gone, nothing is started and the reason is reported', async () => {
  const { use, work } = setup();
  rmSync(work, { recursive: true });
  expect(await use('shell', { command: 'true' })).toMatchObject({ ok: false, text: expect.stringContaining(work) });
});

testForkServer('an incomplete request starts nothing, and a fork server ends with its client', async () => {
  const { root, work } = setup();
  const words = [work, '--', join(root, 'call'), BASH, 'touch ran', 'alone', currentBootId(), '60'];
  const request = words.map((word) => `'${word}'`).join(' ');
  mkdirSync(join(root, 'call'));
  const runForkServer = async (input: string): Promise<void> => {
    const child = spawn(BASH, ['-c', FORK_SERVER_SCRIPT], { env: {}, stdio: ['ignore', 'ignore', 'ignore', 'pipe'] });
    onTestFinished(() => void child.kill('SIGKILL'));
    const control = child.stdio[3];
    if (!(control instanceof Writable)) throw new Error('no pipe');
    const ended = once(child, 'exit');
    control.end(input);
    await ended;
  };
  await runForkServer(`call 1 ${request.length}\n${request.slice(0, -1)}`);
  expect(existsSync(join(work, 'ran'))).toBe(false);
  await runForkServer(`call 1 ${request.length}\n${request}`);
  expect(existsSync(join(work, 'ran'))).toBe(true);
});
