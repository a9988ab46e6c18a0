import { expect, test } from 'vitest';
import type { Checkpoints, RestoreOrder, SaveOrder } from '../../src/engine/ports/store-ports.ts';
import { type RigOptions, rig } from '../support/rig.ts';

const NO_CHANGES = { added: 0, changed: 0, removed: 0 };

/** Checkpoints that are numbers only. `fails`: what goes wrong with one. */
function counted(fails: (what: 'save' | 'restore', n: number) => unknown = () => undefined) {
  const saves: SaveOrder[] = [];
  const restores: RestoreOrder[] = [];
  const port: Checkpoints = {
    isOn: true,
    async save(order) {
      saves.push(order);
      const fault = await fails('save', saves.length);
      if (fault) throw fault;
      return { checkpoint: saves.length, counts: NO_CHANGES, files: [], leftOut: 0 };
    },
    async restore(order) {
      restores.push(order);
      const fault = await fails('restore', restores.length);
      if (fault) throw fault;
      return { ...NO_CHANGES, changed: 1 };
    },
  };
  return { saves, restores, port };
}

/** What is awaited until it is released. */
function hold() {
  let release = () => {};
  return { held: new Promise<void>((done) => (release = done)), release: () => release() };
}

const STEPS = '[Step] Look\n[Step] Tell';
const twoSteps: RigOptions['script'] = (_, n) =>
  [
    { text: STEPS, calls: [{ name: 'shell' }] },
    { text: '[Done]', calls: [{ name: 'shell' }] },
    { text: '[Done] All is told.' },
  ][n] ?? { text: 'Nothing more.' };

const withPort = (port: Checkpoints, more: Partial<RigOptions> = {}): RigOptions => ({
  script: twoSteps,
  around: (world) => ({ ...world, checkpoints: port }),
  ...more,
});

test('a checkpoint is taken at the start and the end of a run and at the end of each step, and never during a call', async () => {
  const { saves, port } = counted();
  const at = await rig(withPort(port));
  await at.say('1.msg.md', 'Look and tell.');
  expect(saves.map(({ why, steps, last }) => [why, ...steps, last])).toEqual([
    ['run_started', 0],
    ['step_ended', 'step_1', 1],
    ['step_ended', 'step_2', 2],
    ['run_ended', 3],
  ]);
  const types = at.types();
  for (const [place, type] of types.entries())
    if (type === 'work.saved') expect(types[place - 1]).not.toBe('tool.started');
  expect(types.lastIndexOf('work.saved')).toBeLessThan(types.lastIndexOf('reply.published'));
  expect(at.reply('1.msg.md')).toContain('All is told.');
});

test('a run is answered after its last checkpoint, also if a message comes meanwhile, and the last reply is the last event', async () => {
  const { held, release } = hold();
  const { port } = counted((what, n) => (what === 'save' && n === 4 ? held : undefined));
  const at = await rig(withPort(port));
  await at.say('1.msg.md', 'Look and tell.');
  await at.say('2.msg.md', '/status');
  expect(at.types().at(-1)).toBe('message.received');
  release();
  await at.settle();
  const published = at.events().filter((event) => event.type === 'reply.published');
  expect(published).toMatchObject([{ message: '1.msg.md' }, { message: '2.msg.md', idle: true }]);
  expect(at.events().at(-1)).toBe(published[1]);
});

test('work goes on without a checkpoint that cannot be taken, and the log says why', async () => {
  const { port } = counted((what) => what === 'save' && new Error('the disk is broken'));
  const at = await rig(withPort(port));
  expect(await at.say('1.msg.md', 'Look and tell.')).toContain('All is told.');
  const faults = at.events().flatMap((event) => (event.type === 'work.saved' ? [event.fault] : []));
  expect(faults).toEqual(Array(4).fill('the disk is broken'));
  expect(await at.say('2.msg.md', '/restore step_1')).toContain('No step of this plan has a checkpoint yet.');
});

test('a restore keeps what is there first, and one that a power cut interrupted is completed with that checkpoint', async () => {
  const { held, release } = hold();
  let isCut = true;
  const { saves, restores, port } = counted((what) => (what === 'restore' && isCut ? held : undefined));
  const at = await rig(withPort(port));
  await at.say('1.msg.md', 'Look and tell.');
  await at.say('2.msg.md', '/restore step_1 "a file.txt" b.txt');
  expect(at.types().at(-1)).toBe('work.saved');
  isCut = false;
  await at.restart({ powerCut: true });
  await at.settle();
  release();
  expect(saves.filter(({ why }) => why === 'rescue')).toHaveLength(1);
  expect(restores[0]).toMatchObject({ checkpoint: 2, paths: ['a file.txt', 'b.txt'], save: { needed: [5] } });
  expect(at.reply('2.msg.md')).toContain('Restored from checkpoint 2');
  expect(at.reply('2.msg.md')).toContain('/restore 5');
  await at.say('3.msg.md', 'Look again.');
  expect(JSON.stringify(at.requests.at(-1))).toContain('A person restored a file in work/');
});

test('nothing is restored while a background command runs', async () => {
  const { restores, port } = counted();
  const at = await rig(
    withPort(port, {
      around: (world) => ({
        ...world,
        checkpoints: port,
        jobs: {
          listUnreported: () => [],
          markAllReported() {},
          listRunning: () => ['job_1 (sleep 9)'],
          end: async () => [],
        },
      }),
    }),
  );
  await at.say('1.msg.md', 'Look and tell.');
  expect(await at.say('2.msg.md', '/restore 1')).toContain('background commands may write in work/ (job_1 (sleep 9))');
  expect(restores).toEqual([]);
  expect(at.events().filter((event) => event.type === 'work.saved' && event.concurrent)).toHaveLength(4);
});
