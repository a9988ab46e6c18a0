import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { z } from 'zod';
import { ground, until } from '../support/daemon.ts';

const Scenario = z.object({
  message: z.string(),
  config: z.record(z.string(), z.unknown()),
  script: z.array(z.unknown()),
  expect: z.object({ plan: z.record(z.string(), z.unknown()) }),
});
const scenario = Scenario.parse(
  JSON.parse(readFileSync(new URL('../modes/scenarios/dag.json', import.meta.url), 'utf8')),
);

function prepared() {
  const on = ground();
  on.config(scenario.config);
  const script = join(on.root, 'script.json');
  writeFileSync(script, JSON.stringify(scenario.script));
  return { on, flags: ['--model', `scripted:${script}`] };
}

const drop = (on: ReturnType<typeof ground>) => {
  on.sh('demo', 'mkdir -p inbox');
  writeFileSync(join(on.session('demo'), 'inbox', '1.md'), scenario.message);
};

test('the scenario of the mode dag through a real daemon', async () => {
  const { on, flags } = prepared();
  await on.serve(flags);
  drop(on);
  expect(await on.file('demo', 'outbox/1.md')).toContain('It could not be published');
  await until(() => on.plan('demo')?.status === 'failed' || undefined, 'the end of the plan');
  expect(on.plan('demo')).toMatchObject(scenario.expect.plan);
  expect(existsSync(join(on.session('demo'), 'work/publish/page.html'))).toBe(false);
  const north = on.events('demo~north').map((event) => JSON.stringify(event));
  expect(north.some((line) => line.includes('southern'))).toBe(false);
}, 60_000);

test('a daemon killed while two steps run goes on to the same end, and no command runs twice', async () => {
  const { on, flags } = prepared();
  const first = await on.start(flags);
  drop(on);
  await until(
    // A command in the event log that was killed before it began would be one of which nobody knows, and this script asks no questions.
    () =>
      ['north', 'south'].every((step) => existsSync(join(on.session('demo'), `work/${step}/${step}.txt`))) || undefined,
    'two steps at work',
  );
  first.process.kill('SIGKILL');
  await first.ended;
  await on.serve(flags);
  expect(await on.file('demo', 'outbox/1.md')).toContain('It could not be published');
  await until(() => on.plan('demo')?.status === 'failed' || undefined, 'the end of the plan');
  expect(on.plan('demo')).toMatchObject(scenario.expect.plan);
  expect(on.sh('demo', 'cat work/north/north.txt')).toBe('tea 3\n');
}, 60_000);
