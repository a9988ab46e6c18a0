import { expect, test } from 'vitest';
import { moves, rig, shell } from '../support/rig.ts';

const HOUR = 3_600_000;
const fault = { fault: ['unreachable', 'nobody there', { retry: true }] as const };

const failing = () => ({ fault: [...fault.fault] as [...typeof fault.fault] });

test.each([
  ['back', -HOUR],
  ['ahead', HOUR],
])('a retry pause is as long as it was when the time of day jumps an hour %s', async (_way, jump) => {
  const it = await rig({ script: moves(failing(), failing(), failing(), { text: 'All done.' }) });
  await it.say('1.md', 'go');
  expect(it.requests).toHaveLength(1);
  it.setClock(jump);
  await it.pass(400);
  expect(it.requests).toHaveLength(1);
  await it.pass(200);
  expect(it.requests).toHaveLength(2);
  it.setClock(-jump);
  await it.pass(1100);
  await it.pass(2100);
  expect(it.reply('1.md')).toContain('All done.');
});

test.each([
  ['back', -HOUR],
  ['ahead', HOUR],
])(
  'a jump of an hour %s in the middle of a run changes neither its end nor how long its calls took',
  async (_way, jump) => {
    const it = await rig({
      script: moves(
        { text: '[Step] a\n[Step] b', calls: [shell()] },
        { text: 'a is there [Done]', calls: [shell()] },
        { text: 'b is there [Done]' },
      ),
      config: { limits: { minutes: 30 } },
      tool: () => 'hold',
    });
    await it.say('1.md', 'go');
    it.setClock(jump);
    await it.letGo();
    it.release();
    await it.pass(10);
    expect(
      it
        .events()
        .filter((event) => event.type === 'tool.finished')
        .every((event) => event.ms >= 0 && event.ms < 1000),
    ).toBe(true);
    expect(it.plan()).toMatchObject({ status: 'completed' });
  },
);

test('without room on the disk nothing new is taken in, and all of it is answered when there is room again', async () => {
  const it = await rig({ script: moves({ text: 'Here I am.' }) });
  it.room = 'low';
  await it.say('1.md', 'hello');
  expect(it.types()).toEqual([]);
  it.room = 'ok';
  await it.wake();
  expect(it.reply('1.md')).toContain('Here I am.');
});

test('a run goes on while there is little room; with none its call ends, is recorded, and the next one waits', async () => {
  const it = await rig({
    script: moves({ text: '[Step] a', calls: [shell()] }, { text: 'a is there [Done]' }),
    tool: () => 'hold',
  });
  await it.say('1.md', 'go');
  it.room = 'full';
  await it.letGo();
  expect(it.types()).toContain('tool.finished');
  expect(it.requests).toHaveLength(1);
  await it.pass(5000);
  expect(it.requests).toHaveLength(1);
  it.room = 'low';
  await it.pass(1000);
  expect(it.reply('1.md')).toContain('a is there');
});
