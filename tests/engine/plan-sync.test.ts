import { expect, test } from 'vitest';
import type { Clock } from '../../src/engine/ports/session-ports.ts';
import type { PlanFile } from '../../src/engine/ports/store-ports.ts';
import { openPlanSync } from '../../src/engine/state/plan-sync.ts';
import { openSessionLog } from '../../src/engine/state/session-log.ts';
import type { EventBody } from '../../src/protocol/session/event.ts';
import { givenRecord } from '../support/given.ts';
import { memoryStore } from '../support/memory-store.ts';
import { moves, rig } from '../support/rig.ts';

/** A sync whose file takes `ms` to write, and when it was written after 2,000 changes of the plan, one each 10 ms. */
async function writtenAt(ms: number): Promise<number[]> {
  const store = memoryStore('demo');
  await store.eventLog.append(
    givenRecord({ plan: { status: 'running', steps: [{ id: 'step_1', status: 'running' }] } }),
  );
  const sessionLog = await openSessionLog('demo', store.eventLog, store.snapshots, () => 'abcdef');
  let time = 0;
  let due: { at: number; run: () => void } | undefined;
  const clock: Clock = {
    now: () => new Date(time),
    elapsed: () => time,
    after(wait, run) {
      due = { at: time + wait, run };
      return () => {
        due = undefined;
      };
    },
  };
  const written: number[] = [];
  const file: PlanFile = {
    ...store.plan,
    async write() {
      written.push(time);
      time += ms;
      return { is: 'missing' };
    },
  };
  const idle = () => new Promise(setImmediate);
  const setup = openPlanSync(file, sessionLog, clock, () => void setup.writePlanIfDue());
  while (time < 20_000) {
    // Another goal each time: what is in the file is out of date again.
    const change = { what: 'goal', from: 'A goal', to: `goal ${time}` } as const;
    await sessionLog.record([{ type: 'plan.edited', by: 'person', changes: [change], ignored: [] }]);
    setup.scheduleWrite();
    time += 10;
    const alarm = due && due.at <= time ? due : undefined;
    if (alarm) due = undefined;
    alarm?.run();
    await idle();
  }
  return written;
}

const pauses = (times: number[]): number[] => times.slice(1).map((time, place) => time - (times[place] ?? 0));

test('plan.json is written every 200 ms in a busy run', async () => {
  const gaps = pauses(await writtenAt(3));
  expect(Math.min(...gaps)).toBeGreaterThanOrEqual(200);
  expect(Math.max(...gaps)).toBeLessThanOrEqual(230);
});

test('where writing plan.json is slow it takes a twentieth of the time, and lags five seconds at most', async () => {
  const slow = pauses(await writtenAt(20));
  expect(Math.min(...slow)).toBeGreaterThanOrEqual(400);
  expect(Math.max(...slow)).toBeLessThanOrEqual(450);
  expect(Math.max(...pauses(await writtenAt(400)))).toBeLessThanOrEqual(5420);
});

test.each([
  { where: 'in its place', inPlace: true, order: ['save synced', 'logged', 'marked'] },
  { where: 'in the history', inPlace: false, order: ['save synced', 'logged', 'log synced', 'marked'] },
])(
  'a save found $where is on disk before the log says so, and marked once that cannot be lost',
  async ({ inPlace, order }) => {
    const store = memoryStore('demo');
    await store.eventLog.append(
      givenRecord({ plan: { status: 'running', steps: [{ id: 'step_1', status: 'running' }] } }),
    );
    const steps: string[] = [];
    const eventLog = {
      ...store.eventLog,
      async append(events: EventBody[]) {
        steps.push('logged');
        return store.eventLog.append(events);
      },
      async sync() {
        steps.push('log synced');
        await store.eventLog.sync();
      },
    };
    const sessionLog = await openSessionLog('demo', eventLog, store.snapshots, () => 'abcdef');
    const { plan } = sessionLog.session;
    const save = JSON.stringify({ ...plan, goal: 'Another goal' });
    const file: PlanFile = {
      ...store.plan,
      detectEdits: async () => ({ is: 'edited', saves: [save], inPlace }),
      sync: async () => void steps.push('save synced'),
      markSeen: () => void steps.push('marked'),
    };
    await openPlanSync(
      file,
      sessionLog,
      { now: () => new Date(0), elapsed: () => 0, after: () => () => {} },
      () => {},
    ).readEdits();
    expect(sessionLog.session.plan?.goal).toBe('Another goal');
    expect(steps).toEqual(order);
  },
);

test('opening a session that has had two plans leaves plan.json alone', async () => {
  const written: string[] = [];
  const it = await rig({
    script: moves(
      { text: '[Step] a' },
      { text: '[Done]' },
      { text: '[Step] b' },
      { text: '[Done]' },
      { text: 'Hello.' },
    ),
    around: (world) => ({
      ...world,
      store: {
        ...world.store,
        plan: {
          ...world.store.plan,
          write(text) {
            written.push(text);
            return world.store.plan.write(text);
          },
        },
      },
    }),
  });
  for (const [name, text] of [
    ['1.md', 'Do a'],
    ['2.md', 'Now do b'],
  ] as const) {
    await it.say(name, text);
  }
  expect(it.store.hands.plans().size).toBe(1);
  written.length = 0;
  await it.restart();
  expect(await it.say('3.md', 'hello')).toContain('Hello.');
  expect(written).toEqual([]);
});
