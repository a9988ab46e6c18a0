import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import type { Plan } from '../../src/protocol/session/plan.ts';
import { type Ground, ground, statusOf, until } from '../support/daemon.ts';
import { modelServer } from '../support/temporary.ts';

/** A daemon with a command in flight, and an editor that holds the plan as it was then and never reads it again. */
async function inFlight() {
  const server = await modelServer(({ index }) => {
    const wait = { name: 'shell', args: JSON.stringify({ command: 'until [ -e go ]; do sleep 0.1; done' }) };
    if (index === 0) return { text: '[Step] Look around\n[Step] Write it', calls: [wait] };
    return { text: '[Done]' };
  });
  const on = ground();
  on.config({ version: 1, limits: { iterations: 40 } });
  const daemon = await on.start(server.flags);
  on.sh('demo', 'mkdir inbox && echo "write a report" > inbox/1.md');
  await until(() => on.events('demo').some((event) => event.type === 'tool.started'), 'a command in flight');
  await until(() => (on.plan('demo')?.steps.length ?? 0) === 2, 'the plan');
  const buffer = on.plan('demo');
  if (!buffer) throw new Error('no plan.json');
  return { on, daemon, flags: server.flags, buffer };
}

function save(on: Ground, buffer: Plan, ...added: string[]): void {
  const steps = [...buffer.steps, ...added.map((description) => ({ description }))];
  write(on, JSON.stringify({ ...buffer, steps }, null, 2));
}

/** Beside a command a save is read at once if the inbox says so (docs/protocol.md), else with the end of the command. */
function write(on: Ground, content: string | Buffer): void {
  writeFileSync(join(on.session('demo'), 'plan.json'), content);
  on.sh('demo', 'touch inbox/.wake && rm inbox/.wake');
}

const edits = (on: Ground) => on.events('demo').filter((event) => event.type === 'plan.edited').length;
const words = (on: Ground) => on.plan('demo')?.steps.map((step) => step.description);

test('a buffer saved again and again beside a command and a kill -9 ends as it was saved last, nothing twice', async () => {
  const { on, daemon, flags, buffer } = await inFlight();
  save(on, buffer, 'FIRST', 'delete the production database');
  await until(() => edits(on) === 1, 'the first save in the event log');
  on.sh('demo', 'echo "and hurry" > inbox/2.md');
  await until(
    () => on.events('demo').some((event) => event.type === 'message.received' && event.id === '2.md'),
    '2.md',
  );
  save(on, buffer, 'FIRST', 'SECOND');
  await until(() => edits(on) === 2, 'the second save in the event log');
  await until(() => words(on)?.includes('SECOND'), 'the second save in the plan');
  expect(words(on)).toEqual(['Look around', 'Write it', 'FIRST', 'SECOND']);
  await daemon.kill();
  // The file is as the editor left it: the event log is ahead of it.
  save(on, buffer, 'FIRST', 'SECOND');
  await on.serve(flags);
  await until(() => on.events('demo').some((event) => event.type === 'recovery.started'), 'the next daemon');
  save(on, buffer, 'FIRST, in blue', 'SECOND');
  await until(() => words(on)?.includes('FIRST, in blue'), 'the last save in the plan');
  on.sh('demo', 'mkdir -p work && touch work/go');
  expect(statusOf(await on.file('demo', 'outbox/1.md'))).toBe('done');
  expect(words(on)).toEqual(['Look around', 'Write it', 'FIRST, in blue', 'SECOND']);
  expect(on.plan('demo')?.steps.map((step) => step.id)).toEqual(['step_1', 'step_2', 'step_3', 'step_4']);
  const added = on.events('demo').flatMap((event) => (event.type === 'plan.edited' ? event.changes : []));
  expect(added.filter((change) => change.what === 'added')).toHaveLength(2);
});

test('a plan.json that is not UTF-8 is left as it is, no letter of the plan changes, and the reply says where', async () => {
  const { on, buffer } = await inFlight();
  save(on, { ...buffer, goal: 'Bericht über Größen' });
  await until(() => on.plan('demo')?.revision !== buffer.revision, 'the new version');
  const path = join(on.session('demo'), 'plan.json');
  const latin = Buffer.from(readFileSync(path, 'utf8').replace('Look around', 'Umschau'), 'latin1');
  write(on, latin);
  const isReported = () => on.events('demo').some((event) => event.type === 'plan.edited' && event.ignored.length > 0);
  await until(isReported, 'what is wrong with the save');
  expect(await on.say('demo', '2.md', '/status')).toMatch(
    /plan.json is not UTF-8 text: line 5, column \d+: byte 0xfc cannot be read. Save it as UTF-8/,
  );
  expect(readFileSync(path)).toEqual(latin);
  expect(await on.ctl('show', 'demo')).toContain('Bericht über Größen');
  expect(JSON.stringify(on.events('demo'))).not.toContain('\ufffd');
  on.sh('demo', 'iconv -f latin1 -t utf8 plan.json > new && mv new plan.json && touch inbox/.wake && rm inbox/.wake');
  await until(() => words(on)?.includes('Umschau'), 'the save, now in UTF-8');
  expect(on.plan('demo')?.goal).toBe('Bericht über Größen');
  on.sh('demo', 'mkdir -p work && touch work/go');
  await on.file('demo', 'outbox/1.md');
});
