import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import scenario from '../modes/scenarios/todo.json' with { type: 'json' };
import { ground, statusOf, until } from '../support/daemon.ts';

test('a todo list that grows while a real daemon works on it ends with all items closed', async () => {
  const on = ground();
  on.config(scenario.config);
  const script = join(on.root, 'script.json');
  writeFileSync(script, JSON.stringify(scenario.script));
  const daemon = await on.serve(['--model', `scripted:${script}`]);
  on.sh('demo', 'mkdir inbox');
  writeFileSync(join(on.session('demo'), 'inbox', '1.md'), scenario.message);
  const reply = await on.file('demo', 'outbox/1.md');
  expect(statusOf(reply), daemon.stderr()).toBe(scenario.expect.reply.status);
  expect(reply).toContain(scenario.expect.reply.text);
  expect(on.plan('demo')).toMatchObject(scenario.expect.plan);
  expect(on.sh('demo', 'cat work/sum.txt')).toBe('3\n');
  expect(await on.ctl('show', 'demo')).toContain('4/4 steps done');
});

test('a cycle that a person wrote into plan.json is named by agentctl show and by the reply', async () => {
  const on = ground();
  const script = join(on.root, 'script.json');
  const steps = '[Step] One\n[Step] Two\n[Step] Three';
  const list = [
    {
      text: steps,
      calls: [{ name: 'shell', args: { command: 'touch begun; while [ ! -e ring ]; do sleep 0.05; done' } }],
    },
    { text: 'One is there. [Done]' },
  ];
  writeFileSync(script, JSON.stringify(list));
  await on.serve(['--model', `scripted:${script}`]);
  on.sh('demo', 'mkdir inbox && echo "do three things" > inbox/1.md');
  await on.file('demo', 'work/begun');
  const plan = await until(() => (on.plan('demo')?.steps.length === 3 ? on.plan('demo') : undefined), 'the plan');
  const needs: Record<string, string[]> = { step_2: ['step_3'], step_3: ['step_2'] };
  const edited = {
    ...plan,
    steps: plan.steps.map((step) => ({ ...step, ...(needs[step.id] && { needs: needs[step.id] }) })),
  };
  writeFileSync(join(on.session('demo'), 'plan.json'), JSON.stringify(edited));
  on.sh('demo', 'touch work/ring');
  const reply = await on.file('demo', 'outbox/1.md');
  expect(statusOf(reply)).toBe('waiting');
  expect(reply).toContain('step_2 → step_3 → step_2 need each other in a cycle');
  expect(await on.ctl('show', 'demo')).toContain('step_2 → step_3 → step_2 need each other in a cycle');
});
