import * as fs from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { childSessionName } from '../../src/core/session/child-session.ts';
import type { EventBody } from '../../src/protocol/session/event.ts';
import { filesIn, script, setup } from '../support/agentctl.ts';
import { ended, opened, planned, pretendDaemon, type Rig, received, record, rig, started } from './rig.ts';

/** A session whose first plan made room for a second one; nothing but the event log is on disk. */
async function twoPlans(at: Rig) {
  await at.client.send('demo', { text: 'hello' });
  const paths = at.session('demo');
  for (const name of fs.readdirSync(paths.inbox)) fs.rmSync(join(paths.inbox, name), { recursive: true });
  await record(paths, [
    opened,
    received('1.md'),
    started('1.md'),
    ...planned('plan_1', 'Count'),
    ...ended('1.md', 'plan_1'),
    received('2.json', 'Draw'),
    started('2.json'),
    ...planned('plan_2', 'Draw'),
    ...ended('2.json', 'plan_2'),
  ]);
  return paths;
}

test('what a daemon wrote is rebuilt byte for byte after all of it was deleted', async () => {
  const at = setup();
  const daemon = await at.serve(
    '--model',
    script(at, [
      { when: 'notes', text: '[Step] Look\n[Step] Tell', calls: [{ name: 'list_files', args: {} }] },
      { when: 'notes', text: '[Done] looked' },
      { when: 'notes', text: '[Done] told' },
      { when: 'draw', text: '[Step] Draw\n[Step] Show', calls: [{ name: 'list_files', args: {} }] },
      { when: 'draw', text: '[Done] drawn' },
    ]),
  );
  const session = at.path('.sessions/demo');
  fs.mkdirSync(join(session, 'inbox'), { recursive: true });
  fs.writeFileSync(join(session, 'inbox/1.md'), 'Look at the notes');
  await at.has('.sessions/demo/outbox/1.md');
  await at.ctl(['send', 'demo', 'Now draw', '--iterations', '2', '--wait']);
  daemon.child.kill('SIGTERM');
  await daemon.ended;
  const projections = () => ({
    plan: fs.readFileSync(join(session, 'plan.json'), 'utf8'),
    replies: filesIn(join(session, 'outbox')),
    plans: fs
      .readdirSync(join(session, 'plans'))
      .filter((name) => name.endsWith('.json'))
      .map((name) => [name, fs.readFileSync(join(session, 'plans', name), 'utf8')]),
  });
  const before = projections();
  expect([Object.keys(before.replies).length, before.plans.length]).toEqual([2, 1]);
  for (const name of ['plan.json', 'plans', 'outbox']) fs.rmSync(join(session, name), { recursive: true });
  expect((await at.ctl(['rebuild', 'demo'])).code).toBe(0);
  expect(projections()).toEqual(before);
  expect((await at.ctl(['rebuild', 'demo'])).out).toBe('4 of 4 files already matched the event log.\n');
});

test('the plan that left, the plan that is there and missing replies are written; a reply that was read stays away', async () => {
  const at = rig();
  const paths = await twoPlans(at);
  fs.writeFileSync(join(paths.outboxRead, '1.md'), 'taken');
  const rebuilt = await at.client.rebuild('demo');
  expect(rebuilt.map(({ path, is }) => `${is} ${path}`)).toEqual([
    'written plan.json',
    'written plans/plan_1.json',
    'left outbox/read/1.md',
    'written outbox/2.json',
  ]);
  expect(JSON.parse(fs.readFileSync(paths.plan, 'utf8'))).toMatchObject({ id: 'plan_2', status: 'completed' });
  expect(fs.existsSync(join(paths.outbox, '1.md'))).toBe(false);
  expect(JSON.parse(fs.readFileSync(join(paths.outbox, '2.json'), 'utf8'))).toMatchObject({ in_reply_to: '2.json' });
});

test('an earlier version of the plan is brought up to date', async () => {
  const at = rig();
  const paths = await twoPlans(at);
  await at.client.rebuild('demo');
  fs.copyFileSync(join(paths.plans, 'plan_1.json'), paths.plan);
  expect((await at.client.rebuild('demo'))[0]).toEqual({ path: 'plan.json', is: 'written' });
  expect(JSON.parse(fs.readFileSync(paths.plan, 'utf8'))).toMatchObject({ id: 'plan_2' });
});

