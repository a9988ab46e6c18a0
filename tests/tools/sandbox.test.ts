import { execFile, spawnSync } from 'node:child_process';
import * as fs from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { openSandbox, runEscapeAttempts } from '../../src/tools/index.ts';
import { runSupervised } from '../../src/tools/process/run-command.ts';
import { seatbeltProfile } from '../../src/tools/sandbox/without-namespaces.ts';
import { attemptsFor } from '../../src/tools/sandbox-check/escape-attempts.ts';
import { childProgram } from '../support/child-program.ts';
import { listen, temporaryFolder } from '../support/temporary.ts';
import { asNobody } from './as-nobody.ts';
import { hasSandbox, whyNot } from './sandbox.ts';
import { setup } from './tool-setup.ts';

if (!hasSandbox) console.warn(`tests of the sandbox skip: ${whyNot}`);
const sandboxTest = test.runIf(hasSandbox);
const isRoot = process.getuid?.() === 0;
const ONLY_ROOT = 'only root can be another user, and write where programs are installed';
const on = { sandbox: { mode: 'auto' } } as const;

sandboxTest(
  'every escape attempt is blocked',
  async () => {
    const out: string[] = [];
    for await (const trial of runEscapeAttempts(process.env, { mode: 'auto', network: false }))
      if (!trial.isPrevented) out.push(`${trial.attempt.name}: ${trial.output}`);
    expect(out).toEqual([]);
  },
  120_000,
);

sandboxTest(
  'every escape attempt is blocked for a daemon that is not run by root, too',
  ({ skip }) => {
    skip(!isRoot, ONLY_ROOT);
    const run = asNobody(
      (src) => `
    import { runEscapeAttempts } from '${src}/tools/index.ts';
    for await (const { attempt, isPrevented, output } of runEscapeAttempts(process.env, { mode: 'bwrap', network: false }))
      console.log(isPrevented ? 'prevented' : attempt.name + ': ' + output);`,
    );
    if ('why' in run) return skip(run.why);
    expect(new Set(run.stdout.trim().split('\n')), run.stderr).toEqual(new Set(['prevented']));
  },
  120_000,
);

test('the attempts are real: without a sandbox the harmless ones escape', async () => {
  const stuck: string[] = [];
  const free = runEscapeAttempts(process.env, { mode: 'none', network: false }, (way) => !way.isHarmful);
  for await (const trial of free) if (trial.isPrevented) stuck.push(`${trial.attempt.name}: ${trial.output}`);
  expect(stuck).toEqual([]);
}, 120_000);

test.runIf(process.platform === 'linux')('a harmful escape is never attempted without a sandbox', async () => {
  const tried: string[] = [];
  for (const mode of ['auto', 'bwrap'] as const) {
    const trying = (async () => {
      for await (const { attempt } of runEscapeAttempts(
        { PATH: '/nowhere' },
        { mode, network: false },
        (way) => !way.isHarmful,
      ))
        tried.push(attempt.name);
    })();
    await expect(trying).rejects.toThrow('No escape was attempted');
  }
  // Only checks the list: if it were attempted and the rule were broken, this machine would be harmed.
  expect(attemptsFor('none', false).filter((way) => way.isHarmful)).toEqual([]);
  expect(attemptsFor('auto', false).length).toBeGreaterThan(attemptsFor('none', false).length);
  expect(tried).toEqual([]);
});

sandboxTest(
  'ordinary tools work, what they write to work/ stays, and home and /tmp begin empty each time',
  async () => {
    const { use, work } = setup(on);
    const command = [
      'node -e "console.log(process.version)" && npm --version && git init -q . && git --version',
      'echo kept > kept; echo x > ~/gone && echo x > /tmp/gone && echo x > /dev/shm/gone && echo written',
    ].join('\n');
    const { text } = await use('shell', { command });
    expect(text).toMatch(/^exit 0\nv\d+.*\n\d+\.\d+\.\d+\ngit version .*\nwritten\n$/);
    expect(fs.readFileSync(join(work, 'kept'), 'utf8')).toBe('kept\n');
    expect((await use('shell', { command: 'ls ~/gone /tmp/gone /dev/shm/gone | wc -l' })).text).toMatch(/\n0\n$/);
  },
);

