import { expect, test } from 'vitest';
import type { Permission } from '../../src/engine/ports/tool-ports.ts';
import type { EventOf } from '../../src/protocol/session/event.ts';
import type { Config } from '../../src/protocol/settings/config.ts';
import { givenRecord } from '../support/given.ts';
import { type Move, moves, type Rig, rig } from '../support/rig.ts';

const GIVEN = {
  plan: {
    id: 'plan_1',
    goal: 'Report',
    status: 'paused',
    steps: [
      { id: 'step_1', status: 'running', description: 'Find' },
      { id: 'step_2', status: 'pending', description: 'Draw' },
    ],
  },
};
const ASK: Permission = { is: 'ask', why: 'no sandbox', rule: false, display: 'id', always: 'x' };
const CHECKS = [{ command: 'id', exit: 0 }];

/** A paused plan whose checks need approval. */
async function paused(config: Config = {}, ...script: Move[]): Promise<Rig> {
  const it = await rig({
    config,
    before: givenRecord(GIVEN),
    script: moves(...script),
    permit: ({ name }) => (name === 'check' ? ASK : { is: 'allow' }),
  });
  await it.wake();
  return it;
}

/** Drops an order to edit the plan as it is now. */
async function order(
  it: Rig,
  edit: object | ((steps: object[]) => object[]),
  sender: object = {},
  name = 'e.json',
): Promise<EventOf<'plan.edited'> | undefined> {
  const { id, revision, steps = [] } = it.plan() ?? {};
  const wanted = typeof edit === 'function' ? { id, revision, steps: edit(steps) } : edit;
  await it.say(name, JSON.stringify({ command: 'edit', ...sender, edit: wanted }));
  return it.events().findLast((event) => event.type === 'plan.edited');
}

const withCheck = (steps: object[]) =>
  steps.map((step, place) => (place === 0 ? { ...step, done_when: CHECKS } : step));

async function closeFirst(it: Rig): Promise<string[]> {
  await it.say('c.md', 'continue');
  return it.types().filter((type) => type === 'approval.asked' || type === 'step.completed');
}
const DONE: Move = { text: 'Found. [Done]' };

test.each([
  ['a person without the right to approve', { from: 'bob', rights: { role: 'send' } }, ['approval.asked']],
  ['a model of another program', { by: 'agent', rights: { role: 'send' } }, ['approval.asked']],
  ['a person who may approve', { from: 'ana', rights: { role: 'approve' } }, ['step.completed']],
  ['the owner', {}, ['step.completed']],
])('a check written by %s asks, or runs as their own instruction', async (_, sender, expected) => {
  const it = await paused({}, DONE, { hold: true });
  expect((await order(it, withCheck, sender))?.changes).toHaveLength(1);
  expect((await closeFirst(it)).slice(0, 1)).toEqual(expected);
  expect(it.toolRuns.length).toBe(expected[0] === 'approval.asked' ? 0 : 1);
});

test('whoever writes a check last decides whether it asks; other edits of its step leave that as it is', async () => {
  const bob = { from: 'bob', rights: { role: 'send' } };
  for (const [first, second, asks] of [
    [{}, bob, true],
    [bob, {}, false],
  ] as const) {
    const it = await paused({}, DONE, { hold: true });
    await order(it, withCheck, first, '1.json');
    const other = [{ command: 'id -u', exit: 0 }];
    await order(
      it,
      (steps) => withCheck(steps).map((step) => ({ ...step, ...('done_when' in step && { done_when: other }) })),
      second,
      '2.json',
    );
    expect((await closeFirst(it)).includes('approval.asked')).toBe(asks);
  }
  const it = await paused({}, DONE, { hold: true });
  await order(it, withCheck, {}, '1.json');
  await order(it, (steps) => steps.map((step) => ({ ...step, description: 'Look' })), bob, '2.json');
  expect(await closeFirst(it)).not.toContain('approval.asked');
});

test('a step added with a check by somebody who may not approve asks too', async () => {
  const it = await paused({}, DONE, { text: 'Mailed. [Done]' }, { hold: true });
  const added = { id: 'step_9', description: 'Mail', done_when: CHECKS };
  await order(it, (steps) => [...steps.slice(0, 1), added], { from: 'bob', rights: { role: 'send' } });
  await it.say('c.md', 'continue');
  expect(it.types()).toContain('approval.asked');
  expect(it.toolRuns).toEqual([]);
});

