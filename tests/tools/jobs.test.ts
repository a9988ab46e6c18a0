import { existsSync, readdirSync, readFileSync, renameSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { pageOf } from '../../src/tools/jobs/job-output.ts';
import { openShelf } from '../../src/tools/jobs/shelf.ts';
import { desk as deskWith, eventually } from './desk.ts';
import { isHeldHere } from './sandbox.ts';

let marks = 0;
/** A word of its own in the command line of whatever a test starts. */
const mark = () => `agentd-mark-${process.pid}-${++marks}`;

/** How many processes have it in their command line, wherever they are. */
function marked(word: string): number {
  return readdirSync('/proc').filter((pid) => {
    try {
      return /^\d+$/.test(pid) && readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0').includes(word);
    } catch {
      return false;
    }
  }).length;
}

const sleeper = (word: string) => `bash -c 'sleep 300; true' ${word}`;
/** Does not end by a SIGTERM. */
const stubborn = (word: string) => `bash -c 'trap "" TERM; while :; do sleep 1; done' ${word}`;

describe.each(isHeldHere ? (['none', 'auto'] as const) : (['none'] as const))(
  'jobs, with the sandbox on %s:',
  (mode) => {
    const desk = () => deskWith({ sandbox: { mode } });
    const begin = (on: ReturnType<typeof desk>, command: string, more: object = {}) =>
      on.use('shell', { command, background: true, ...more });

    test('a command in the background answers while it runs, and is looked at from where the last look ended', async () => {
      const on = desk();
      const begun = await begin(on, 'echo first; while [ ! -e go ]; do sleep 0.05; done; echo second; exit 3');
      expect(begun).toMatchObject({ ok: true });
      expect(begun).not.toHaveProperty('exit');
      expect(begun.text).toMatch(/^Begun as job_1\. .*\njob_1: running for \d+ s: echo first; .*\nfirst\n$/s);
      expect((await on.use('jobs', { action: 'look', job: 'job_1' })).text).toMatch(
        /^job_1: running .*\n\(nothing new\)$/,
      );
      writeFileSync(join(on.work, 'go'), '');
      const waited = await on.use('jobs', { action: 'wait', job: 'job_1', seconds: 60 });
      expect(waited).toMatchObject({ ok: true });
      expect(waited.text).toMatch(/^job_1: exit 3, \d+ s ago: .*\nsecond\n$/s);
      expect((await on.use('jobs', { action: 'look', job: 'job_1', offset: 0 })).text).toMatch(/\nfirst\nsecond\n$/);
      expect((await on.use('jobs', {})).text).toMatch(/^job_1: exit 3/);
    });

    test('what fails at once is told with its exit code and output', async () => {
      const on = desk();
      const failed = await begin(on, 'echo no such thing >&2; exit 7');
      expect(failed).toMatchObject({ ok: false, exit: 7 });
      expect(failed.text).toMatch(/^It has ended already\.\njob_1: exit 7, \d+ s ago: .*\nno such thing\n$/s);
      expect(await begin(on, 'kill -9 $$')).toMatchObject({ ok: false, exit: null });
      expect(await begin(on, 'true')).toMatchObject({ ok: true, exit: 0 });
      expect(on.jobs.news()).toEqual([]);
    });

    test('a stop ends the job with all its processes, also those that ignore it', async () => {
      const on = desk();
      const word = mark();
      await begin(
        on,
        `(trap "" TERM; ${sleeper(word)}) & ${sleeper(word)} & bash -c 'trap "" TERM; while :; do sleep 1; done' ${word}`,
      );
      await eventually(() => marked(word) >= 3);
      expect((await on.use('jobs', { action: 'stop', job: 'job_1' })).text).toMatch(/^job_1: stopped by the model, /);
      expect(marked(word)).toBe(0);
      expect((await on.use('jobs', { action: 'stop', job: 'job_1' })).text).toMatch(/^job_1: stopped by the model, /);
    });

    test('what a command leaves in the background ends after it', async () => {
      const on = desk();
      const word = mark();
      await begin(on, `${stubborn(word)} & ${sleeper(word)} & echo over`);
      await eventually(() => marked(word) === 0);
      expect((await on.use('jobs', { action: 'wait', job: 'job_1' })).text).toMatch(
        /^job_1: exit 0, .*\n\(nothing new\)$/,
      );
    });

    test('a job ends by itself when its time is over', async () => {
      const on = desk();
      const word = mark();
      await begin(on, sleeper(word), { timeout_s: 2 });
      expect((await on.use('jobs', { action: 'wait', job: 'job_1' })).text).toMatch(/^job_1: timed out after 2 s, /);
      expect(marked(word)).toBe(0);
    });

    test('a file `stop` in its folder ends it, whoever put it there', async () => {
      const on = desk();
      const word = mark();
      await begin(on, stubborn(word));
      writeFileSync(join(on.root, 'jobs/job_1/stop'), '');
      await eventually(() => marked(word) === 0);
      expect((await on.use('jobs', {})).text).toMatch(/^job_1: stopped by a person, /);
    });

    test('a folder that is moved away takes its jobs along', async () => {
      const on = desk();
      const word = mark();
      await begin(on, sleeper(word));
      expect(marked(word)).toBeGreaterThan(0);
      renameSync(join(on.root, 'jobs'), join(on.root, 'away'));
      await eventually(() => marked(word) === 0);
    });

    test('of a flood the beginning and the end are kept, and each look is bounded', async () => {
      const on = desk();
      await begin(
        on,
        'while [ ! -e flow ]; do sleep 0.05; done; echo begun; seq 1 3000000; echo last; while [ ! -e go ]; do sleep 0.05; done',
        {
          timeout_s: 300,
        },
      );
      writeFileSync(join(on.work, 'flow'), '');
      const files = join(on.root, 'jobs/job_1');
      const newest = () =>
        readdirSync(files)
          .filter((name) => name.startsWith('out.'))
          .map((name) => Number(name.slice(4)))
          .sort((a, b) => b - a)[0] ?? 0;
      await eventually(
        () =>
          existsSync(join(files, `out.${newest()}`)) &&
          readFileSync(join(files, `out.${newest()}`), 'utf8').endsWith('last\n'),
      );
      const pieces = readdirSync(files).filter((name) => name.startsWith('out.'));
      expect(pieces).toHaveLength(3);
      expect(pieces.reduce((sum, name) => sum + statSync(join(files, name)).size, 0)).toBeLessThan(6 * 1024 * 1024);
      const look = (await on.use('jobs', { action: 'look', job: 'job_1' })).text;
      expect([...look].length).toBeLessThan(16_000);
      expect(look).toMatch(/\n\[bytes \d+ to \d+ are not shown; `offset` \d+ shows what is kept of them\]\n/);
      expect(look).toMatch(/\n2999999\n3000000\nlast\n$/);
      const first = (await on.use('jobs', { action: 'look', job: 'job_1', offset: 0 })).text;
      expect(first).toMatch(/\nbegun\n1\n2\n3\n/);
      const next = Number(/`offset` (\d+) shows more/.exec(first)?.[1]);
      expect((await on.use('jobs', { action: 'look', job: 'job_1', offset: next })).text).toContain('it goes on');
      writeFileSync(join(on.work, 'go'), '');
      expect((await on.use('jobs', { action: 'wait', job: 'job_1' })).text).toMatch(/^job_1: exit 0/);
    });

    test('a flood that ends is kept to its last byte', async () => {
      const on = desk();
      await begin(on, 'seq 1 200000; printf "caf\\303\\251 \\303"');
      const waited = (await on.use('jobs', { action: 'wait', job: 'job_1' })).text;
      const all = (await on.use('jobs', { action: 'look', job: 'job_1', offset: 1_288_800 })).text;
      expect(waited + all).toContain('199999\n200000\ncafé \ufffd');
    });
  },
);

test('pages that follow each other give the whole output, also through letters of several bytes', async () => {
  const on = deskWith();
  await on.use('shell', { command: 'for i in $(seq 1 2000); do echo "$i äöü 漢字 🙂"; done', background: true });
  const folder = join(on.root, 'jobs/job_1');
  await on.use('jobs', { action: 'wait', job: 'job_1' });
  let text = '';
  for (let at = 0, page = pageOf(folder, at, 777, false); page.to < page.total || page.text !== ''; ) {
    expect([...page.text].length).toBeLessThanOrEqual(777);
    text += page.text;
    at = page.to;
    page = pageOf(folder, at, 777, false);
  }
  expect(text).toBe(Array.from({ length: 2000 }, (_, n) => `${n + 1} äöü 漢字 🙂\n`).join(''));
});

test('a call that is repeated after a crash shows the same again', async () => {
  const on = deskWith();
  await on.use('shell', { command: 'echo one; sleep 300', background: true });
  writeFileSync(join(on.root, 'jobs/job_1/seen.json'), JSON.stringify({ call: 'call-2', from: 0, to: 4 }));
  expect((await on.use('jobs', { action: 'look', job: 'job_1' })).text).toContain('\none\n');
  expect((await on.use('jobs', { action: 'look', job: 'job_1' })).text).toContain('(nothing new)');
});

test('no more jobs run at once than are allowed, and the model is told which do', async () => {
  const on = deskWith();
  for (let n = 0; n < 5; n++)
    expect(await on.use('shell', { command: `sleep 30${n}`, background: true })).toMatchObject({ ok: true });
  const refused = await on.use('shell', { command: 'touch begun', background: true });
  expect(refused).toMatchObject({ ok: false });
  expect(refused.text).toMatch(/5 jobs may run at once \(`limits\.jobs`\).* job_1 \(sleep 300\), .*Nothing was begun/);
  await on.use('jobs', { action: 'stop', job: 'job_3' });
  expect((await on.use('shell', { command: 'touch begun; sleep 300', background: true })).text).toContain(
    'Begun as job_6',
  );
  expect(existsSync(join(on.work, 'begun'))).toBe(true);
  expect(await on.jobs.end(Number.MAX_SAFE_INTEGER)).toEqual([]);
});

test('arguments that do not fit are told with what would', async () => {
  const on = deskWith();
  await on.use('shell', { command: 'sleep 300', background: true });
  expect((await on.use('jobs', { action: 'look' })).text).toBe(
    '"look" wants `job`, the name of one of these: job_1; came none.',
  );
  expect((await on.use('jobs', { action: 'stop', job: 'job_2' })).text).toContain('came `job_2`');
  expect((await on.use('jobs', { action: 'pause', job: 'job_1' })).text).toMatch(/"list"|list/);
  expect(await on.use('jobs', { action: 'wait', job: 'job_1', seconds: 601 })).toMatchObject({ ok: false });
  const long = await on.use('shell', { command: 'true', timeout_s: 4000 });
  expect(long).toMatchObject({ ok: false });
  expect(long.text).toContain('runs with `background`');
  expect(await on.use('shell', { command: 'true', timeout_s: 86_401, background: true })).toMatchObject({ ok: false });
});

test('the end of a job is news until the model was told of it', async () => {
  const on = deskWith();
  await on.use('shell', { command: 'while [ ! -e go ]; do sleep 0.05; done; exit 4', background: true });
  expect(on.jobs.news()).toEqual([]);
  expect(on.jobs.running()).toEqual(['job_1 (while [ ! -e go ]; do sleep 0.05; done; exit 4)']);
  writeFileSync(join(on.work, 'go'), '');
  await eventually(() => on.jobs.running().length === 0);
  expect(on.jobs.news()).toEqual([expect.stringMatching(/^job_1 \(while .*\) has ended: exit 4\. /)]);
  expect(openShelf(join(on.root, 'jobs')).news()).toHaveLength(1);
  on.jobs.told();
  expect(on.jobs.news()).toEqual([]);
  expect(openShelf(join(on.root, 'jobs')).news()).toEqual([]);
});

test('a wait is given up when the run is stopped, and the job goes on', async () => {
  const on = deskWith();
  await on.use('shell', { command: 'sleep 300', background: true });
  const control = new AbortController();
  const waiting = on.use('jobs', { action: 'wait', job: 'job_1' }, control.signal);
  control.abort(new Error('stopped by a person'));
  await expect(waiting).rejects.toThrow('stopped by a person');
  expect(on.jobs.running()).toHaveLength(1);
});

test('a call that was begun for a daemon that is no more is answered with its job, and not begun twice', async () => {
  const on = deskWith();
  const args = { command: 'echo once >> ledger; sleep 300', background: true };
  await on.use('shell', args);
  const told = await on.resume('shell', args);
  expect(told?.text).toMatch(/^Begun as job_1\. /);
  expect(readFileSync(join(on.work, 'ledger'), 'utf8')).toBe('once\n');
  expect(await on.resume('shell', { ...args, command: 'other' })).toMatchObject({ ok: true });
});

test('a job whose supervisor has not begun never will once that was asked', async () => {
  const on = deskWith();
  const args = { command: 'sleep 300', background: true };
  await on.use('shell', args);
  const pid = join(on.root, 'jobs/job_1/pid');
  const was = readFileSync(pid, 'utf8');
  renameSync(pid, `${pid}.away`);
  expect((await on.resume('shell', args))?.text).toContain('Nothing was begun');
  expect(readFileSync(pid, 'utf8')).toBe('');
  renameSync(`${pid}.away`, pid);
  expect(was).not.toBe('');
});

test('the output of the ten jobs that ended last is kept, and no name is given twice', async () => {
  const on = deskWith();
  for (let n = 1; n <= 13; n++) await on.use('shell', { command: 'true', background: true });
  const names = on.jobs.all().map((job) => job.id);
  expect(names).toContain('job_13');
  expect(names).not.toContain('job_1');
  expect(names.length).toBeLessThanOrEqual(11);
});

test('a job of an earlier start of the machine has ended', async () => {
  const on = deskWith();
  await on.use('shell', { command: 'sleep 300', background: true });
  const pid = join(on.root, 'jobs/job_1/pid');
  const was = readFileSync(pid, 'utf8');
  writeFileSync(pid, was.replace(/\n.*\n$/, '\n11111111-2222-3333-4444-555555555555\n'));
  expect((await on.use('jobs', {})).text).toContain('the machine was started anew');
});
