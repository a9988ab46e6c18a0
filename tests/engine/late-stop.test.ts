import { expect, test } from 'vitest';
import { rig } from '../support/rig.ts';

const files = (from: number) => Array.from({ length: 70 }, (_, n) => `note-${String(from + n).padStart(3, '0')}.md`);

test('a stop dropped while the daemon was down takes effect before anything goes on, among any number of messages', async () => {
  let asked = 0;
  const it = await rig({
    script: () => {
      if (it.reply('stop.md') === undefined) asked++;
      return { hold: true };
    },
  });
  await it.say('1.md', 'Draw a chart');
  it.kill();
  // In the first round of the inbox are the oldest 64, and of those behind them only the newest 64 may go ahead.
  for (const name of files(0)) it.store.hands.drop(name, 'one more fact');
  it.store.hands.drop('stop.md', 'stop');
  for (const name of files(100)) it.store.hands.drop(name, 'one more fact');
  await it.restart();
  await it.pass(300);
  expect(it.reply('stop.md')).toContain('Stopped');
  expect(it.reply('1.md')).toContain('status: paused');
  expect(asked).toBe(1);
  const before = it.types().slice(0, it.types().indexOf('run.ended'));
  expect(before.filter((type) => type === 'message.received').length).toBeGreaterThan(65);
});
