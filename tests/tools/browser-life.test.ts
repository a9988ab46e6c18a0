import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { hostname } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, onTestFinished } from 'vitest';
import { openBrowserControl } from '../../src/tools/handover/browser-handover.ts';
import { childProgram } from '../support/child-program.ts';
import { temporaryFolder } from '../support/temporary.ts';
import { browserSetup, browserTest } from './browser-setup.ts';
import { eventually, runs, setup } from './tool-setup.ts';
import { respondWith, server } from './web-server.ts';

/** The processes of Chromium that were started for a profile below this folder. */
function chromiums(home: string): number[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name) && cmdline(name).includes(`--user-data-dir=${home}`))
    .map(Number)
    .filter(runs);
}

/**
 * The main process of the browser: all others have `--type=`. Pids do not help, since they wrap around. A process that
 * was just forked looks like its parent until it executes its own program.
 */
async function browserOf(home: string): Promise<number> {
  for (;;) {
    const [browser, ...others] = chromiums(home).filter((pid) => !cmdline(pid).includes('--type='));
    if (browser !== undefined && others.length === 0) return browser;
    await sleep(10);
  }
}

function cmdline(pid: string | number): string {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8');
  } catch {
    return '';
  }
}

const cookies = () =>
  server({
    '/set': respondWith('<p>set</p>', 'text/html', { 'set-cookie': 'login=ada' }),
    '/see': (request, response) => {
      response
        .writeHead(200, { 'content-type': 'text/html' })
        .end(`<p>cookies: ${request.headers.cookie ?? 'none'}</p>`);
    },
  });

/** Leaves the lock of a browser on another host, or of an earlier start of this one, in the profile. */
function leaveLock(folder: string, holder: string): void {
  rmSync(join(folder, 'profile', 'SingletonLock'), { force: true });
  symlinkSync(holder, join(folder, 'profile', 'SingletonLock'));
}

browserTest(
  'after kill -9 of the daemon no browser stays, hung or not; cookies, the ones without a date too, outlive that, a lock and an orderly end',
  async () => {
    const web = await cookies();
    for (const state of ['well', 'hung']) {
      const { run, pool, open, toolOf, home, folder } = browserSetup();
      const program = await childProgram('tests/tools/browser.child.ts');
      const child = spawn(process.execPath, [program, folder, web.url('/set')], {
        stdio: ['ignore', 'pipe', 'inherit'],
      });
      onTestFinished(() => void child.kill('SIGKILL'));
      await once(child.stdout, 'data');
      const browser = await browserOf(home);
      if (state === 'hung') process.kill(browser, 'SIGSTOP');
      child.kill('SIGKILL');
      await eventually(() => chromiums(home).length === 0);
      leaveLock(folder, state === 'hung' ? `${hostname()}-1` : 'elsewhere-1');
      const see = { action: 'navigate', url: web.url('/see') };
      expect((await run(see)).text, state).toContain('cookies: login=ada');
      await pool.close();
      expect(chromiums(home), state).toEqual([]);
      if (state === 'hung') continue;
      const next = open();
      onTestFinished(() => next.close());
      const later = setup({ tools: [toolOf(folder, next)] });
      expect((await later.use('browser', see)).text).toContain('cookies: login=ada');
    }
  },
);

browserTest(
  'an idle browser is closed; one too many closes the one unused longest, and sessions share no cookies; none has the popups of an address bar',
  async () => {
    const web = await cookies();
    const see = { action: 'navigate', url: web.url('/see') };
    const idle = browserSetup({ browser: { idle_minutes: 1 / 600 } });
    await idle.run(see);
    await eventually(() => chromiums(idle.home).length === 0);

    const { home, toolOf } = browserSetup({ browser: { max_open: 1 } });
    const [one, two] = ['one', 'two'].map((name) => setup({ tools: [toolOf(join(home, name))] }));
    await one?.use('browser', { action: 'navigate', url: web.url('/set') });
    const first = await browserOf(join(home, 'one'));
    // Only the last of these switches counts, so ours must disable everything that Playwright's does.
    const [theirs = [], ours = [], ...others] = cmdline(first)
      .split('\0')
      .flatMap((flag) =>
        flag.startsWith('--disable-features=') ? [flag.slice(flag.indexOf('=') + 1).split(',')] : [],
      );
    expect([theirs.length > 1, theirs.filter((name) => !ours.includes(name)), others]).toEqual([true, [], []]);
    expect((await two?.use('browser', see))?.text).toContain('cookies: none');
    expect(chromiums(join(home, 'one'))).not.toContain(first);
  },
);

