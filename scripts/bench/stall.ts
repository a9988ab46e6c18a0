import * as fs from 'node:fs';
import { join } from 'node:path';
import { PLAN_BOUNDS } from '../../src/protocol/session/plan-edit.ts';
import { startAgentd } from './children.ts';
import { drop, FREE, makeSession, makeWorkspace, replied } from './contender.ts';
import { openEndpoint } from './endpoint.ts';
import { count, median, ms, table } from './numbers.ts';
import type { Setting } from './setting.ts';

type PlanSteps = Array<{ id: string; description: string; needs?: string[]; result?: string }>;

/** 60 MiB: less than what a file may have, more than what a save may have. */
const HUGE = 60 * 1024 * 1024;

const steps = (many: number, chars: number, needs: number): PlanSteps =>
  Array.from({ length: many }, (_, n) => ({
    id: `s${n}`,
    description: `Do ${n} `.padEnd(chars, 'x'),
    ...(needs > 0 && { needs: Array.from({ length: Math.min(needs, n) }, (_, k) => `s${n - 1 - k}`) }),
  }));

/** The smallest plan, then plans at the limits of steps, text and needs. */
const PLANS: Array<[what: string, steps: PlanSteps]> = [
  ['2 steps', steps(2, 10, 0)],
  ['the most steps', steps(PLAN_BOUNDS.steps, 10, 0)],
  [
    'the most text, long steps',
    steps(Math.floor(PLAN_BOUNDS.text / (PLAN_BOUNDS.description + 10)), PLAN_BOUNDS.description, 0),
  ],
  ['the most text and steps', steps(PLAN_BOUNDS.steps, 200, 0)],
  ['the most needs', steps(PLAN_BOUNDS.steps, 10, 10)],
  ['a huge result, refused', [{ id: 's0', description: 'Do 0', result: 'x'.repeat(HUGE) }]],
];

/** How long other sessions wait while one session takes in, reports and undoes a hand edit of a large plan. */
export async function stall(setting: Setting): Promise<string> {
  const endpoint = await openEndpoint();
  const workspace = makeWorkspace(join(setting.folder, 'stall'), FREE);
  fs.mkdirSync(join(workspace, 'templates'));
  fs.writeFileSync(join(workspace, 'templates', 'two.md'), '# Two\n\n1. Read it\n2. Say it\n');
  const daemon = await startAgentd(workspace, endpoint.url, setting.nodeFlags);
  const other = makeSession(workspace, 'other');
  const rows: string[][] = [];
  for (const [number, [what, edited]] of PLANS.entries()) {
    const large = makeSession(workspace, `large-${number}`);
    endpoint.script(() => ({ text: 'That was all.' }));
    drop(large, 'task', '/run two');
    await replied(large, 'task');
    const waits: number[] = [];
    const cpu = daemon.cpu();
    let open = true;
    const asking = (async () => {
      for (let n = 0; open; n++) {
        const at = drop(other, `ask-${number}-${n}`, '/status');
        await replied(other, `ask-${number}-${n}`);
        waits.push(performance.now() - at);
      }
    })();
    const before = JSON.parse(fs.readFileSync(join(large, 'plan.json'), 'utf8'));
    const text = JSON.stringify({ id: before.id, revision: before.revision, steps: edited });
    fs.writeFileSync(join(large, 'new.json'), text);
    fs.renameSync(join(large, 'new.json'), join(large, 'plan.json'));
    drop(large, 'plan', '/plan');
    await replied(large, 'plan');
    drop(large, 'undo', `/plan skip ${edited[0]?.id}`);
    await replied(large, 'undo');
    open = false;
    await asking;
    rows.push([
      what,
      count(text.length / 1000),
      String(waits.length),
      ms(median(waits)),
      ms(Math.max(...waits)),
      ms((daemon.cpu() - cpu) * 1000),
      ms(daemon.rss()),
    ]);
  }
  await daemon.stop();
  endpoint.close();
  return [
    'stall: /status of another session, from the message in place to its reply, ms, while a plan is saved by hand, read and changed; and what that takes of the processor in all',
    '',
    table(['plan', 'kB', 'n', 'median', 'longest', 'CPU', 'RSS, MiB'], rows),
    '',
    `target: the longest is no more than 200 ms above that of the plan of 2 steps`,
  ].join('\n');
}
