import * as fs from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, onTestFinished, test } from 'vitest';
import { openLiveText } from '../../src/store/session/outbox.ts';
import { temporaryFolder } from '../support/temporary.ts';

function rig() {
  const folder = temporaryFolder('live');
  const path = join(folder, 'live');
  const live = openLiveText(path);
  onTestFinished(() => live.close());
  const holds = async (text: string) => {
    for (let n = 0; n < 200 && fs.readFileSync(path, 'utf8') !== text; n++) await sleep(10);
    return fs.readFileSync(path, 'utf8') === text;
  };
  return { path, live, holds };
}

test('live holds the text of the call in flight, and nothing of the one before', async () => {
  const { live, holds } = rig();
  for (const call of ['first', 'second, which is longer', 'third']) {
    live.begin();
    for (const piece of call.split(/(?=,)/)) live.write(piece);
    expect(await holds(call)).toBe(true);
  }
});

test('a call without text leaves nothing in live', async () => {
  const { live, holds } = rig();
  live.begin();
  live.write('words');
  live.begin();
  expect(await holds('')).toBe(true);
});

test('text that is still waiting when its call ends is dropped', async () => {
  const { live, path, holds } = rig();
  live.begin();
  live.write('words');
  live.begin();
  live.write('those of a quick answer');
  live.end();
  expect(await holds('')).toBe(true);
  // What comes after the emptying was queued before this.
  await fs.promises.stat(path);
  expect(fs.readFileSync(path, 'utf8')).toBe('');
});

test('live may be closed at any moment, and anything but a file there is left alone', async () => {
  const { live, path, holds } = rig();
  live.begin();
  live.write('words');
  live.begin();
  live.write('more');
  live.close();
  live.write('after its end');
  expect(await holds('')).toBe(true);
  fs.rmSync(path);
  fs.mkdirSync(path);
  live.begin();
  live.write('x');
  expect(fs.readdirSync(path)).toEqual([]);
});
