import * as fs from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { type Setup, served } from '../support/agentctl.ts';
import { until } from '../support/daemon.ts';

const RUNBOOK = [
  '1. Write the report: `echo good > report.md; echo raw > data.csv`',
  '2. Spoil it: `echo spoilt > report.md; rm data.csv; mkdir -p extra; echo x > extra/new`',
  '3. Look: `cat report.md`',
].join('\n');

/** A session whose second step has spoilt a file that the first wrote. */
async function spoilt(): Promise<Setup> {
  const at = await served();
  expect((await at.here(['send', 'demo', RUNBOOK, '--wait'])).code).toBe(0);
  return at;
}

const work = (at: Setup, path: string): string => join(at.root, '.sessions/demo/work', path);

test('each step has a checkpoint, and "diff" says which step changed a file', async () => {
  const at = await spoilt();
  const log = (await at.here(['log', 'demo'])).out.split('\n').filter((line) => line.includes('work.saved'));
  expect(log.map((line) => line.replace(/^.*work\.saved +/, ''))).toEqual([
    '0 (run started), 0 added, 0 changed, 0 removed:',
    '1 (end of step_1), 2 added, 0 changed, 0 removed: data.csv, report.md',
    '2 (end of step_2), 1 added, 1 changed, 1 removed: data.csv, extra/new, report.md',
    '2 (end of step_3), 0 added, 0 changed, 0 removed:',
    '2 (run ended), 0 added, 0 changed, 0 removed:',
  ]);
  const step = await at.here(['diff', 'demo', 'step_2']);
  expect(step.out).toBe(
    'checkpoint 1 to checkpoint 2: 1 added, 1 changed, 1 removed\n- data.csv\n+ extra/new\n~ report.md\n',
  );
  const full = await at.here(['diff', 'demo', 'step_2', '--full']);
  expect(full.out).toContain('--- a/report.md\n+++ b/report.md\n@@ -1,1 +1,1 @@\n-good\n+spoilt\n');
  expect((await at.here(['why', 'demo', 'step_2'])).out).toContain(
    '    it changed in work/: data.csv (removed), extra/new (added), report.md.',
  );
  expect((await at.here(['show', 'demo'])).out).toContain('  step_1: data.csv (added), report.md (added)\n');
  expect((await at.here(['diff', 'demo'])).out).toBe('checkpoint 2 to now: 0 added, 0 changed, 0 removed\n');
  expect((await at.here(['files', 'demo', '--at', 'step_1'])).out).toMatch(/data\.csv\n.*report\.md\n$/s);
  expect(await at.here(['diff', 'demo', 'step_9'])).toMatchObject({
    code: 1,
    err: expect.stringContaining('step_2 (2)'),
  });
});

test('a restore says what it would do, does it, and is undone with the command that its reply names', async () => {
  const at = await spoilt();
  const dry = await at.here(['restore', 'demo', 'step_1', '--dry-run']);
  expect(dry.out).toBe(
    'To checkpoint 1:\n  bring back   data.csv\n  remove       extra/new\n  change back  report.md\n',
  );
  expect(await at.here(['restore', 'demo', 'step_1'])).toMatchObject({
    code: 2,
    err: expect.stringContaining('--yes'),
  });
  fs.writeFileSync(work(at, 'mine.txt'), 'of a person');
  const done = await at.here(['restore', 'demo', 'step_1', '--yes']);
  expect(done).toMatchObject({
    code: 0,
    out: 'Restored from checkpoint 1: 1 brought back, 1 changed back, 2 removed. To undo this: /restore 3\n',
  });
  expect([fs.readFileSync(work(at, 'report.md'), 'utf8'), fs.readdirSync(work(at, ''))]).toEqual([
    'good\n',
    ['data.csv', 'report.md'],
  ]);
  expect((await at.here(['send', 'demo', '/restore 3 mine.txt extra', '--wait'])).out).toContain('2 brought back');
  expect(fs.readFileSync(work(at, 'mine.txt'), 'utf8')).toBe('of a person');
  expect(fs.readFileSync(work(at, 'report.md'), 'utf8')).toBe('good\n');
});

test('during a run a restore is refused at once, and says what to do', async () => {
  const at = await served();
  const gate = join(at.root, 'gate');
  await at.here(['send', 'demo', `1. Write: \`echo a > a\`\n2. Wait: \`until test -e ${gate}; do sleep 0.05; done\``]);
  await at.has('.sessions/demo/checkpoints/1.json');
  const refused = await at.here(['send', 'demo', '/restore step_1', '--wait']);
  expect(refused).toMatchObject({ code: 1, out: expect.stringContaining('a run is active. Pause it first (/pause)') });
  fs.writeFileSync(gate, '');
});

test('"undo --files" reopens the step and restores what it changed, and nothing else', async () => {
  const at = await served();
  const steps = '1. Write: `echo good > report.md`\n2. Spoil: `echo spoilt > report.md; echo x > new`\n';
  await at.here(['send', 'demo', steps, '--wait']);
  fs.writeFileSync(work(at, 'mine.txt'), 'of a person');
  const undone = await at.here(['undo', 'demo', '--files', '--wait']);
  expect(undone.out).toBe(
    'Restored from checkpoint 1: 0 brought back, 1 changed back, 1 removed. To undo this: /restore 3\n"Spoil" is open again. Say "continue" to resume it.\n',
  );
  expect([fs.readdirSync(work(at, '')), fs.readFileSync(work(at, 'report.md'), 'utf8')]).toEqual([
    ['mine.txt', 'report.md'],
    'good\n',
  ]);
  expect((await at.here(['undo', 'demo', '--keep-files', '--wait'])).out).toContain('"Write" is open again');
  expect(fs.readFileSync(work(at, 'report.md'), 'utf8')).toBe('good\n');
});

test('an undo with files waits for no run: it is refused during one, and two in a row go back two steps', async () => {
  const at = await served();
  const gate = join(at.root, 'gate');
  const steps = ['echo one > a', 'echo two > a', `until test -e ${gate}; do sleep 0.05; done`];
  await at.here(['send', 'demo', steps.map((step, n) => `${n + 1}. Step ${n + 1}: \`${step}\``).join('\n')]);
  await at.has('.sessions/demo/checkpoints/2.json');
  const refused = await at.here(['send', 'demo', '/undo --files', '--wait']);
  expect(refused).toMatchObject({ code: 1, out: expect.stringContaining('a run is active. Pause it first (/pause)') });
  expect(fs.readFileSync(work(at, 'a'), 'utf8')).toBe('two\n');
  fs.writeFileSync(gate, '');
  const events = at.path('.sessions/demo/events.jsonl');
  await until(() => fs.readFileSync(events, 'utf8').includes('"plan.ended"'), 'the end of the run');
  for (const content of ['two\n', 'one\n', undefined]) {
    expect((await at.here(['undo', 'demo', '--files', '--wait'])).code).toBe(0);
    expect(fs.existsSync(work(at, 'a')) ? fs.readFileSync(work(at, 'a'), 'utf8') : undefined).toBe(content);
  }
});
