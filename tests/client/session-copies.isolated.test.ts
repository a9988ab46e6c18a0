import * as fs from 'node:fs';
import { join } from 'node:path';
import { afterEach, expect, test } from 'vitest';
import { openClient } from '../../src/client/index.ts';
import { type Setup, setup } from '../support/agentctl.ts';
import { dieAt, picture, revive } from '../support/dying-disk.ts';

afterEach(revive);

/** A workspace with a session of two steps, whose daemon has ended. */
async function worked(): Promise<Setup> {
  const at = setup();
  const daemon = await at.serveHere('--model', 'runbook');
  const steps = '1. Write: `echo one > a; mkdir -p b; echo x > b/c; ln -s a l`\n2. Change: `echo two > a`';
  expect((await at.here(['send', 'demo', steps, '--wait'])).code).toBe(0);
  await daemon.stop();
  return at;
}

const MOST_CHANGES = 2000;

/** Names of people: what was begun and not ended has one that begins with a dot, and goes at the next start. */
const visible = (folder: string) => fs.readdirSync(folder).filter((name) => !name.startsWith('.'));

/** Cuts an operation off before each of its changes of the disk in turn; `check` sees what is left of each. */
async function cutOffEverywhere(operation: () => Promise<unknown>, check: (at: number) => unknown): Promise<number> {
  for (let at = 1; ; at++) {
    dieAt(at);
    const fault = await operation().then(
      () => undefined,
      (error: unknown) => error,
    );
    revive();
    if (fault === undefined) return at;
    // Whatever is wrong with the operation itself must not cut it off for ever.
    if (at > MOST_CHANGES) throw fault;
    await check(at);
  }
}

test('a fork that is cut off before any of its writes is not there, the original is as it was, and the next fork is whole', async () => {
  const at = await worked();
  const sessions = at.path('.sessions');
  const original = picture(join(sessions, 'demo'));
  const fork = () => openClient(at.root).forkSession('demo', 'step_1', 'other');
  const cuts = await cutOffEverywhere(fork, (cut) => expect(visible(sessions), `cut at ${cut}`).toEqual(['demo']));
  expect(cuts).toBeGreaterThan(20);
  expect(picture(join(sessions, 'demo'))).toEqual(original);
  expect(fs.readFileSync(join(sessions, 'other/work/a'), 'utf8')).toBe('one\n');
  await at.serveHere('--model', 'runbook');
  expect((await at.here(['continue', 'other', '--wait'])).code).toBe(0);
  expect(fs.readFileSync(join(sessions, 'other/work/a'), 'utf8')).toBe('two\n');
}, 60_000);

test('an export or import that is cut off before any of its writes leaves nothing under a name of its own, and the next is whole', async () => {
  const at = await worked();
  const file = at.path('..', 'demo.tar');
  const write = async () => {
    const { code } = await at.here(['export', 'demo', '--output', file]);
    if (code !== 0) throw new Error('not written');
  };
  const exportCuts = await cutOffEverywhere(write, (cut) => expect(fs.existsSync(file), `cut at ${cut}`).toBe(false));
  expect(exportCuts).toBeGreaterThan(3);
  const other = setup();
  fs.mkdirSync(other.path('.sessions'), { recursive: true, mode: 0o700 });
  const take = () => openClient(other.root).importSessions(fs.createReadStream(file));
  const [there, here] = [at, other].map((one) => one.path('.sessions/demo'));
  const wanted = picture(join(there ?? '', 'work'));
  // After the last one it is there, and only what it was unpacked in is not yet removed.
  const cuts = await cutOffEverywhere(take, (cut) => {
    if (visible(other.path('.sessions')).length === 0) return;
    expect(picture(join(here ?? '', 'work')), `cut at ${cut}`).toEqual(wanted);
    fs.rmSync(here ?? '', { recursive: true });
  });
  expect(cuts).toBeGreaterThan(20);
  expect(picture(join(here ?? '', 'work'))).toEqual(wanted);
}, 60_000);
