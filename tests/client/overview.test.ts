import { execFileSync } from 'node:child_process';
import * as fs from 'node:fs';
import { dirname } from 'node:path';
import { expect, test } from 'vitest';
import type { SessionOverview } from '../../src/client/inspect/session-overview.ts';
import { runHere } from '../support/agentctl-here.ts';
import { ended, opened, planned, received, record, rig, rigWithMessage, started } from './rig.ts';

test('a list has a line about each session: how it stands, how far it is, what waits in its inbox', async () => {
  const at = rig();
  expect(at.client.sessions()).toEqual([]);
  for (const name of ['busy', 'done', 'fresh', 'hurt']) await at.client.send(name, { text: 'x' });
  const first = [opened, received('1.md'), started('1.md'), ...planned('plan_1', 'Count')];
  await record(at.session('busy'), first);
  await record(at.session('done'), [...first, ...ended('1.md', 'plan_1')]);
  fs.writeFileSync(at.session('done').settings, '{ "title": "My title" }');
  await record(at.session('hurt'), first);
  const lines = fs.readFileSync(at.session('hurt').events, 'utf8').split('\n');
  fs.writeFileSync(at.session('hurt').events, [...lines.slice(0, 2), ...lines.slice(3)].join('\n'));
  const rows: SessionOverview[] = [];
  for await (const row of at.client.list()) rows.push(row);
  expect(
    rows.map(({ name, title, standing, plan, inbox }) => [
      name,
      title,
      standing,
      plan && [plan.completed, plan.total],
      inbox,
    ]),
  ).toEqual([
    ['busy', 'Count the words', 'running', [0, 1], 1],
    ['done', 'My title', 'completed', [1, 1], 1],
    ['fresh', null, 'none', null, 1],
    ['hurt', null, 'unreadable', null, 1],
  ]);
});

test('a session whose record cannot be trusted can still be put away', async () => {
  const at = rig();
  await at.client.send('demo', { text: 'x' });
  fs.writeFileSync(at.session('demo').events, '{"v":2,"seq":1}\n');
  await record(at.session('demo'), [opened, received('1.md'), started('1.md')]);
  await expect(at.client.archive('demo')).rejects.toMatchObject({ name: 'DaemonState' });
  const lines = fs.readFileSync(at.session('demo').events, 'utf8').split('\n');
  fs.writeFileSync(at.session('demo').events, lines.slice(1).join('\n'));
  expect(fs.existsSync(await at.client.archive('demo'))).toBe(true);
  expect(at.client.sessions()).toEqual([]);
});

test('a broken session.json is reported at its session and its children; that of a child counts for nothing', async () => {
  const at = rig();
  for (const name of ['demo', 'demo~step_1']) {
    fs.mkdirSync(at.session(name).folder, { recursive: true });
    await record(at.session(name), [opened, received('1.md'), started('1.md')]);
  }
  const shown = () => Promise.all(['demo', 'demo~step_1'].map((name) => at.client.show(name)));
  const reported = async () => (await shown()).map(({ settingsProblem }) => settingsProblem);
  fs.writeFileSync(at.session('demo~step_1').settings, '{ "title": "Mine", "sandbox": "none" }');
  expect((await shown()).map(({ title }) => title)).not.toContain('Mine');
  expect(await reported()).toEqual([null, null]);
  fs.writeFileSync(at.session('demo~step_1').settings, '{');
  expect(await reported()).toEqual([null, null]);
  fs.writeFileSync(at.session('demo').settings, '{');
  const fault = expect.stringContaining('demo/session.json is not JSON: line 1');
  expect(await reported()).toEqual([fault, fault]);
  for await (const { settings } of at.client.list()) expect(settings).toEqual(fault);
});

test('a broken plan.json, or a folder in its place, is in the list while the run is not over', async () => {
  const at = rig();
  const first = [opened, received('1.md'), started('1.md'), ...planned('plan_1', 'Count')];
  for (const name of ['busy', 'done']) {
    await at.client.send(name, { text: 'x' });
    await record(at.session(name), name === 'busy' ? first : [...first, ...ended('1.md', 'plan_1')]);
    fs.writeFileSync(at.session(name).plan, '{ "steps": [');
  }
  const listed = async () => {
    const rows: Record<string, string | null> = {};
    for await (const { name, plan_problem: problem } of at.client.list()) rows[name] = problem;
    return rows;
  };
  expect(await listed()).toEqual({ busy: expect.stringContaining('plan.json does not parse: line 1'), done: null });
  expect((await runHere(['list', '--workspace', at.client.paths.root])).out).toMatch(
    /busy .*plan\.json does not parse/,
  );
  fs.writeFileSync(at.session('busy').plan, '[]');
  expect(await listed()).toEqual({ busy: expect.stringContaining('plan.json'), done: null });
  fs.rmSync(at.session('busy').plan);
  fs.mkdirSync(at.session('busy').plan);
  expect(await listed()).toEqual({ busy: expect.stringContaining('Move it away'), done: null });
});

