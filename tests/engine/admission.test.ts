import { expect, test } from 'vitest';
import { rig } from '../support/rig.ts';

const fill = (it: Awaited<ReturnType<typeof rig>>, count: number) => {
  for (let n = 0; n < count; n++) it.store.hands.drop(`${String(n).padStart(4, '0')}.md`, `task ${n}`);
};
const taken = (it: Awaited<ReturnType<typeof rig>>) =>
  it.events().filter((event) => event.type === 'message.received').length;

test('of a thousand messages only those there is room for are taken; the rest stay in the inbox', async () => {
  const it = await rig({ script: () => ({ hold: true }) });
  fill(it, 1000);
  await it.wake();
  expect(taken(it)).toBe(256);
  expect(it.store.hands.waiting()).toHaveLength(744);
});

test('a command behind a flood is handled at once, a task beside it is not', async () => {
  const it = await rig({ script: () => ({ hold: true }) });
  fill(it, 1000);
  await it.wake();
  it.drop('later.md', 'one more task');
  expect(await it.say('how.md', '/status')).toContain('task 0');
  expect(taken(it)).toBe(257);
  expect(await it.say('stop.md', 'stop')).toContain('Stopped');
  expect(it.store.hands.waiting()).toContain('later.md');
});

test('messages found together are tasks of their own, in order, however many they are', async () => {
  const it = await rig({ script: () => ({ text: 'ok' }) });
  fill(it, 600);
  it.worker.wake();
  for (let n = 0; n < 300 && it.store.hands.replies().size < 600; n++) await it.settle();
  const started = it.events().flatMap((event) => (event.type === 'run.started' ? [event.message] : []));
  expect(started).toHaveLength(600);
  expect(started).toEqual([...started].sort());
  expect([...it.store.hands.replies().values()].filter((reply) => !/^status: done$/m.test(reply))).toEqual([]);
  expect(it.requests).toHaveLength(600);
});

test('a message whose name is as long as a file system allows is answered under that name', async () => {
  const long = `${'n'.repeat(252)}.md`;
  const it = await rig({ script: () => ({ text: 'Hello.' }) });
  await it.say(long, 'hi');
  expect(it.reply(long)).toContain('Hello.');
  await it.say(long, 'hi again');
  const [second = ''] = it
    .events()
    .flatMap((event) => (event.type === 'reply.published' ? [event.message] : []))
    .slice(1);
  expect(second).not.toBe(long);
  expect(second.length).toBeLessThan(255);
  expect(it.reply(second)).toContain('Hello.');
});