sandboxTest(
  'folders of PATH in the home can be used with what they are made of, and nothing beside them is there',
  async () => {
    const home = temporaryFolder('home');
    for (const path of ['tool/bin', 'tool/lib', 'tool/share', 'bin'])
      fs.mkdirSync(join(home, path), { recursive: true });
    for (const path of ['tool/lib/part', 'tool/credentials', 'tool/share/ring', 'letter'])
      fs.writeFileSync(join(home, path), 'text\n');
    fs.writeFileSync(join(home, 'tool/bin/mine'), '#!/bin/sh\ncat ~/tool/lib/part\n', { mode: 0o755 });
    const PATH = `${home}/tool/bin:${home}/bin:${home}:/:${process.env['PATH']}`;
    const { use } = setup({ ...on, env: { PATH, HOME: home } });
    expect((await use('shell', { command: 'mine; cd ~; echo * tool/*; touch bin/x' })).text).toMatch(
      /^exit 1\ntext\nbin tool tool\/bin tool\/lib\n.*Read-only file system\n$/,
    );
  },
);

sandboxTest(
  'a folder in read_also can be read and not written, whatever it is told, and what is hidden stays so',
  async () => {
    const first = setup(on);
    const file = join(first.outside, 'a.txt');
    fs.writeFileSync(file, 'text\n');
    expect((await first.use('shell', { command: `cat ${file}` })).text).toContain('No such file');
    for (const readAlso of [[first.outside], [first.root, '/'], [tmpdir(), '/proc']]) {
      const { use, outside } = setup({ ...on, readAlso });
      fs.writeFileSync(join(outside, 'secret'), 'hidden\n');
      expect((await use('shell', { command: `cat ${file}` })).text).toBe('exit 0\ntext\n');
      expect((await use('shell', { command: `echo x > ${file}` })).text).toContain('Read-only file system');
      expect((await use('shell', { command: `cat ../outside/secret ${outside}/secret` })).ok).toBe(false);
      expect((await use('shell', { command: 'ls -d /proc/[0-9]* | wc -l' })).text).toMatch(/\n[1-9]\n$/);
    }
  },
);

sandboxTest('the network is there only where it is granted, and loopback with it', async () => {
  const port = await listen(createServer((socket) => socket.end('reached\n')));
  const command = `exec 3<>/dev/tcp/127.0.0.1/${port}; cat <&3`;
  expect((await setup(on).use('shell', { command })).ok).toBe(false);
  const granted = setup({ sandbox: { mode: 'auto', network: true } });
  expect((await granted.use('shell', { command })).text).toBe('exit 0\nreached\n');
});

test('what a session left in work/ is not run in place of a program of the system, though PATH begins with a dot', async () => {
  for (const mode of ['none', 'auto'] as const) {
    const { use, work, root } = setup({
      sandbox: { mode },
      env: { ...process.env, PATH: `.::${process.env['PATH']}` },
    });
    for (const name of ['bwrap', 'env', 'head', 'bash', 'sh'])
      fs.writeFileSync(join(work, name), `#!/bin/sh\ntouch ${root}/ran\n`, { mode: 0o755 });
    expect((await use('shell', { command: 'echo hi | head -1' })).text).toBe('exit 0\nhi\n');
    expect(fs.existsSync(join(root, 'ran'))).toBe(false);
  }
});

sandboxTest(
  'what an ordinary user may not use of the system is not there for a command of a daemon run by root',
  async ({ skip }) => {
    skip(!isRoot, ONLY_ROOT);
    const [opt, lib] = ['/opt', '/usr/local/lib'].map((place) => fs.mkdtempSync(join(place, 'agentd-test-')));
    onTestFinished(() => {
      for (const folder of [opt, lib]) fs.rmSync(folder ?? '', { recursive: true, force: true });
    });
    for (const folder of [opt, lib]) {
      const at = (name: string) => join(folder ?? '', name);
      fs.chmodSync(at(''), 0o755);
      fs.mkdirSync(at('open'));
      fs.mkdirSync(at('closed'), { mode: 0o700 });
      for (const [name, mode] of [
        ['key', 0o600],
        ['group', 0o640],
        ['open/key', 0o600],
        ['closed/file', 0o644],
        ['free', 0o644],
      ] as const)
        fs.writeFileSync(at(name), 'bait\n', { mode });
      fs.mkdirSync(at('many'));
      for (let n = 0; n < 100; n++) fs.writeFileSync(at(`many/${n}`), 'bait\n', { mode: 0o600 });
      fs.symlinkSync('key', at('link'));
    }
    const server = createServer((socket) => socket.end('bait\n')).listen(join(opt ?? '', 'socket'));
    onTestFinished(() => void server.close());
    await new Promise((ready) => server.once('listening', ready));
    fs.chmodSync(join(opt ?? '', 'socket'), 0o700);
    const speak = `require('net').connect('${opt}/socket').on('data', (data) => console.log('' + data)).on('error', () => {})`;
    const command = [
      ...[opt, lib].map(
        (folder) => `cd ${folder}; cat key group link open/key closed/file many/*; cat free; ls closed many`,
      ),
      `node -e "${speak}"`,
    ].join('\n');
    const { root } = setup();
    // In a separate process, since results are cached for some minutes.
    const words = [await childProgram('tests/tools/inherited.child.ts'), root, 'auto', command];
    const { stdout, stderr } = await new Promise<{ stdout: string; stderr: string }>((resolve) => {
      execFile(process.execPath, words, { encoding: 'utf8' }, (_, out, err) => resolve({ stdout: out, stderr: err }));
    });
    expect(stdout.match(/^bait$/gm), `${stdout}${stderr}`).toHaveLength(2);
  },
  60_000,
);

