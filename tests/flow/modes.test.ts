import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { ground, statusOf, until } from '../support/daemon.ts';

// The scenario of each mode runs through a real daemon, with a kill, in `npm run test:modes`, and some of it in CI.

test("a session's own settings win over the workspace's, /mode over both, and a message over all", async () => {
  const on = ground();
  on.config({ mode: 'plan-act' });
  const script = join(on.root, 'script.json');
  writeFileSync(script, JSON.stringify([{ text: '{"answer": "Hello."}', repeat: true }]));
  await on.serve(['--model', `scripted:${script}`]);
  const say = async (name: string, text: string) => {
    on.sh('demo', 'mkdir -p inbox');
    writeFileSync(join(on.session('demo'), 'inbox', name), text);
    await on.file('demo', `outbox/${name}`);
  };
  await say('1.md', 'hello');
  writeFileSync(join(on.session('demo'), 'session.json'), '{ "mode": "linear" }');
  await say('2.md', 'hello');
  await say('3.md', '/mode plan-act');
  await say('4.md', 'hello');
  await say('5.json', '{ "text": "hello", "options": { "mode": "linear" } }');
  const modes = on.events('demo').flatMap((event) => (event.type === 'run.started' ? [event.mode] : []));
  expect(modes).toEqual(['plan-act', 'linear', 'plan-act', 'linear']);
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
