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
  const reply = await at.say('demo', '1.md', '/run weekly-report city="New York"');
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

test('a check that fails stops the runbook model at that step, and "continue" tries it again', async () => {
  const at = setup();
  writeFileSync(
    join(at.root, 'templates', 'pick.md'),
    '1. Pick: `grep -h Rome weather.csv > rows.csv || true`\n   - done when: {"file": "work/rows.csv", "min_bytes": 1}\n2. Count: `wc -l rows.csv`\n3. End: `true`\n',
  );
  await at.serve();
  expect(statusOf(await at.say('demo', '1.md', '/run pick'))).toBe('waiting');
  expect(at.plan('demo')?.steps.map((step) => step.status)).toEqual(['blocked', 'pending', 'pending']);
  at.sh('demo', 'echo "Rome,Mo,9" >> work/weather.csv; echo continue > inbox/2.md');
  expect(statusOf(await at.file('demo', 'outbox/2.md'))).toBe('done');
  expect(at.plan('demo')).toMatchObject({ status: 'completed' });
});