sandboxTest(
  'what root makes private after the daemon has started cannot be read by the next command, nor by one that runs',
  async ({ skip }) => {
    skip(!isRoot, ONLY_ROOT);
    // Without perl nothing can be remapped, so private files are searched for before each command.
    const bin = temporaryFolder('bin');
    for (const name of ['bwrap', 'env', 'sh', 'bash', 'find', 'cat', 'touch', 'sleep'])
      fs.symlinkSync(
        spawnSync('sh', ['-c', `command -v ${name}`], { encoding: 'utf8' }).stdout.trim(),
        join(bin, name),
      );
    for (const env of [process.env, { ...process.env, PATH: bin }]) {
      const { use, work, root } = setup({ ...on, env });
      const [opt = '', etc = ''] = ['/opt', '/etc'].map((place) => fs.mkdtempSync(join(place, 'agentd-test-')));
      onTestFinished(() => [opt, etc].forEach((folder) => void fs.rmSync(folder, { recursive: true, force: true })));
      for (const folder of [opt, etc]) fs.chmodSync(folder, 0o755);
      const status = openSandbox({ env, hidden: [root] }).statusFor({ mode: 'auto' });
      const isRemapped = status.isSandboxed && !status.gaps.some((gap) => gap.includes('not from one that runs'));
      if (env !== process.env) expect(isRemapped).toBe(false);
      const wait = `touch running; until [ -e ${opt}/key ]; do sleep 0.02; done; cat ${opt}/key`;
      const running = use('shell', { command: isRemapped ? wait : 'touch running' });
      await expect.poll(() => fs.existsSync(join(work, 'running')), { timeout: 20_000 }).toBe(true);
      for (const folder of [opt, etc]) {
        fs.writeFileSync(join(folder, 'key'), 'bait\n', { mode: 0o600 });
        fs.writeFileSync(join(folder, 'free'), 'free\n', { mode: 0o644 });
      }
      fs.writeFileSync(join(work, 'own'), 'own\n', { mode: 0o600 });
      expect((await running).text).not.toContain('bait');
      const { text } = await use('shell', { command: `cat ${opt}/* ${etc}/* own; echo more >>own && cat own` });
      expect(text).not.toContain('bait');
      expect(text.match(/^(free|own|more)$/gm)).toEqual(['free', 'free', 'own', 'own', 'more']);
    }
  },
  60_000,
);

test.runIf(hasSandbox)(
  'a sandbox that is installed while the daemon runs is used without a restart, and one that is gone is noticed',
  async () => {
    const { root, work } = setup();
    const bin = join(root, 'bin');
    fs.mkdirSync(bin);
    fs.writeFileSync(join(bin, 'bwrap'), '#!/bin/sh\necho no such thing >&2\nexit 1\n', { mode: 0o755 });
    const env = { PATH: `${bin}:${process.env['PATH']}` };
    const open = openSandbox({ env, hidden: [root], retryMs: 0 });
    const patient = openSandbox({ env, hidden: [root] });
    const wish = { mode: 'bwrap', network: false } as const;
    for (const one of [open, patient])
      expect(one.statusFor(wish)).toMatchObject({ isSandboxed: false, why: expect.stringContaining('no such thing') });
    const real = spawnSync('sh', ['-c', 'command -v bwrap'], { encoding: 'utf8' }).stdout.trim();
    fs.rmSync(join(bin, 'bwrap'));
    fs.symlinkSync(real, join(bin, 'bwrap'));
    expect(open.statusFor(wish)).toMatchObject({ isSandboxed: true });
    // A try starts a program, so it is not made for every call.
    expect(patient.statusFor(wish)).toMatchObject({ isSandboxed: false });
    const program = { shell: '/bin/sh', command: 'true', cwd: work, env };
    expect((await open.wrapCommand(program, wish, []))?.words).toContain(join(bin, 'bwrap'));
    fs.rmSync(join(bin, 'bwrap'));
    expect((await open.wrapCommand(program, wish, []))?.words).toContain(real);
  },
);

