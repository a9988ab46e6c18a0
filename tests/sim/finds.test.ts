import { expect, test } from 'vitest';
import { moves, rig } from '../support/rig.ts';

// What the simulation found, cut down to its least.

test('a plan that was seen in plan.json is not taken out of the event log by a power cut', async () => {
  const it = await rig({
    script: moves(
      { text: '[Step] Find it\n[Step] Write it down', calls: [{ name: 'read_file', args: { path: 'a' } }] },
      { text: 'Where was I?' },
    ),
    // A safe call does not wait for the disk: while it is open, its answer may be in the event log and not yet durable.
    replay: () => 'safe',
    tool: () => 'hold',
  });
  it.drop('1.md', 'Find it and write it down');
  await it.pass(300);
  const seen = it.plan();
  expect(seen?.steps).toHaveLength(2);
  await it.restart({ powerCut: true });
  expect(it.events().find((event) => event.type === 'plan.started')).toMatchObject({ id: seen?.id });
});

test('a half-saved plan.json that is put away with its plan does not keep the next plan from being shown', async () => {
  const it = await rig({
    script: moves(
      { text: '[Step] Find it' },
      { text: 'Found. [Done]' },
      { text: '[Step] Count it' },
      { text: '[Done]' },
    ),
  });
  it.drop('1.md', 'Find it');
  await it.pass(300);
  it.store.hands.edit('{ "goal": "half a sa');
  it.drop('2.md', 'Count it');
  await it.pass(300);
  await it.pass(300);
  expect(it.plan()).toMatchObject({ goal: 'Count it', status: 'completed' });
});
