import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import scenario from '../modes/scenarios/auto.json' with { type: 'json' };
import { ground, statusOf } from '../support/daemon.ts';

test('a real daemon that may choose the mode asks once, says why in plan.json, and works in that mode', async () => {
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
  expect(on.sh('demo', 'cat work/sum.txt')).toBe('2\n');
  expect(on.events('demo').filter((event) => event.type === 'mode.chosen')).toHaveLength(1);
});

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