sandboxTest('no command runs in a work folder that was replaced by a link', async () => {
  const { work, outside, box, root } = setup(on);
  fs.symlinkSync(outside, join(work, 'sub'));
  const call = { name: 'shell', args: '{"command":"touch made"}' };
  const context = { folder: join(root, 'call'), signal: new AbortController().signal, blob: async () => undefined };
  const result = await box.run(call, { ...context, work: join(work, 'sub') });
  expect(result).toMatchObject({ ok: false, text: expect.stringContaining('over a symbolic link') });
  expect(fs.existsSync(join(outside, 'made'))).toBe(false);
});

sandboxTest('a link that replaces the work folder after it was checked leads nowhere', async () => {
  const { work, outside, root } = setup();
  const program = { shell: '/bin/sh', command: 'touch made', cwd: work, env: { PATH: process.env['PATH'] } };
  const fenced = await openSandbox({ env: process.env, hidden: [root] }).wrapCommand(
    program,
    { mode: 'auto', network: false },
    [],
  );
  fs.renameSync(work, `${work}-before`);
  fs.symlinkSync(outside, work);
  const limits = { signal: new AbortController().signal, timeoutMs: 20_000 };
  const run = runSupervised(program, fenced, join(root, 'call'), limits);
  await expect(run).rejects.toThrow('not started: its sandbox could not be set up (fault: the work folder');
  expect(fs.existsSync(join(outside, 'made'))).toBe(false);
});

test.runIf(process.platform === 'linux').each(hasSandbox ? ['none', 'auto'] : ['none'])(
  'a folder that the daemon was started with does not reach a command, sandbox %s',
  async (mode) => {
    const { root, work, outside } = setup();
    fs.writeFileSync(join(outside, 'secret'), 'reached\n');
    const child = await childProgram('tests/tools/inherited.child.ts');
    const started = 'exec 20<"$1/outside" 21<"$1/outside/secret"; shift; exec "$@"';
    const command = 'cat /proc/self/fd/20/secret; cat <&21; echo begun';
    const words = [process.execPath, child, root, mode, command];
    const { stdout, stderr } = spawnSync('bash', ['-c', started, 'start', root, ...words], { encoding: 'utf8' });
    expect(fs.existsSync(work)).toBe(true);
    expect(stdout, stderr).toContain('begun');
    expect(stdout).not.toContain('reached');
  },
);

test.runIf(process.platform === 'linux')(
  'where no sandbox works, "bwrap" runs nothing and "auto" says once why',
  async () => {
    const env = { PATH: '/nowhere' };
    const { use } = setup({ env, sandbox: { mode: 'bwrap' } });
    const { ok, text } = await use('shell', { command: 'echo ran' });
    expect(ok).toBe(false);
    expect(text).toContain('bubblewrap is not installed. `agentctl doctor` says what to do');
    const warnings: string[] = [];
    const open = openSandbox({ env, hidden: [], warn: (line) => warnings.push(line) });
    const program = { shell: '/bin/sh', command: 'true', cwd: '/', env };
    for (let n = 0; n < 2; n++)
      expect(await open.wrapCommand(program, { mode: 'auto', network: false }, [])).toBe(null);
    expect(warnings).toEqual([expect.stringContaining('without a sandbox: bubblewrap is not installed')]);
    const wish = { mode: 'auto', network: false } as const;
    expect(open.statusFor(wish)).toMatchObject({ isSandboxed: false, isChosen: false, isRefused: false });
    expect(open.statusFor({ ...wish, mode: 'none' })).toMatchObject({ isSandboxed: false, isChosen: true });
  },
);

test('the profile for macOS closes people’s folders, then opens what may be read, then work/', () => {
  const rules = seatbeltProfile({
    closed: ['/Users'],
    readable: ['/Users/a "b"/bin'],
    work: '/Users/a/w',
    network: false,
  });
  const at = (rule: string) => rules.indexOf(rule);
  expect(at('(deny file-read* (subpath "/Users"))')).toBeGreaterThan(at('(deny file-write*)'));
  expect(at('(allow file-read* (subpath "/Users/a \\"b\\"/bin") (subpath "/Users/a/w"))')).toBeGreaterThan(
    at('(deny file-read*'),
  );
  expect(at('(allow file-write* (subpath "/Users/a/w"))')).toBeGreaterThan(0);
  expect(at('(deny network*)')).toBeGreaterThan(0);
});
