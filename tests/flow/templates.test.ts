import { copyFileSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { ground, statusOf } from '../support/daemon.ts';

const DATA = 'city,day,c\nNew York,Mo,4\nParis,Mo,7\nNew York,Tu,6\n';

/** A workspace with the example of the docs, and its data in a session's work folder. */
function setup() {
  const at = ground();
  mkdirSync(join(at.root, 'templates'), { recursive: true });
  copyFileSync('examples/templates/weekly-report.md', join(at.root, 'templates', 'weekly-report.md'));
  at.config({ model: { name: 'runbook' }, sandbox: 'none' });
  at.sh('demo', 'mkdir -p inbox work');
  writeFileSync(join(at.session('demo'), 'work', 'weather.csv'), DATA);
  return at;
}

test('a template that is dropped as a message is worked through by the runbook model, its checks included', async () => {
  const at = setup();
  await at.serve();
  at.sh('demo', `echo '/run weekly-report city="New York"' > inbox/1.md`);
  const reply = await at.file('demo', 'outbox/1.md');
  expect(statusOf(reply)).toBe('done');
  expect(at.plan('demo')).toMatchObject({
    goal: "A report on the week's weather of a city",
    planned_by: 'template weekly-report',
    status: 'completed',
    limits: { iterations: 40 },
    steps: [
      { id: 'step_1', status: 'completed', description: 'Pick the rows of New York' },
      { id: 'step_2', status: 'completed', needs: ['step_1'] },
      { id: 'step_3', status: 'completed', needs: ['step_1', 'step_2'] },
    ],
  });
  expect(await at.file('demo', 'work/report.md')).toBe('# The week in New York\n\n2 days on record.\n');
});

test('a value that would be a command in a shell is none', async () => {
  const at = setup();
  writeFileSync(
    join(at.root, 'templates', 'say.md'),
    '---\nparameters: {word: }\n---\n1. Say {{word}}: `printf %s "$word" > said.txt`\n',
  );
  await at.serve();
  const evil = `'; touch hacked; echo \`touch hacked\` $(touch hacked) "`;
  writeFileSync(
    join(at.session('demo'), 'inbox', '1.msg.json'),
    JSON.stringify({ command: 'run', text: `say word=${JSON.stringify(evil)}` }),
  );
  expect(statusOf(await at.file('demo', 'outbox/1.msg.json'))).toBe('done');
  expect(await at.file('demo', 'work/said.txt')).toBe(evil);
  expect(at.sh('demo', 'find . -name hacked')).toBe('');
});

test('a check that fails stops the runbook model at that step, and "continue" tries it again', async () => {
  const at = setup();
  writeFileSync(
    join(at.root, 'templates', 'pick.md'),
    '1. Pick: `grep -h Rome weather.csv > rows.csv || true`\n   - done when: {"file": "work/rows.csv", "min_bytes": 1}\n2. Count: `wc -l rows.csv`\n3. End: `true`\n',
  );
  await at.serve();
  at.sh('demo', 'echo "/run pick" > inbox/1.md');
  expect(statusOf(await at.file('demo', 'outbox/1.md'))).toBe('waiting');
  expect(at.plan('demo')?.steps.map((step) => step.status)).toEqual(['blocked', 'pending', 'pending']);
  at.sh('demo', 'echo "Rome,Mo,9" >> work/weather.csv; echo continue > inbox/2.md');
  expect(statusOf(await at.file('demo', 'outbox/2.md'))).toBe('done');
  expect(at.plan('demo')).toMatchObject({ status: 'completed' });
});

test('a template that is edited while it runs, and a daemon that is killed then, change nothing of the run', async () => {
  const at = setup();
  const path = join(at.root, 'templates', 'slow.md');
  writeFileSync(
    path,
    '1. One: `touch began; while [ ! -e go ]; do sleep 0.05; done; echo one >> out.txt`\n2. Two: `echo two >> out.txt`\n',
  );
  const first = await at.start();
  at.sh('demo', 'echo "/run slow" > inbox/1.md');
  await at.file('demo', 'work/began');
  writeFileSync(path, '1. Wipe: `echo wiped >> out.txt`\n');
  first.process.kill('SIGKILL');
  await first.ended;
  await at.serve();
  at.sh('demo', 'touch work/go');
  expect(statusOf(await at.file('demo', 'outbox/1.md'))).toBe('done');
  expect(await at.file('demo', 'work/out.txt')).toBe('one\ntwo\n');
});