test('a hand edit that was not taken in is left as it is, and said', async () => {
  const at = rig();
  const paths = await twoPlans(at);
  await at.client.rebuild('demo');
  for (const edit of ['{ "steps": [', fs.readFileSync(paths.plan, 'utf8').replace('First of Draw', 'Draw it blue')]) {
    fs.writeFileSync(paths.plan, edit);
    const [plan] = await at.client.rebuild('demo');
    expect(plan).toMatchObject({ path: 'plan.json', is: 'left', why: expect.stringContaining('a hand edit') });
    expect(fs.readFileSync(paths.plan, 'utf8')).toBe(edit);
  }
});

test('a plan.json that the event log has put away is taken away', async () => {
  const at = rig();
  const paths = await twoPlans(at);
  await at.client.rebuild('demo');
  await record(paths, [{ type: 'context.compacted', upto: 16, summary: '' }]);
  const rebuilt = await at.client.rebuild('demo');
  expect(rebuilt[0]).toMatchObject({ path: 'plan.json', is: 'removed' });
  expect(fs.existsSync(paths.plan)).toBe(false);
  expect(JSON.parse(fs.readFileSync(join(paths.plans, 'plan_2.json'), 'utf8'))).toMatchObject({ id: 'plan_2' });
});

test('a hand edit stays also where the event log has no plan any more', async () => {
  const at = rig();
  const paths = await twoPlans(at);
  await record(paths, [{ type: 'context.compacted', upto: 16, summary: '' }]);
  fs.writeFileSync(paths.plan, '{ "steps": [{ "description": "Mine" }] }');
  expect((await at.client.rebuild('demo'))[0]).toMatchObject({ path: 'plan.json', is: 'left' });
  expect(fs.readFileSync(paths.plan, 'utf8')).toContain('Mine');
});

test('nothing is rebuilt while a daemon is at work in the session; while it only stands by, all is', async () => {
  const at = rig();
  const paths = await twoPlans(at);
  pretendDaemon(at);
  await expect(at.client.rebuild('demo')).resolves.toHaveLength(4);
  await record(paths, [received('3.md'), started('3.md')]);
  await expect(at.client.rebuild('demo')).rejects.toMatchObject({ name: 'DaemonState' });
});

test('an event log that cannot be trusted is reported, and no file is touched', async () => {
  const at = rig();
  const paths = await twoPlans(at);
  const lines = fs.readFileSync(paths.events, 'utf8').split('\n');
  fs.writeFileSync(paths.events, [...lines.slice(0, 3), ...lines.slice(4)].join('\n'));
  await expect(at.client.rebuild('demo')).rejects.toMatchObject({ name: 'CorruptLogError' });
  expect([fs.existsSync(paths.plan), fs.readdirSync(paths.outbox)]).toEqual([false, ['.tmp', 'read']]);
});

test('child sessions keep their place in a renamed session, also where a long name was hashed, and after an interruption', async () => {
  const at = rig();
  const STEP = 'find_the_largest_of_all_files_in_it';
  const long = 'r'.repeat(215);
  const given = (child: string, step: string): EventBody => ({
    ...{ type: 'child.sent', child, step, attempt: 1, message: `${step}.1` },
  });
  const hashed = childSessionName(`${long}~${STEP}`, 'step_1', 1);
  const build: Array<[string, EventBody[]]> = [
    [long, [given(`${long}~${STEP}`, STEP)]],
    [`${long}~${STEP}`, [given(hashed, 'step_1')]],
    [hashed, []],
  ];
  for (const [name, events] of build) {
    fs.mkdirSync(at.session(name).folder, { recursive: true });
    await record(at.session(name), [opened, ...events]);
  }
  const names = () => fs.readdirSync(at.client.paths.sessions).sort();
  const before = names();
  expect(hashed).toMatch(/~h2-[0-9a-f]{24}$/);
  await at.client.rename(long, 'short');
  expect(names()).toEqual(['short', `short~${STEP}`, `short~${STEP}~step_1`]);
  await expect(at.client.rename('short', 'r'.repeat(221))).rejects.toThrow(/at most 220 bytes/);
  expect(names()).toHaveLength(3);
  fs.renameSync(at.session(`short~${STEP}`).folder, at.session(`${long}~${STEP}`).folder);
  await at.client.rename('short', long);
  expect(names()).toEqual(before);
});
