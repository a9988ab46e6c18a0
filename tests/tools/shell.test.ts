import { spawnSync } from 'node:child_process';
import * as fs from 'node:fs';
import { join } from 'node:path';
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { currentBootId } from '../../src/store/fs/process-identity.ts';
import { bootAndFolderId } from '../../src/tools/process/call-folder.ts';
import { boundedOutput } from '../../src/tools/process/command-output.ts';
import { type SandboxedCommand, SUPERVISOR_SCRIPT } from '../../src/tools/process/supervisor.ts';
import { findPrivatePaths } from '../../src/tools/sandbox/visible-paths.ts';
import { shellTool } from '../../src/tools/shell/shell-tool.ts';
import { temporaryFolder } from '../support/temporary.ts';
import { hasSandbox } from './sandbox.ts';
import { eventually, pidOutside, runs, setup as setupWith } from './tool-setup.ts';

/** Waits for a file with a process id written by a command; returns the pid outside the sandbox while it runs. */
async function pidIn(work: string): Promise<number | undefined> {
  const file = join(work, 'pid');
  await eventually(() => fs.existsSync(file) && fs.readFileSync(file, 'utf8').endsWith('\n'));
  return pidOutside(work, Number(fs.readFileSync(file, 'utf8')));
}

describe.each(hasSandbox ? (['none', 'auto'] as const) : (['none'] as const))(
  'commands, with the sandbox on %s:',
  (mode) => {
    const setup = (options: Parameters<typeof setupWith>[0] = {}) => setupWith({ sandbox: { mode }, ...options });
    const isSandboxed = mode !== 'none';
    test('a command runs in the work folder and answers with its exit code and output', async () => {
      const { use, work } = setup();
      fs.writeFileSync(join(work, 'a.txt'), 'one\n');
      expect(await use('shell', { command: 'cat a.txt; pwd' })).toEqual({
        ok: true,
        exit: 0,
        text: `exit 0\none\n${work}\n`,
      });
      expect(await use('shell', { command: 'exit 3' })).toEqual({ ok: false, exit: 3, text: 'exit 3\n(no output)' });
      expect((await use('shell', { command: 'kill -9 $$' })).text).toContain('ended by signal SIGKILL');
    });

    test('it is bash, or the plain shell if there is no bash', async () => {
      const { use, work } = setup();
      expect(await use('shell', { command: '[[ a == a ]]' })).toMatchObject({ ok: true });
      const bin = join(work, 'bin');
      fs.mkdirSync(bin);
      fs.symlinkSync('/bin/sh', join(bin, 'sh'));
      const bare = setup({ env: { PATH: bin } });
      expect(await bare.use('shell', { command: 'echo it runs' })).toEqual({
        ok: true,
        exit: 0,
        text: 'exit 0\nit runs\n',
      });
    });

    test('both outputs come in the order they were written, and bytes that are no UTF-8 are replaced', async () => {
      const { use } = setup();
      const command = 'for i in 1 2 3; do echo out$i; echo err$i >&2; done; printf "\\377\\n"';
      expect((await use('shell', { command })).text).toBe('exit 0\nout1\nerr1\nout2\nerr2\nout3\nerr3\n\ufffd\n');
    });

    test('a line that bash cannot read or run is reported by its number, the first one too', async () => {
      const { use } = setup();
      expect((await use('shell', { command: 'fi' })).text).toMatch(/^exit 2\n.*line 1: syntax error near .*`fi'/);
      expect((await use('shell', { command: 'for i in 1; do\nfi' })).text).toMatch(/^exit 2\n.*line 2: syntax error/);
      expect((await use('shell', { command: 'echo one\nnope-1' })).text).toMatch(/^exit 127\none\n.*line 2: nope-1/);
    });

    test('there is no input to wait for', async () => {
      const { use } = setup();
      expect(await use('shell', { command: 'cat; read x; echo "got $x"' })).toEqual({
        ok: true,
        exit: 0,
        text: 'exit 0\ngot \n',
      });
    });

    test('the environment holds the language and the paths, no keys and nothing of the daemon', async () => {
      const env = {
        PATH: process.env['PATH'],
        LANG: 'C.UTF-8',
        LC_ALL: 'C',
        TMPDIR: '/var/tmp',
        OPENAI_API_KEY: 'k1',
        GITHUB_TOKEN: 'k2',
        LC_SECRET: 'k3',
        DB_PASSWORD: 'k4',
        AGENTD_WORKSPACE: '/somewhere',
        HOME: '/home/of/the/daemon',
        NODE_OPTIONS: '--no-warnings',
        BASH_ENV: '/etc/profile',
      };
      const { use, work } = setup({ env });
      const { text } = await use('shell', { command: 'env' });
      const names = text.split('\n').flatMap((line) => /^(\w+)=/.exec(line)?.[1] ?? []);
      expect(names.filter((name) => !['PWD', 'OLDPWD', 'SHLVL', '_'].includes(name)).sort()).toEqual([
        'HOME',
        'LANG',
        'LC_ALL',
        'PATH',
        'TERM',
        ...(isSandboxed ? [] : ['TMPDIR']),
      ]);
      expect(text).toContain(`HOME=${isSandboxed ? '/home/of/the/daemon' : work}\n`);
      expect(text).toContain('TERM=dumb\n');
    });

    test('a command that takes too long is ended with the processes it started', async () => {
      const { use, work } = setup();
      const command = 'echo begun; (sleep 300 & echo $! > pid; wait)';
      expect(await use('shell', { command, timeout_s: 0.5 })).toEqual({
        ok: false,
        exit: null,
        text: 'timed out after 0.5 s\nbegun\n',
      });
      expect(runs(await pidIn(work))).toBe(false);
    });

    test('the time limit is a setting if the model does not give one', async () => {
      const { use } = setup({ shellTimeoutMs: 300 });
      expect((await use('shell', { command: 'sleep 60' })).text).toContain('timed out after 0.3 s');
      expect((await use('shell', { command: 'true', timeout_s: 4000 })).text).toContain('`timeout_s`');
    });

    test('an abort ends a grandchild that ignores SIGTERM, and the call throws the reason', async () => {
      const { use, work } = setup();
      const stop = new AbortController();
      const stubborn = `trap '' TERM; bash -c 'trap "" TERM; echo $$ > pid; while :; do sleep 0.1; done' & wait`;
      const call = use('shell', { command: stubborn }, stop.signal);
      const pid = await pidIn(work);
      expect(runs(pid)).toBe(true);
      stop.abort('a person said stop');
      await expect(call).rejects.toBe('a person said stop');
      expect(runs(pid)).toBe(false);
    });

    test('an abort before the start starts nothing', async () => {
      const { use, work } = setup();
      await expect(use('shell', { command: 'touch made' }, AbortSignal.abort('no'))).rejects.toBe('no');
      expect(fs.existsSync(join(work, 'made'))).toBe(false);
    });

    test('a background process neither hangs the call nor outlives it', async () => {
      const { use, work } = setup();
      for (const command of [
        'sleep 300 & echo $! > pid; echo ready',
        'sleep 300 >/dev/null 2>&1 & echo $! > pid; echo ready',
      ]) {
        const result = await use('shell', { command });
        expect(result.ok).toBe(true);
        expect(result.text).toMatch(/^exit 0\nready\n\[left behind: processes were ended/);
        expect(runs(await pidIn(work))).toBe(false);
      }
    });

    test('a background process that ends by itself is not worth a note', async () => {
      const { use } = setup();
      expect((await use('shell', { command: '(sleep 0.05; echo late) & echo ready' })).text).toBe(
        'exit 0\nready\nlate\n',
      );
    });

    test.runIf(process.platform === 'linux')('a process that left the group does not hang the call', async () => {
      const { use, work } = setup();
      const { text } = await use('shell', {
        command: 'setsid sh -c "echo \\$\\$ > pid; exec sleep 300" & sleep 0.1; echo ready',
      });
      if (isSandboxed) return expect(text).toContain('processes were ended');
      process.kill((await pidIn(work)) ?? Number.NaN);
      expect(text).toContain('it was not ended');
    });

    test('a flood is reduced to its beginning and end, with a note of what is missing', async () => {
      const { use } = setup();
      const { ok, text } = await use('shell', { command: 'echo first; yes | head -c 20000000; echo last' });
      expect(ok).toBe(true);
      expect(text.length).toBeLessThan(6 * 1024 * 1024);
      expect(text.startsWith('exit 0\nfirst\ny\n')).toBe(true);
      expect(text.endsWith('y\nlast\n')).toBe(true);
      const left = Number(/\n\[(\d+) bytes were left out here\]\n/.exec(text)?.[1]);
      const note = `\n[${left} bytes were left out here]\n`;
      expect(text.length - 'exit 0\n'.length - note.length + left).toBe(20_000_000 + 'first\nlast\n'.length);
    });

    test('a signal is distinguished from an exit code that looks like one', async () => {
      const { use } = setup();
      expect((await use('shell', { command: 'exit 137' })).text).toBe('exit 137\n(no output)');
      expect((await use('shell', { command: 'kill -KILL $$' })).text).toBe('ended by signal SIGKILL\n(no output)');
      expect((await use('shell', { command: 'kill -SEGV $$' })).text).toBe('ended by signal SIGSEGV\n(no output)');
    });

    test('a command that signals its whole group ends itself; what it said before is kept', async () => {
      const { use } = setup();
      const term = await use('shell', { command: 'echo before; sleep 300 & kill -TERM 0; sleep 300' });
      expect(term).toEqual({ ok: false, exit: null, text: 'ended by signal SIGTERM\nbefore\n' });
      // Nothing survives this, the supervisor included.
      const kill = await use('shell', { command: 'echo before; sleep 0.3; kill -KILL 0' });
      expect(kill).toEqual({ ok: false, exit: null, text: 'ended by signal SIGKILL\nbefore\n' });
    });

    test('a command that kills its supervisor does not hang the call, and its end is reported as unknown', async () => {
      const { use } = setup();
      const { ok, text } = await use('shell', { command: 'echo before; sleep 0.3; kill -KILL $PPID' });
      expect(ok).toBe(false);
      expect(text).toContain('ended with an unknown exit code\nbefore\n');
    });

    test('writing to /dev/stderr adds to the output and erases nothing', async () => {
      const { use } = setup();
      const command = 'echo one; echo two > /dev/stderr; echo three > /dev/stdout; echo four';
      expect((await use('shell', { command })).text).toBe('exit 0\none\ntwo\nthree\nfour\n');
    });

    test('a reader that stops early ends a writer by SIGPIPE, as in any shell', async () => {
      const { use } = setup();
      const command = 'set -o pipefail; yes | head -1; echo $?; trap';
      expect((await use('shell', { command })).text).toBe('exit 0\ny\n141\n');
    });

    test.runIf(process.platform === 'linux')(
      'a command gets no descriptor of the daemon or its supervisor',
      async () => {
        const { use, root } = setup();
        const lock = join(root, 'lock');
        const kept = fs.openSync(lock, 'w');
        onTestFinished(() => fs.closeSync(kept));
        // 3 is the folder that ls reads. Higher ones are those that the tests themselves were started with.
        const { text } = await use('shell', {
          command: 'ls /proc/self/fd | grep -x .; readlink /proc/$$/fd/[0-9]; ulimit -f',
        });
        expect(text).toMatch(/^exit 0\n0\n1\n2\n3\n\/dev\/null\npipe:\S+\npipe:\S+\n(\w+)\n$/);
        expect(text.endsWith(isSandboxed ? '\n4194304\n' : '\nunlimited\n')).toBe(true);
      },
    );

    test('a call that was begun is not started a second time', async () => {
      const { use, work, folder, box } = setup();
      await use('shell', { command: 'echo x >> executions' });
      const again = { work, folder: folder(), signal: new AbortController().signal, blob: async () => undefined };
      const result = await box.run({ name: 'shell', args: '{"command":"echo x >> executions"}' }, again);
      expect(result).toMatchObject({ ok: false, text: expect.stringContaining('not started a second time') });
      expect(fs.readFileSync(join(work, 'executions'), 'utf8')).toBe('x\n');
    });

    test('a call that was prepared during this boot and never started is started by the next daemon, once', async () => {
      const { resume, folder, work } = setup();
      const command = { command: 'echo x >> executions' };
      fs.mkdirSync(folder());
      fs.writeFileSync(join(folder(), 'boot'), bootAndFolderId(folder()));
      expect(await resume('shell', command)).toMatchObject({ ok: true, exit: 0 });
      expect(await resume('shell', command)).toMatchObject({ ok: true, exit: 0 });
      expect(fs.readFileSync(join(work, 'executions'), 'utf8')).toBe('x\n');
    });

    test('an unidentified call from before a reboot is not started again', async () => {
      const { resume, folder, work } = setup();
      fs.mkdirSync(folder());
      fs.writeFileSync(join(folder(), 'boot'), 'another boot');
      expect(await resume('shell', { command: 'echo x >> executions' })).toBe(null);
      expect(fs.existsSync(join(work, 'executions'))).toBe(false);
    });

    test('a call that never started never will: it is discarded, and its supervisor finds its place taken', async () => {
      const { resume, folder, root } = setup();
      const command = { command: 'echo never' };
      expect(await resume('shell', command)).toBe(null);
      fs.mkdirSync(folder());
      expect(await resume('shell', command)).toBe(null);
      const late = spawnSync('/bin/sh', [
        '-c',
        SUPERVISOR_SCRIPT,
        'call',
        folder(),
        '/bin/sh',
        `touch ${root}/ran`,
        'alone',
        currentBootId(),
      ]);
      expect(late.status).toBe(1);
      expect(fs.existsSync(join(root, 'ran'))).toBe(false);
    });

    test('if nobody can read the pipe, the supervisor stores the output itself', async () => {
      const { resume, folder, work } = setup();
      const command = 'echo one; echo two >&2; yes | head -c 7000000; echo last; exit 3';
      fs.mkdirSync(folder());
      spawnSync(
        '/bin/sh',
        ['-c', SUPERVISOR_SCRIPT, 'call', folder(), '/bin/bash', command, 'alone', bootAndFolderId(folder()), '600'],
        { cwd: work },
      );
      const result = await resume('shell', { command });
      expect(result?.ok).toBe(false);
      expect(result?.text.startsWith('exit 3\none\ntwo\ny\n')).toBe(true);
      expect(result?.text).toContain('\n[a part of the output was left out here]\n');
      expect(result?.text).toContain('y\nlast\n[the daemon was restarted');
    });

    test('a command that cannot be started says what to do', async () => {
      const { use } = setup();
      expect((await use('shell', { command: `: ${'x'.repeat(200_000)}` })).text).toContain('write_file first');
      expect((await use('shell', { command: 'a\0b' })).text).toContain('NUL');
    });
  },
);

test('output is cut between characters, never inside one', () => {
  for (const text of ['a€b😀c漢字', '😀😀😀😀', '€€€€€€']) {
    for (let head = 1; head < 9; head++) {
      const output = boundedOutput(head, 5);
      for (const byte of Buffer.from(text.repeat(4))) output.write(Buffer.from([byte]));
      expect(output.text()).not.toContain('\ufffd');
      expect(output.text()).toContain('bytes were left out');
    }
  }
});

test('a stop does not wait for a sandbox that cannot be prepared, and one that is prepared later is released', async () => {
  let prepared: ((sandboxed: SandboxedCommand) => void) | undefined;
  const wrapCommand = () => new Promise<SandboxedCommand>((resolve) => (prepared = resolve));
  const { use } = setupWith({ tools: [shellTool({ wrapCommand })] });
  const stop = new AbortController();
  const stopped = use('shell', { command: 'true' }, stop.signal);
  await eventually(() => prepared !== undefined);
  stop.abort(new Error('stopped by a person'));
  await expect(stopped).rejects.toThrow('stopped by a person');
  await new Promise<void>((release) =>
    prepared?.({ endReportedBy: 'inside', words: [], env: {}, cwd: '/', group: '', release }),
  );
});

test('a search for private files that never ends fails the command that needs it', async () => {
  const bin = temporaryFolder('find');
  fs.writeFileSync(join(bin, 'find'), '#!/bin/sh\nexec sleep 1000\n', { mode: 0o755 });
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
  onTestFinished(() => void vi.useRealTimers());
  const searched = expect(findPrivatePaths([bin], bin)).rejects.toThrow('took more than 5 minutes');
  vi.advanceTimersByTime(300_000);
  await searched;
});
