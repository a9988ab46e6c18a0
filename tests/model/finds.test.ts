import { existsSync, readdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { openWorkspace } from '../../src/store/index.ts';
import { moves, rig } from '../support/rig.ts';
import { temporaryFolder } from '../support/temporary.ts';

// What the model-based tests and the soak found, cut down to its least.

test('of two who make a session at the same moment, the later one leaves nothing half-made behind', async () => {
  const root = temporaryFolder('finds');
  const workspace = openWorkspace(root, { now: () => new Date() });
  const both = await Promise.allSettled([workspace.create('demo'), workspace.create('demo')]);
  expect(both.map(({ status }) => status).sort()).toEqual(['fulfilled', 'rejected']);
  expect(readdirSync(workspace.paths.sessions)).toEqual(['demo']);
  expect(existsSync(join(workspace.paths.session('demo'), 'inbox'))).toBe(true);
});

test('what a session was about to record does not begin the event log of one that is made again under its name', async () => {
  const root = temporaryFolder('finds');
  const workspace = openWorkspace(root, { now: () => new Date() });
  await workspace.create('demo');
  const old = workspace.openSession('demo');
  await old.eventLog.read(() => {});
  rmSync(workspace.paths.session('demo'), { recursive: true });
  await workspace.create('demo');
  const late = old.eventLog.append([{ type: 'session.opened', format: 1, key: 'demo' }]);
  await expect(late).rejects.toThrow('removed or recreated while in use');
  expect(existsSync(join(workspace.paths.session('demo'), 'events.jsonl'))).toBe(false);
  await old.close();
});

test('after a crash, the plan before in plan.json is no save of a person, even where both plans have the same revision', async () => {
  const it = await rig({
    script: moves({ text: '[Step] Find it' }, { text: '[Done]' }, { text: '[Step] Count it' }, { text: '[Done]' }),
  });
  it.drop('1.md', 'Find it');
  await it.pass(300);
  const [before, text = ''] = [it.plan(), it.store.hands.planText()];
  it.drop('2.md', 'Count it');
  await it.pass(300);
  expect(it.plan()).toMatchObject({ goal: 'Count it', revision: before?.revision });
  // As it is when the daemon is killed before it puts the earlier plan away.
  it.store.hands.edit(text);
  await it.restart();
  it.drop('3.md', '/status');
  await it.pass(300);
  expect(it.types()).not.toContain('plan.edited');
  expect(it.plan()).toMatchObject({ goal: 'Count it', status: 'completed' });
});
