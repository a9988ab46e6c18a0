import { spawnSync } from 'node:child_process';
import * as fs from 'node:fs';
import { dirname, join } from 'node:path';
import { expect, onTestFinished, test, vi } from 'vitest';
import { type OutgoingEdit, orderPlanEdit } from '../../src/client/actions/plan-orders.ts';
import { openPlanWorkingCopy } from '../../src/client/actions/plan-working-copy.ts';
import { readSession } from '../../src/client/sessions/session-folders.ts';
import { formatPlanFile } from '../../src/core/plan/plan-steps.ts';
import { bootId } from '../../src/store/fs/process-identity.ts';
import { now, opened, planned, received, record, rig, rigWithMessage, started } from './rig.ts';

async function withPlan() {
  const { client, paths } = await rigWithMessage();
  await record(paths, [opened, received('1.md'), started('1.md'), ...planned('plan_1', 'Count')]);
  const { session } = await client.show('demo');
  if (session.plan) fs.writeFileSync(paths.plan, formatPlanFile(session.plan));
  return {
    paths: { ...paths, name: 'demo' },
    open: () => openPlanWorkingCopy(paths.folder, now()),
    lock: join(paths.folder, '.plan.edit.lock'),
  };
}

test('an edit is put in the place of plan.json by a rename, and leaves nothing behind', async () => {
  const { paths, open } = await withPlan();
  const [before, files] = [fs.statSync(paths.plan).ino, fs.readdirSync(paths.folder)];
  const edit = await open();
  const text = fs.readFileSync(edit.path, 'utf8').replace('First of Count', 'Count them');
  fs.writeFileSync(edit.path, text);
  expect([edit.problem(), await edit.save()]).toEqual([null, true]);
  edit.close({ keep: false });
  expect(fs.readFileSync(paths.plan, 'utf8')).toBe(text);
  expect(fs.statSync(paths.plan).ino).not.toBe(before);
  expect(fs.readdirSync(paths.folder)).toEqual(files);
  expect(fs.existsSync(dirname(edit.path))).toBe(false);
});

test('an edit that changed nothing saves nothing, whatever the daemon wrote meanwhile', async () => {
  const { paths, open } = await withPlan();
  const edit = await open();
  fs.writeFileSync(paths.plan, '{ "steps": [] }');
  expect(await edit.save()).toBe(false);
  edit.close({ keep: false });
  expect(fs.readFileSync(paths.plan, 'utf8')).toBe('{ "steps": [] }');
});

test('what is wrong with the copy is reported with line and column, and the copy can be kept', async () => {
  const { open } = await withPlan();
  const edit = await open();
  fs.writeFileSync(edit.path, '{\n  "steps": [ ');
  expect(edit.problem()).toContain('line 2, column 14');
  edit.close({ keep: true });
  expect(fs.existsSync(edit.path)).toBe(true);
  fs.rmSync(dirname(edit.path), { recursive: true });
  expect(edit.problem()).toContain('no file');
});

test('a second edit of the same plan is refused until the first has ended', async () => {
  const { open, lock } = await withPlan();
  const first = await open();
  await expect(open()).rejects.toThrow(`already being edited by process ${process.pid}`);
  first.close({ keep: false });
  expect(fs.existsSync(lock)).toBe(false);
  (await open()).close({ keep: false });
});

test('a lock whose process is gone, or that makes no sense, is taken over', async () => {
  const { open, lock } = await withPlan();
  const { pid } = spawnSync(process.execPath, ['--version']);
  const gone = { version: 1, pid, start_time: '1', boot_id: bootId(), host: 'here', at: now().toISOString() };
  for (const stale of [JSON.stringify(gone), 'nonsense']) {
    fs.writeFileSync(lock, stale);
    (await open()).close({ keep: false });
    expect(fs.existsSync(lock)).toBe(false);
  }
});

test('where there is no plan.json there is nothing to edit, and no lock is left', async () => {
  const { paths, open, lock } = await withPlan();
  fs.rmSync(paths.plan);
  await expect(open()).rejects.toThrow('There is no plan to edit');
  expect(fs.existsSync(lock)).toBe(false);
});

