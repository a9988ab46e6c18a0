import { expect, test } from 'vitest';
import { moves, type RigOptions, rig, shell } from '../support/rig.ts';

/** A daemon that was killed while a command ran, and the next one. */
async function restarted(options: Partial<RigOptions>) {
  const it = await rig({
    script: moves({ text: '', calls: [shell()] }, { text: 'Looked.' }),
    tool: () => 'hold',
    ...options,
  });
  await it.say('1.md', 'go');
  expect(it.toolRuns).toHaveLength(1);
  it.kill();
  await it.restart();
  return it;
}

const reported = (it: Awaited<ReturnType<typeof restarted>>) => JSON.stringify(it.requests.at(-1)?.messages);
const ends = (it: Awaited<ReturnType<typeof restarted>>) =>
  it.events().filter((event) => event.type === 'tool.finished' || event.type === 'tool.interrupted');

test('a call that was open takes the result that is known of it, and does not run again', async () => {
  const it = await restarted({ resume: () => ({ ok: true, text: 'exit 0\nit went well' }) });
  expect(ends(it)).toMatchObject([{ type: 'tool.finished', ok: true }]);
  expect(it.toolRuns).toHaveLength(1);
  expect(reported(it)).toContain('it went well');
  expect(it.reply('1.md')).toContain('Looked.');
});

test('of a call that nobody knows of no success is claimed', async () => {
  const it = await restarted({ resume: () => null });
  expect(ends(it)).toMatchObject([{ type: 'tool.interrupted', outcome: 'unknown' }]);
  expect(it.toolRuns).toHaveLength(1);
  expect(reported(it)).toContain('may or may not have run');
});

test('a call that still runs is waited for, and a person may stop it', async () => {
  const waited = await restarted({ resume: () => 'hold' });
  expect(ends(waited)).toEqual([]);
  await waited.letGo();
  expect(ends(waited)).toMatchObject([{ type: 'tool.finished' }]);

  const stopped = await restarted({ resume: () => 'hold' });
  await stopped.say('2.md', 'stop');
  await stopped.pass(300);
  expect(ends(stopped)).toMatchObject([{ type: 'tool.interrupted', outcome: 'unknown' }]);
  expect(stopped.reply('1.md')).toContain('paused');
  expect(stopped.toolRuns).toHaveLength(1);
});

test('a call that is safe runs again, and nobody is asked what became of it', async () => {
  let runs = 0;
  const it = await restarted({
    replay: () => 'safe',
    tool: () => (++runs === 1 ? 'hold' : { ok: true, text: 'again' }),
  });
  expect(it.toolRuns).toHaveLength(2);
  expect(it.resumed).toEqual([]);
});
