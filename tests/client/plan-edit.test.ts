import { spawnSync } from 'node:child_process';
import * as fs from 'node:fs';
import { dirname, join } from 'node:path';
import { expect, onTestFinished, test, vi } from 'vitest';
import { openPlanWorkingCopy, savePlan } from '../../src/client/actions/plan-save.ts';
import { readSession } from '../../src/client/sessions/session-folders.ts';
import { parseEditedPlan } from '../../src/core/plan/edited-plan.ts';
import { mergePlanEdit } from '../../src/core/plan/merge-edit.ts';
import { formatPlanFile } from '../../src/core/plan/plan-steps.ts';
import type { Plan } from '../../src/protocol/session/plan.ts';
import { sha256Hex } from '../../src/store/fs/file-reads.ts';
import { bootId } from '../../src/store/fs/process-identity.ts';
import { now, opened, planned, received, record, rig, started } from './rig.ts';

async function withPlan() {
  const at = rig();
  await at.client.send('demo', { text: 'x' });
  const paths = at.session('demo');
  await record(paths, [opened, received('1.md'), started('1.md'), ...planned('plan_1', 'Count')]);
  const { session } = await at.client.show('demo');
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

test('two edits saved at once are both in the file', async () => {
  const { paths } = await withPlan();
  const plan = JSON.parse(fs.readFileSync(paths.plan, 'utf8'));
  const withStep = (description: string) => JSON.stringify({ ...plan, steps: [...plan.steps, { description }] });
  await Promise.all(['Mail it', 'Print it'].map((description) => savePlan(paths, withStep(description))));
  const text = fs.readFileSync(paths.plan, 'utf8');
  expect(text).toContain('Mail it');
  expect(text).toContain('Print it');
});

test('the answer of a save is edited further: before the daemon has recorded the save, and after', async () => {
  const { paths } = await withPlan();
  const descriptions = ({ steps }: Plan) => steps.map(({ description }) => description);
  const { plan: before } = await readSession(paths);
  if (!before) throw new Error('no plan');
  const added = await savePlan(
    paths,
    JSON.stringify({ ...before, steps: [...before.steps, { description: 'Mail it' }] }),
  );
  const moved = { ...added.plan, steps: added.plan.steps.toReversed() };
  const wanted = descriptions(before).toReversed();
  const atOnce = await savePlan(paths, JSON.stringify(moved));
  expect(descriptions(atOnce.plan)).toEqual(['Mail it', ...wanted]);

  await recordSave(paths, before);
  const { plan: recorded } = await readSession(paths);
  expect(recorded?.revision).toBeGreaterThan(atOnce.plan.revision);
  const reworded = atOnce.plan.steps.map((step) =>
    step.description === 'Mail it' ? { ...step, description: 'Print it' } : step,
  );
  const later = await savePlan(paths, JSON.stringify({ ...atOnce.plan, steps: reworded }));
  expect(descriptions(later.plan)).toEqual(['Print it', ...wanted]);
  expect(later.taken).toHaveLength(1);
});

test('an edit that names the save it began from takes back what that save did', async () => {
  const { paths } = await withPlan();
  const { plan: before } = await readSession(paths);
  const [first, ...others] = before?.steps ?? [];
  if (!before || !first) throw new Error('no plan');
  const skipped = JSON.stringify({ ...before, steps: [{ ...first, status: 'skipped' }, ...others] });
  const reopened = [{ ...first, status: 'pending' }, ...others];
  for (const isRecorded of [false, true]) {
    const { plan, save } = await savePlan(paths, skipped);
    expect(plan.steps[0]?.status).toBe('skipped');
    if (isRecorded) await recordSave(paths, before);
    const again = await savePlan(paths, JSON.stringify({ ...plan, steps: reopened }), { save });
    expect(again.plan.steps[0]?.status).toBe('pending');
    if (!isRecorded) fs.writeFileSync(paths.plan, formatPlanFile(before));
  }
});

/** Records the save in `plan.json` as the daemon does. */
async function recordSave(paths: Awaited<ReturnType<typeof withPlan>>['paths'], base: Plan): Promise<void> {
  const text = fs.readFileSync(paths.plan, 'utf8');
  const read = parseEditedPlan(text, base.steps);
  if ('fault' in read) throw new Error(read.fault);
  const { changes, ignored, save } = mergePlanEdit(base, read.edit, base, base.steps.length, read.raw);
  const saved = save && { ...save, sha256: sha256Hex(text) };
  await record(paths, [{ type: 'plan.edited', by: 'person', changes, ignored, ...(saved && { save: saved }) }]);
}

test('an edit that was saved before is kept although plan.json is away for an instant', async () => {
  const { paths } = await withPlan();
  const plan = JSON.parse(fs.readFileSync(paths.plan, 'utf8'));
  const withStep = (description: string) => JSON.stringify({ ...plan, steps: [...plan.steps, { description }] });
  await savePlan(paths, withStep('Mail it'));
  const away = `${paths.plan}.away`;
  fs.renameSync(paths.plan, away);
  const saved = savePlan(paths, withStep('Print it'));
  setTimeout(() => fs.renameSync(away, paths.plan), 15);
  expect((await saved).plan.steps.map(({ description }) => description)).toEqual(
    expect.arrayContaining(['Mail it', 'Print it']),
  );
});

test('a save has the daemon look at the session, and leaves nothing in its inbox', async () => {
  const { paths } = await withPlan();
  const received = new Set<string | null>();
  const watcher = fs.watch(paths.inbox, (_, file) => received.add(file));
  onTestFinished(() => watcher.close());
  const plan = JSON.parse(fs.readFileSync(paths.plan, 'utf8'));
  await savePlan(paths, JSON.stringify({ ...plan, steps: [...plan.steps, { description: 'Mail it' }] }));
  await vi.waitFor(() => expect(received).toContain('.wake'));
  expect(fs.readdirSync(paths.inbox)).not.toContain('.wake');
});
