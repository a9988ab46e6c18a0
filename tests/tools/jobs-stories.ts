import { readdirSync, readFileSync, renameSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { eventually, marked, setup as setupWith } from './tool-setup.ts';

/** For long jobs there is no need to wait for an early end. */
export const SOON_MS = 100;

let marks = 0;
/** A unique word in the command line of everything a test starts. */
const mark = () => `agentd-mark-${process.pid}-${++marks}`;

const sleeper = (word: string) => `bash -c 'sleep 300; true' ${word}`;
/** Does not end by a SIGTERM. */
const stubborn = (word: string) => `bash -c 'trap "" TERM; while :; do sleep 1; done' ${word}`;

/** Tests of jobs with and without a sandbox, in one file each, since they mostly wait. */
export function testJobs(mode: 'none' | 'auto'): void {
  describe(`jobs, with the sandbox on ${mode}:`, () => {
    const setup = (settleMs?: number) => setupWith({ sandbox: { mode }, ...(settleMs && { settleMs }) });
    const begin = (on: ReturnType<typeof setup>, command: string, more: object = {}) =>
      on.use('shell', { command, background: true, ...more });

    test('a background command answers while it runs, and each view continues where the last one ended', async () => {
      const on = setup();
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

    test('a command that fails at once is reported with its exit code and output', async () => {
      const on = setup();
      const failed = await begin(on, 'echo no such thing >&2; exit 7');
      expect(failed).toMatchObject({ ok: false, exit: 7 });
      expect(failed.text).toMatch(/^It has ended already\.\njob_1: exit 7, \d+ s ago: .*\nno such thing\n$/s);
      expect(await begin(on, 'kill -9 $$')).toMatchObject({ ok: false, exit: null });
      expect(await begin(on, 'true')).toMatchObject({ ok: true, exit: 0 });
      expect(on.jobs.listUnreported()).toEqual([]);
    });

    test('a stop ends the job with all its processes, also those that ignore it', async () => {
      const on = setup(SOON_MS);
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

    test('processes that a command leaves in the background end after it', async () => {
      const on = setup(SOON_MS);
      const word = mark();
      await begin(on, `${stubborn(word)} & ${sleeper(word)} & echo over`);
      await eventually(() => marked(word) === 0);
      // The output is new here unless it was already in the first answer.
      expect((await on.use('jobs', { action: 'wait', job: 'job_1' })).text).toMatch(
        /^job_1: exit 0, .*\n(\(nothing new\)|over\n)$/,
      );
    });

    test('a job ends by itself when its time is over', async () => {
      const on = setup(SOON_MS);
      const word = mark();
      await begin(on, sleeper(word), { timeout_s: 2 });
      expect((await on.use('jobs', { action: 'wait', job: 'job_1' })).text).toMatch(/^job_1: timed out after 2 s, /);
      expect(marked(word)).toBe(0);
    });

    test('a file `stop` in its folder ends it, whoever put it there', async () => {
      const on = setup(SOON_MS);
      const word = mark();
      await begin(on, stubborn(word));
      await eventually(() => marked(word) > 0);
      writeFileSync(join(on.root, 'jobs/job_1/stop'), '');
      // Its processes are gone a moment before its end is in the event log.
      expect((await on.use('jobs', { action: 'wait', job: 'job_1' })).text).toMatch(/^job_1: stopped by a person, /);
      expect(marked(word)).toBe(0);
    });

    test('moving the folder away ends its jobs', async () => {
      const on = setup(SOON_MS);
      const word = mark();
      await begin(on, sleeper(word));
      await eventually(() => marked(word) > 0);
      renameSync(join(on.root, 'jobs'), join(on.root, 'away'));
      await eventually(() => marked(word) === 0);
    });

    test('the beginning and the end of a flood are kept, and each view is bounded', async () => {
      const on = setup(SOON_MS);
      await begin(
        on,
        'while [ ! -e flow ]; do sleep 0.05; done; echo begun; seq 1 3000000; echo last; while [ ! -e go ]; do sleep 0.05; done',
        { timeout_s: 300 },
      );
      writeFileSync(join(on.work, 'flow'), '');
      const files = join(on.root, 'jobs/job_1');
      /** The newest piece of the output; '' if it was replaced meanwhile. */
      const newestPiece = () => {
        const [newest = 0] = readdirSync(files)
          .filter((name) => name.startsWith('out.'))
          .map((name) => Number(name.slice(4)))
          .sort((a, b) => b - a);
        try {
          return readFileSync(join(files, `out.${newest}`), 'utf8');
        } catch {
          return '';
        }
      };
      await eventually(() => newestPiece().endsWith('last\n'));
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
      const on = setup();
      await begin(on, 'seq 1 200000; printf "caf\\303\\251 \\303"');
      const waited = (await on.use('jobs', { action: 'wait', job: 'job_1' })).text;
      const all = (await on.use('jobs', { action: 'look', job: 'job_1', offset: 1_288_800 })).text;
      expect(waited + all).toContain('199999\n200000\ncafé \ufffd');
    });
  });
}
