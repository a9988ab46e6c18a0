import { expect, test } from 'vitest';
import type { SessionReach } from '../../src/protocol/workspace/daemon-files.ts';
import { NO_NOTES } from '../../src/protocol/workspace/memory-notes.ts';
import { type Move, moves, type Rig, type RigOptions, rig, shell } from '../support/rig.ts';

const NOTES = { ...NO_NOTES, memory: { workspace: 'the code is 4711', session: 'of this session' } };
const ana = { from: 'ana', rights: { role: 'send', sessions: [['report-*']] } };
const ben = { from: 'ben', rights: { role: 'send', sessions: [['*-1', 'x']] } };
const all = { from: 'cleo', rights: { role: 'send', sessions: [['team', '*']] } };
const call: Move = { calls: [shell()] };
const held: Move = { hold: true, next: () => call };

/** A session, and the reach of each call of a tool in it. */
async function open(script: Move[], more: Partial<RigOptions> = {}): Promise<Rig & { reaches: SessionReach[] }> {
  const reaches: SessionReach[] = [];
  const it = await rig({
    script: moves(...script),
    notes: () => NOTES,
    around: (world) => ({
      ...world,
      tools: {
        ...world.tools,
        run(one, context) {
          reaches.push(context.reach ?? []);
          return world.tools.run(one, context);
        },
      },
    }),
    ...more,
  });
  return Object.assign(it, { reaches });
}

async function send(it: Rig, name: string, text: string, sender: object = {}): Promise<void> {
  await it.say(name, JSON.stringify({ text, ...sender }));
}

/** Whether a request has the note for all sessions; by default the last one. */
const knowsCode = (it: Rig, request = -1): boolean =>
  String(it.requests.at(request)?.messages[0]?.content).includes('4711');

test('a run reaches the sessions that its sender may see, and is shown the notes for all only if that is all', async () => {
  for (const [sender, reach] of [
    [{}, []],
    [all, []],
    [ana, [['report-*']]],
  ] as const) {
    const it = await open([call, { text: 'Done.' }]);
    await send(it, '1.json', 'look', sender);
    expect([it.reaches, knowsCode(it)]).toEqual([[reach], reach.length === 0]);
    expect(String(it.requests[0]?.messages[0]?.content)).toContain('of this session');
  }
});

test('a run that several joined reaches what all of them may see, from the request on that has their words', async () => {
  const it = await open([held, call, { text: 'Done.' }]);
  await send(it, '1.json', 'look', {});
  expect(knowsCode(it)).toBe(true);
  await send(it, '2.json', 'and at Zed', ana);
  await it.letGo();
  expect(it.reaches).toEqual([[], [['report-*']]]);
  expect([0, 1, 2].map((request) => knowsCode(it, request))).toEqual([true, false, false]);
});

test('whoever resumes a run adds to those who have a part in it, also after a restart and after another task', async () => {
  const steps: Move = { text: '[Step] A\n[Step] B\n[Blocked: go on?]' };
  const it = await open([steps, call, { text: '[Blocked: and now?]' }, { text: 'Hello.' }, call, { text: 'Done.' }]);
  await send(it, '1.json', 'work', ana);
  await it.restart();
  await send(it, '2.json', 'continue', ben);
  expect(it.reaches).toEqual([[['report-*'], ['*-1', 'x']]]);
  await send(it, '3.json', '/pause');
  await send(it, '4.json', 'new task: say hello', {});
  expect(knowsCode(it)).toBe(true);
  const { id } = it.plan() ?? {};
  await send(it, '5.json', `/continue ${id}`, {});
  expect(it.reaches.at(-1)).toEqual([['report-*'], ['*-1', 'x']]);
});

test('an edit of the plan is a part in it; the next task of the owner reaches everything again', async () => {
  const it = await open([
    { text: '[Step] A\n[Blocked: go on?]' },
    call,
    { text: 'Done. [Done]' },
    call,
    { text: 'Yes.' },
  ]);
  await send(it, '1.json', 'work', {});
  const { id, revision, steps = [] } = it.plan() ?? {};
  const edit = { id, revision, steps: steps.map((step) => ({ ...step, description: 'Recall the pay' })) };
  await it.say('e.json', JSON.stringify({ command: 'edit', ...ana, edit }));
  await send(it, '2.json', 'continue', {});
  expect(it.reaches).toEqual([[['report-*']]]);
  expect(it.plan()?.status).toBe('completed');
  await send(it, '3.json', 'what is the pay?', {});
  expect(it.reaches.at(-1)).toEqual([]);
});

test('a child session reaches no more than the run that it works for', async () => {
  const spawn = { name: 'spawn', args: { task: 'look at Zed' } };
  const it = await open([{ calls: [spawn] }, { text: 'Done.' }]);
  await send(it, '1.json', 'look', ana);
  expect(it.children.sent[0]?.message).toMatchObject({ from: 'demo', rights: { sessions: [['report-*']] } });
});
