import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { z } from 'zod';
import { ground, statusOf } from '../support/daemon.ts';

const Scenario = z.object({
  message: z.string(),
  config: z.record(z.string(), z.unknown()),
  script: z.array(z.unknown()),
  expect: z.object({
    reply: z.object({ status: z.string(), text: z.string() }),
    plan: z.looseObject({}),
    files: z.record(z.string(), z.string()),
  }),
});
const scenario = Scenario.parse(
  JSON.parse(readFileSync(new URL('../modes/scenarios/map-reduce.json', import.meta.url), 'utf8')),
);

test('a real daemon counts the words of a folder of files: one child a file, one retried, one lost and named', async () => {
  const on = ground();
  const script = join(on.root, 'script.json');
  writeFileSync(script, JSON.stringify(scenario.script));
  on.config({ ...scenario.config, sandbox: 'none' });
  await on.serve(['--model', `scripted:${script}`]);
  on.sh('demo', `mkdir -p inbox && printf '%s' '${scenario.message}' > inbox/1.md`);
  const reply = await on.file('demo', 'outbox/1.md');
  expect(on.plan('demo')).toMatchObject(scenario.expect.plan);
  expect(statusOf(reply)).toBe(scenario.expect.reply.status);
  expect(reply).toContain(scenario.expect.reply.text);
  expect(reply).toContain('map: 1/4 ✗ map.4 (in/d.txt): demo~map.4: [Failed: d.txt is no text]');
  for (const [path, text] of Object.entries(scenario.expect.files)) expect(await on.file('demo', path)).toBe(text);
  const ledger = (await on.file('demo', 'work/ledger')).trim().split('\n');
  expect(ledger.sort()).toEqual(['a', 'b', 'c', 'sum']);
});
