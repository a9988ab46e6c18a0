import { expect, test } from 'vitest';
import type { SessionPorts } from '../../src/engine/ports/session-ports.ts';
import { resolveRules } from '../../src/protocol/settings/effective-settings.ts';
import { moves, type Rig, rig, shell } from '../support/rig.ts';

/** A session that wakes itself at each look would never rest. */
const MOST_WAKES = 200;

/** Ports that wake the session from inside, as they are called and once more when they answer. */
function wakingPorts(world: SessionPorts, wake: () => void): SessionPorts {
  const waking =
    <A extends unknown[], R>(run: (...args: A) => Promise<R>) =>
    async (...args: A): Promise<R> => {
      wake();
      const result = await run(...args);
      wake();
      return result;
    };
  const { store, model, tools, children } = world;
  const { eventLog, snapshots, inbox, outbox, plan, approvals } = store;
  return {
    ...world,
    reportIdle: wake,
    children: {
      send: waking(children.send),
      reply: waking(children.reply),
      waitingCalls: waking(children.waitingCalls),
      consume: waking(children.consume),
    },
    runSemaphore: { acquire: waking(world.runSemaphore.acquire) },
    model: { ...model, ask: waking(model.ask) },
    tools: { ...tools, checkPermission: waking(tools.checkPermission), run: waking(tools.run) },
    store: {
      ...store,
      eventLog: { ...eventLog, append: waking(eventLog.append), sync: waking(eventLog.sync) },
      inbox: { ...inbox, listReady: waking(inbox.listReady), moveToDone: waking(inbox.moveToDone) },
      outbox: { ...outbox, publish: waking(outbox.publish) },
      snapshots: { load: waking(snapshots.load), save: waking(snapshots.save) },
      approvals: {
        ...approvals,
        list: waking(approvals.list),
        read: waking(approvals.read),
        write: waking(approvals.write),
        archive: waking(approvals.archive),
      },
      plan: { ...plan, detectEdits: waking(plan.detectEdits), write: waking(plan.write) },
    },
  };
}

test('a session that waited for its settings goes on once, though reading them wakes it', async () => {
  let isFixed = false;
  let isReported = false;
  const it = await rig({
    script: moves({ text: 'I run it.', calls: [shell()] }, { text: 'It ran.' }),
    rules() {
      const rules = resolveRules();
      if (!isFixed) return { ...rules, settingsFault: 'session.json is not JSON' };
      if (!isReported) {
        isReported = true;
        it.worker.wake();
      }
      return rules;
    },
  });
  expect(await it.say('1.md', 'run it')).toContain('status: waiting');
  isFixed = true;
  await it.say('2.md', 'continue');
  expect([it.requests.length, it.toolRuns.length]).toEqual([2, 1]);
  expect(it.types().filter((type) => type.startsWith('run.'))).toEqual([
    'run.started',
    'run.ended',
    'run.resumed',
    'run.ended',
  ]);
});

test('limits that a message named hold however often its settings break, also over a restart and a pause', async () => {
  let settingsFault: string | null = null;
  const it = await rig({
    script: () => ({ text: '', calls: [shell()] }),
    rules: () => ({ ...resolveRules(), settingsFault }),
    tool: () => {
      settingsFault = 'session.json is not JSON';
      return { ok: true, text: 'It ran.' };
    },
  });
  await it.say('1.json', JSON.stringify({ text: 'run it', options: { limits: { iterations: 7 } } }));
  const repaired = async () => {
    settingsFault = null;
    await it.restart();
  };
  for (let n = 0; n < 3; n++) await repaired();
  settingsFault = null;
  await it.say('2.md', 'continue');
  const limits = () => it.events().flatMap((event) => (event.type === 'run.resumed' ? [event.limits] : []));
  expect(it.events().find((event) => event.type === 'run.started')).toMatchObject({ limits: { iterations: 7 } });
  expect(limits()).toMatchObject(Array(4).fill({ iterations: 7 }));
  await it.say('3.md', '/pause');
  await it.say('4.md', 'continue');
  expect(limits().at(-1)).toMatchObject({ iterations: 7 });
});

test.each([
  ['demo', true],
  ['demo~step_1', false],
])(
  'the reply of %s names a settings file that does not hold while earlier settings are in force: %s',
  async (name, does) => {
    const settingsWarning = 'demo/session.json is not JSON: line 1, column 3';
    const it = await rig({
      name,
      script: moves({ text: 'Hello.' }),
      rules: () => ({ ...resolveRules(), settingsWarning }),
    });
    expect(await it.say('1.md', 'Say hello.')).toContain('status: done');
    expect(it.reply('1.md')?.includes(settingsWarning)).toBe(does);
  },
);

test('a wake runs nothing before it returns', async () => {
  let asked = 0;
  const it = await rig({
    script: moves({ text: 'Hello.' }),
    rules() {
      asked++;
      return resolveRules();
    },
  });
  it.worker.wake();
  expect(asked).toBe(0);
  await it.settle();
  expect(asked).toBeGreaterThan(0);
});

test('a wake from inside every port, and while the rules are read, begins no second loop', async () => {
  let it: Rig | undefined;
  let left = MOST_WAKES;
  const wake = () => {
    if (left-- > 0) it?.worker.wake();
  };
  it = await rig({
    script: moves({ text: 'I run it.', calls: [shell()] }, { text: 'It ran.' }),
    rules() {
      wake();
      return resolveRules();
    },
    around: (world) => wakingPorts(world, wake),
  });
  it.drop('1.md', 'run it');
  for (let n = 0; n < 20; n++) await it.settle();
  expect(left).toBeLessThan(0);
  expect([it.requests.length, it.toolRuns.length]).toEqual([2, 1]);
  expect(it.reply('1.md')).toContain('status: done');
});