/** The plan in the event log, and an order to add a step to it. */
async function withOrder() {
  const at = await withPlan();
  const { plan } = await readSession(at.paths);
  if (!plan) throw new Error('no plan');
  const { id, revision, steps } = plan;
  const edit = { id, revision, steps: [...steps, { description: 'Mail it' }] };
  const send = (order: OutgoingEdit = { edit }) => orderPlanEdit(at.paths, order, { id: 'o1', isServed: () => false });
  return { ...at, plan, edit, send };
}

test('without a daemon an edit waits in the inbox, with its author and what they may do', async () => {
  const { paths, plan, edit, send } = await withOrder();
  const sender = { from: 'bob', by: 'agent', rights: { role: 'send' } } as const;
  const given = { ...edit, status: 'paused', steps: [...edit.steps, { description: 'x', result: 'not theirs' }] };
  const answer = await send({ ...sender, edit: given });
  expect(answer).toEqual({ is: 'waiting', id: 'o1', why: expect.stringContaining('No daemon is running') });
  const file = JSON.parse(fs.readFileSync(join(paths.inbox, 'o1.msg.json'), 'utf8'));
  expect(file).toMatchObject({ id: 'o1', ...sender, command: 'edit', edit: { id: plan.id, revision: plan.revision } });
  expect(file.edit.steps.at(-1)).toEqual({ description: 'x' });
  expect(fs.readFileSync(paths.plan, 'utf8')).toBe(formatPlanFile(plan));
});

test('an edit is answered by the event that carries it out, or refuses it', async () => {
  for (const refused of [undefined, 'forbidden'] as const) {
    const { paths, plan, edit } = await withOrder();
    const added = { what: 'added', at: 2, step: { id: 'step_3', description: 'Mail it', status: 'pending' } } as const;
    const file = { ino: '9', mtime_ns: '9', sha256: '9', ctime_ns: '1' };
    const taken = refused ? { changes: [], ignored: ['bob may not'], refused } : { changes: [added], ignored: ['x'] };
    const order = orderPlanEdit(paths, { edit }, { id: 'o1', isServed: () => true });
    const recorded = (async () => {
      await record(paths, [{ type: 'plan.edited', by: 'person', order: 'another', file, changes: [], ignored: [] }]);
      await record(paths, [{ type: 'plan.edited', by: 'person', order: 'o1', file, ...taken }]);
    })();
    const [answer] = await Promise.allSettled([order, recorded]);
    const after = { id: plan.id, revision: plan.revision + 1, steps: [{}, { description: 'Mail it' }] };
    expect(answer).toMatchObject(
      refused
        ? { reason: { why: refused, message: 'Not saved: bob may not.' } }
        : { value: { is: 'recorded', taken: ['step_3 was added: Mail it'], ignored: ['x'], plan: after } },
    );
  }
});

test('an edit of another plan, or where there is none, is refused before anything is written', async () => {
  const { paths, edit, send } = await withOrder();
  const before = fs.readdirSync(paths.inbox);
  await expect(send({ edit: { ...edit, id: 'plan_9' } })).rejects.toMatchObject({ why: 'other' });
  const at = rig();
  await at.client.send('empty', { text: 'x' });
  await expect(at.client.editPlan('empty', { edit })).rejects.toMatchObject({ why: 'none' });
  expect(fs.readdirSync(paths.inbox)).toEqual(before);
});

test('a saved working copy has the daemon look at the session, and leaves nothing in its inbox', async () => {
  const { paths, open } = await withPlan();
  const received = new Set<string | null>();
  const watcher = fs.watch(paths.inbox, (_, file) => received.add(file));
  onTestFinished(() => watcher.close());
  const edit = await open();
  fs.writeFileSync(edit.path, fs.readFileSync(edit.path, 'utf8').replace('First of Count', 'Count them'));
  await edit.save();
  edit.close({ keep: false });
  await vi.waitFor(() => expect(received).toContain('.wake'));
  expect(fs.readdirSync(paths.inbox)).not.toContain('.wake');
});