browserTest(
  'a killed browser is reported and started again by the next call; it ends with its session folder, which is not recreated',
  async () => {
    const web = await server({ '/': respondWith('<p>here</p>'), '/slow': () => undefined });
    const { run, home, pool } = browserSetup();
    await run({ action: 'navigate', url: web.url('/') });
    const going = run({ action: 'navigate', url: web.url('/slow') });
    await eventually(() => web.asked.includes('/slow'));
    process.kill(await browserOf(home), 'SIGKILL');
    const { ok, text } = await going;
    expect({ ok, text }).toEqual({ ok: false, text: expect.stringContaining('The browser ended') });
    expect((await run({ action: 'navigate', url: web.url('/') })).text).toContain('here');

    rmSync(join(home, 'session'), { recursive: true, force: true, maxRetries: 50, retryDelay: 20 });
    await eventually(() => chromiums(home).length === 0);
    await pool.close();
    expect(existsSync(join(home, 'session'))).toBe(false);
  },
);

browserTest('if Chromium is missing or does not start, the model is told how a person can install it', async () => {
  const { run } = browserSetup({ env: { PATH: '/nowhere' } });
  expect((await run({ action: 'snapshot' })).text).toMatch(
    /There is no Chromium on this machine\. .*apt-get install chromium/,
  );
  const odd = browserSetup({ browser: { executable: '/bin/false' } });
  expect((await odd.run({ action: 'snapshot' })).text).toMatch(/^\/bin\/false did not start: /);
  const wrong = browserSetup({ browser: { executable: 'chromium' } });
  expect((await wrong.run({ action: 'snapshot' })).text).toContain('no program with an absolute path');
});

browserTest('a browser whose folder was replaced by a file ends, and nothing else does', async () => {
  const web = await cookies();
  const { run, home } = browserSetup();
  expect((await run({ action: 'navigate', url: web.url('/see') })).ok).toBe(true);
  const pid = await browserOf(home);
  rmSync(join(home, 'session'), { recursive: true, force: true, maxRetries: 50, retryDelay: 20 });
  writeFileSync(join(home, 'session'), 'a file in its place');
  await eventually(() => !runs(pid));
  expect(readFileSync(join(home, 'session'), 'utf8')).toBe('a file in its place');
});

/** Stops the browser's processes from answering, without ending them. */
async function hang(home: string): Promise<number> {
  const pid = await browserOf(home);
  process.kill(pid, 'SIGSTOP');
  return pid;
}

browserTest('a browser that hangs holds up neither a stop nor whoever has it next: it is ended', async () => {
  const web = await server({ '/see': respondWith('<p>here</p>'), '/slow': () => undefined });
  const see = { action: 'navigate', url: web.url('/see') };
  const { run, home, pool, folder } = browserSetup();
  const stop = new AbortController();
  const stopped = run({ action: 'navigate', url: web.url('/slow') }, stop.signal);
  await eventually(() => web.asked.includes('/slow'));
  const first = await hang(home);
  stop.abort(new Error('stopped by a person'));
  await expect(stopped).rejects.toThrow('stopped by a person');
  expect(runs(first)).toBe(false);
  expect((await run(see)).text).toContain('here');

  const control = openBrowserControl({
    ...{ pool, folder, socket: join(home, 'browser.sock'), onLost: () => undefined },
    settings: () => ({ network: { allow_private: ['127.0.0.1'] } }),
  });
  control.give();
  const person = connect(join(home, 'browser.sock'));
  onTestFinished(() => void person.destroy());
  await once(person, 'data');
  const second = await hang(home);
  control.takeBack();
  expect((await run(see)).text).toContain('here');
  expect(runs(second)).toBe(false);
});

browserTest(
  'a browser that hangs is ended when another session needs its place, and when the daemon ends',
  async () => {
    const web = await server({ '/see': respondWith('<p>here</p>') });
    const see = { action: 'navigate', url: web.url('/see') };
    const { home, pool, toolOf } = browserSetup({ browser: { max_open: 1 } });
    const [one, two] = ['one', 'two'].map((name) => setup({ tools: [toolOf(join(home, name))] }));
    await one?.use('browser', see);
    const first = await hang(home);
    expect((await two?.use('browser', see))?.text).toContain('here');
    expect(runs(first)).toBe(false);
    const second = await hang(home);
    await pool.close();
    expect(runs(second)).toBe(false);
  },
);

browserTest('a stop does not wait for a browser that never becomes ready', async () => {
  const home = temporaryFolder('browser');
  const executable = join(home, 'never-ready');
  writeFileSync(executable, `#!/bin/sh\necho $$ >${home}/pid\nexec sleep 1000\n`, { mode: 0o755 });
  const { run } = browserSetup({ browser: { executable } });
  const stop = new AbortController();
  const stopped = run({ action: 'snapshot' }, stop.signal);
  await eventually(() => existsSync(join(home, 'pid')));
  stop.abort(new Error('stopped by a person'));
  await expect(stopped).rejects.toThrow('stopped by a person');
  const pid = Number(readFileSync(join(home, 'pid'), 'utf8'));
  expect(runs(pid)).toBe(true);
  process.kill(pid, 'SIGKILL');
});