test('a pipe or a folder in place of session.json is reported, and holds up no list', async () => {
  const at = rig();
  await at.client.send('demo', { text: 'x' });
  const { settings } = at.session('demo');
  execFileSync('mkfifo', [settings]);
  expect((await at.client.show('demo')).settingsProblem).toContain('must be a file of at most 1 MiB');
  fs.rmSync(settings);
  fs.mkdirSync(settings);
  expect((await at.client.show('demo')).settingsProblem).toContain('must be a file of at most 1 MiB');
});

test('a plan.json that cannot be read is reported with line and column and what to do, from the file that is there now', async () => {
  const at = rig();
  const reported = async () => {
    const { value } = await at.client.list().next();
    return [(await at.client.show('demo')).planProblem, value?.plan_problem];
  };
  await at.client.send('demo', { text: 'x' });
  const paths = at.session('demo');
  await record(paths, [opened, received('1.md'), started('1.md'), ...planned('plan_1', 'Count')]);
  expect(await reported()).toEqual([null, null]);
  for (const [text, fault] of [
    ['{\n  "steps": [ ', 'line 2, column 14'],
    ['{ "steps":\n  [{ "description": 3 }] }', 'line 2, column 6, at steps.0.description'],
    ['{ "goal": "x" }', 'at steps'],
  ] as const) {
    fs.writeFileSync(paths.plan, text);
    const problem = expect.stringMatching(`${fault}[^]*Correct it, or move it away`);
    expect(await reported()).toEqual([problem, problem]);
  }
  fs.rmSync(paths.plan);
  fs.symlinkSync('/etc/passwd', paths.plan);
  const problem = expect.stringMatching('not a regular file.*Move it away');
  expect(await reported()).toEqual([problem, problem]);
});

test('show names each folder of a session that is a file, with what to do, and shows the rest', async () => {
  const at = await rigWithMessage();
  await record(at.paths, [opened, received('1.md'), started('1.md'), ...planned('plan_1', 'Count')]);
  const show = async (...flags: string[]) => {
    const { code, out } = await runHere(['show', 'demo', ...flags, '--workspace', at.root]);
    return [code, out] as const;
  };
  const rest = 'First of Count';
  const folders = ['outbox', 'outbox/read', 'rejected', 'approvals', 'approvals/answered', 'plans', 'plans/history'];
  for (const name of [...folders, 'jobs', 'done', 'work', 'tools', 'blobs', 'browser', 'inbox/.files']) {
    const folder = `${at.paths.folder}/${name}`;
    fs.rmSync(folder, { recursive: true, force: true });
    fs.mkdirSync(dirname(folder), { recursive: true });
    fs.writeFileSync(folder, '');
    const problem = `${folder} must be a folder, but something else is there. Move it away`;
    const [code, out] = await show();
    expect([name, code, out.split(problem).length]).toEqual([name, 0, 2]);
    expect(out, name).toContain(rest);
    const [, json] = await show('--json');
    expect(JSON.parse(json), name).toMatchObject({ folder_problems: [expect.stringContaining(problem)] });
    fs.rmSync(folder);
  }
  fs.rmSync(at.paths.inbox, { recursive: true });
  fs.writeFileSync(at.paths.inbox, '');
  expect((await show())[1].split('must be a folder')).toHaveLength(2);
  fs.rmSync(at.paths.inbox);
  expect(JSON.parse((await show('--json'))[1])).toMatchObject({ folder_problems: [], unserved: null });
});

test("show names what in the inbox is ignored for its name, and why; hidden files are nobody's business", async () => {
  const at = rig();
  await at.client.send('demo', { text: 'x' });
  for (const name of ['job.md.filepart', 'q.md.bak', '.hidden'])
    fs.writeFileSync(`${at.session('demo').inbox}/${name}`, 'Delete all');
  const shown = await at.client.show('demo');
  expect([shown.inbox, shown.ignored]).toEqual([
    1,
    expect.arrayContaining([
      { name: 'job.md.filepart', looks: 'an unfinished upload or download' },
      { name: 'q.md.bak', looks: 'a backup' },
    ]),
  ]);
  const { out } = await runHere(['show', 'demo', '--workspace', at.root]);
  expect(out).toContain('job.md.filepart: looks like an unfinished upload or download');
  expect(out).not.toContain('.hidden');
});
