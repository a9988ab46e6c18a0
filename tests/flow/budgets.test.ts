import * as fs from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { ground, inFolder, until } from '../support/daemon.ts';
import { modelServer } from '../support/temporary.ts';

/** An answer of 16,000 tokens costs a little less than 1, which is what is held back for it. */
const PRICES = { input: 0, output: 1e6 / 16_384 };
const USAGE = { prompt_tokens: 10, completion_tokens: 16_000, total_tokens: 16_010 };

/** A model that never comes to an end, and a workspace that pays for it. */
async function withPaidModel(budgets: object) {
  let asked = 0;
  const server = await modelServer(() => {
    asked += 1;
    return { text: 'looking', calls: [{ name: 'list_files', args: '{"path":"."}' }], usage: USAGE };
  });
  const on = ground();
  on.config({ model: { prices: PRICES }, limits: { repeats: 0, iterations: 1000 }, budgets });
  return { on, flags: server.flags, asked: () => asked };
}

test('a run that waits for its budget goes on at once when a person raises it and says "continue"', async () => {
  const { on, flags, asked } = await withPaidModel({ day: { cost: 0.5 } });
  await on.serve(flags);
  on.sh('demo', 'mkdir -p inbox && echo "look around" > inbox/1.md');
  const failed = () => on.events('demo').find((event) => event.type === 'model.failed');
  await until(failed, 'the budget to be used up');
  expect(failed()).toMatchObject({
    kind: 'budget',
    error: expect.stringContaining('budgets.day.cost: 0.98 of 0.5 is used up'),
  });
  expect(asked()).toBe(1);
  on.config({ model: { prices: PRICES }, limits: { repeats: 0, iterations: 2 }, budgets: { day: { cost: 100 } } });
  on.sh('demo', 'echo /continue > inbox/2.md');
  await until(() => asked() > 1, 'the next call');
  expect(await on.file('demo', 'outbox/2.md')).toContain('status: joined');
}, 60_000);

test('80 % of a budget, and all of it, are told once each, also over a restart', async () => {
  const { on, flags, asked } = await withPaidModel({ day: { cost: 100 } });
  const told = join(on.root, 'told');
  const lines = () => (fs.existsSync(told) ? fs.readFileSync(told, 'utf8').trim().split('\n') : []);
  const command = ['sh', '-c', `printf '%s|%s\\n' "$AGENTD_TITLE" "$(echo "$AGENTD_TEXT" | head -1)" >> '${told}'`];
  const settings = { model: { prices: PRICES }, limits: { repeats: 0, iterations: 1 }, language: 'zh' };
  on.config({ ...settings, notify: [{ command, for: ['owed'] }] });
  on.sh('demo', `echo '{"budgets":{"day":{"cost":1.2}}}' > session.json; mkdir inbox; echo "look around" > inbox/1.md`);
  const first = await on.start(flags);
  const near = '需要注意: demo|session.json: budgets.day.cost of demo 已用去 80%';
  await until(() => lines().join() === near, 'the notice', 50_000);
  await until(() => inFolder(join(on.root, '.agentd/notices')).join() === 'read.json', 'that it is known to be told');
  await first.kill();
  await on.serve(flags);
  const owed = () => JSON.parse(fs.readFileSync(join(on.root, '.agentd/owed.json'), 'utf8'));
  await until(() => owed().pid !== first.process.pid, 'that the new daemon has looked', 50_000);
  on.sh('demo', 'echo /continue > inbox/2.md');
  await until(() => lines().length > 1, 'the next notice', 50_000);
  expect(lines()).toEqual([near, '需要注意: demo|session.json: budgets.day.cost of demo 已用完，运行暂停等待']);
  expect(asked()).toBe(2);
}, 120_000);