test('the log says who edited, and a step that another agent closed was closed by no person', async () => {
  const it = await paused();
  const close = (steps: object[]) => steps.map((step) => ({ ...step, status: 'completed' }));
  const agent = { from: 'codex', by: 'agent', rights: { role: 'send' } };
  expect(await order(it, close, agent)).toMatchObject({
    by: 'agent',
    from: 'codex',
    rights: { role: 'send' },
    order: 'e.json',
  });
  expect(it.plan()?.steps).toMatchObject([{ completed_by: 'agent' }, { completed_by: 'agent' }]);
  const reopened = await paused();
  reopened.drop('s.json', JSON.stringify({ command: 'plan', text: 'skip step_2', ...agent }));
  await reopened.say('u.json', JSON.stringify({ command: 'undo', ...agent }));
  expect(reopened.events().find(({ type }) => type === 'plan.edited')).toMatchObject({ by: 'agent', from: 'codex' });
  expect(reopened.events().find(({ type }) => type === 'step.reopened')).toMatchObject({ by: 'agent' });
});

test('an order is carried out once and gets no reply, also if its file comes again after a power cut', async () => {
  const it = await paused();
  const add = (steps: object[]) => [...steps, { description: 'Mail it' }];
  await order(it, add, { id: 'o1' });
  expect(it.store.hands.waiting()).toEqual([]);
  const [file = ''] = it.store.hands.done();
  await it.restart();
  it.store.hands.putBack(file, 'e.json');
  await it.wake();
  await order(it, add, { id: 'o1' }, 'same-id.json');
  expect(it.plan()?.steps.map((step) => step.description)).toEqual(['Find', 'Draw', 'Mail it']);
  expect([...it.store.hands.replies().keys()].filter((name) => name === 'e.json')).toEqual([]);
});

test('an edit of an earlier revision is merged with what happened since: a new step stays after the one it followed', async () => {
  const it = await paused();
  const { id, revision, steps = [] } = it.plan() ?? {};
  await order(it, (now) => [...now, { description: 'Mail it' }], {}, '1.json');
  await order(it, { id, revision, steps: [...steps.slice(1), steps[0]] }, {}, '2.json');
  expect(it.plan()?.steps.map(({ description }) => description)).toEqual(['Draw', 'Mail it', 'Find']);
});

test.each([
  ['forbidden', { senders: ['ana'] }, { from: 'bob', rights: { role: 'send' } }, {}],
  ['forbidden', { senders: ['ana'] }, { from: 'bob' }, {}],
  ['forbidden', {}, { from: 'rae', rights: { role: 'read' } }, {}],
  ['other', {}, {}, { id: 'plan_9' }],
  ['unknown', {}, {}, { revision: 99 }],
  ['invalid', {}, {}, { steps: Array.from({ length: 5001 }, () => ({ description: 'x' })) }],
])('an order is refused as %s, with the reason, and changes nothing', async (refused, config, sender, more) => {
  const it = await paused(config);
  const before = it.plan();
  const edited = await order(it, { id: before?.id, steps: [{ description: 'Mail it' }], ...more }, sender);
  expect(edited).toMatchObject({ refused, changes: [], ignored: [expect.stringMatching(/\w{3}/)] });
  expect(it.plan()).toEqual(before);
  expect(it.store.hands.waiting()).toEqual([]);
});

test('without a plan an order is refused, and a message with a broken order is rejected', async () => {
  const it = await rig({ script: moves({ text: 'Hello.' }) });
  await it.say('1.md', 'hello');
  expect(await order(it, { steps: [] })).toMatchObject({ refused: 'none' });
  it.drop('2.json', JSON.stringify({ command: 'edit', text: 'x', edit: { steps: [] } }));
  await it.say('3.json', JSON.stringify({ command: 'edit', edit: { steps: [{ description: '' }] } }));
  expect(it.reply('2.json')).toContain('without \\"text\\"');
  expect(it.reply('3.json')).toContain('rejected');
});
