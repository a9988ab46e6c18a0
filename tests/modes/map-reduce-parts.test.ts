import { expect, test } from 'vitest';
import type { EventBody } from '../../src/protocol/session/event.ts';
import type { Reply } from '../../src/protocol/session/reply.ts';
import { PartsArgs, type PartsPage } from '../../src/protocol/tool-calls/own-tools.ts';
import { everything } from '../support/all.ts';
import { type Rig, type RigOptions, rig, shell } from '../support/rig.ts';

const PLAN = JSON.stringify({
  steps: [
    { id: 'map', description: 'Read this file', each: { folder: 'work/in' }, on_failed_part: 'continue' },
    { id: 'reduce', description: 'Merge', gather: { from: 'map', batch_chars: 20 } },
    { id: 'post', description: 'Publish' },
  ],
});

/** Pages of three parts. */
function listing(files: string[], args: string): string {
  const { after = '', group = 1 } = PartsArgs.parse(JSON.parse(args));
  const rest = files.filter((file) => file > after);
  const parts = rest.slice(0, 3).map((file) => [file]);
  return JSON.stringify({ total: files.length, left_out: 0, group, parts, more: rest.length > 3 } satisfies PartsPage);
}

const asksPlan = (text: string) => text.includes('Make the plan');
const asksSummary = (text: string) => text.includes('All steps have ended');

function options(files: string[], more: Partial<RigOptions> = {}): RigOptions {
  return {
    config: { mode: 'map-reduce' },
    script(request) {
      const last = request.messages.at(-1)?.content ?? '';
      if (asksPlan(last)) return { text: PLAN };
      if (asksSummary(last)) return { text: 'The summary.' };
      return request.messages.at(-2)?.role === 'tool' ? { text: 'out [Done]' } : { text: 'on it', calls: [shell()] };
    },
    tool: ({ name, args }) => ({ ok: true, text: name === 'parts' ? listing(files, args) : 'fine' }),
    replay: (name) => (name === 'parts' ? 'safe' : 'never'),
    ...more,
  };
}

const FILES = ['in/a', 'in/b', 'in/c', 'in/d', 'in/e', 'in/f', 'in/g'];

/** Answers whatever was sent and not answered, until nothing more comes. */
async function answerAll(on: Rig, reply: (step: string, n: number) => Partial<Reply> = () => ({ text: '12345678' })) {
  for (let n = 0, still = 0; still < 6; still++) {
    for (; n < on.children.sent.length; n++, still = 0) {
      const sent = on.children.sent[n];
      if (!sent || sent.message.command === 'stop' || sent.message.command === 'cancel') continue;
      on.children.answer(sent.child, sent.message.id, reply(sent.child.split('~')[1] ?? '', n));
    }
    on.worker.wake();
    await on.pass(1000);
  }
}

async function run(files: string[], more: Partial<RigOptions> = {}): Promise<Rig> {
  const on = await rig(options(files, more));
  if (!more.before?.some((event) => event.type === 'message.received')) on.drop('1.md', 'Read them all');
  await on.wake();
  return on;
}

const ending = (on: Rig) => ({
  status: on.plan()?.status,
  steps: on.plan()?.steps.map(({ id, status, part, needs, attempts }) => ({ id, status, part, needs, attempts })),
  reply: on.reply('1.md')?.includes('The summary.'),
});

test('the files of a folder come in pages, and each is a step behind the one it is a part of', async () => {
  const on = await run(FILES);
  await answerAll(on);
  expect(on.toolRuns.filter((call) => call.name === 'parts')).toHaveLength(3);
  expect(on.plan()).toMatchObject({ status: 'completed' });
  expect(on.plan()?.steps.map((step) => step.id)).toEqual([
    'map',
    ...FILES.map((_, n) => `map.${n + 1}`),
    'reduce',
    'reduce.1',
    'reduce.2',
    'reduce.3',
    'reduce.4',
    'post',
  ]);
  expect(
    on
      .plan()
      ?.steps.filter((step) => step.parent === 'map')
      .flatMap((step) => step.part),
  ).toEqual(FILES);
  expect(on.children.sent[0]?.message).toMatchObject({ options: { folder: 'map.1', mode: 'linear' } });
  expect(on.children.sent[0]?.message.text).toContain('- ../in/a');
  expect(on.children.sent[0]?.message.text).not.toContain('in/b');
});

test('a daemon that dies after any event of the work goes on to the same end', async () => {
  const reply = (step: string): Partial<Reply> =>
    step === 'map.2' ? { status: 'failed', text: 'boom' } : { text: '12345678' };
  const whole = await run(FILES);
  await answerAll(whole, reply);
  const events = whole.events().map(({ v, seq, epoch, at, ...body }): EventBody => body);
  const wanted = ending(whole);
  expect(wanted).toMatchObject({ status: 'completed', reply: true });
  // The planner's steps are recorded together.
  const begun = events.findLastIndex((event) => event.type === 'step.added' && event.step.parent === undefined);
  for (let cut = begun + 1; cut < events.length; cut += everything ? 1 : 2) {
    const on = await run(FILES, { before: events.slice(0, cut) });
    const sent = events.slice(0, cut).flatMap((event) => (event.type === 'child.sent' ? [event] : []));
    for (const { child, message, step } of sent) on.children.answer(child, message, reply(step));
    await answerAll(on, reply);
    expect(on.faults, `cut after ${cut}`).toEqual([]);
    expect(ending(on), `cut after ${cut}: ${JSON.stringify(events[cut - 1])}`).toEqual(wanted);
  }
});

test('parts begin as others end, and never more at once than the limit', async () => {
  const on = await run(FILES, { config: { mode: 'map-reduce', limits: { steps: 2 } } });
  expect(on.children.sent.map((one) => one.child)).toEqual(['demo~map.1', 'demo~map.2']);
  on.children.answer('demo~map.2', 'map.2.1', { text: 'b' });
  await on.wake();
  expect(on.children.sent.map((one) => one.child)).toEqual(['demo~map.1', 'demo~map.2', 'demo~map.3']);
  expect(
    on
      .plan()
      ?.steps.filter((step) => step.status === 'running')
      .map((step) => step.id),
  ).toEqual(['map', 'map.1', 'map.3']);
});

test('children are never given more together than the run has left, and "continue" goes on with the parts that are left', async () => {
  const on = await run(FILES, { config: { mode: 'map-reduce', limits: { iterations: 9 } } });
  const given = on.children.sent.map((one) => one.message.options?.limits?.iterations ?? 0);
  // One went to the planner.
  expect(given).toEqual([2, 2, 2, 2]);
  await answerAll(on, () => ({ text: '12345678', usage: { iterations: 2, tokens: 1, cost: null } }));
  expect(on.plan()).toMatchObject({ status: 'paused', reason: 'limit' });
  expect(on.reply('1.md')).toContain('limits.iterations = 9');
  const done = on.plan()?.steps.filter((step) => step.parent === 'map' && step.status === 'completed').length ?? 0;
  expect(done).toBe(4);
  for (let n = 2; on.plan()?.status === 'paused' && n < 20; n++) {
    await on.say(`${n}.md`, 'continue');
    await answerAll(on, () => ({ text: '12345678', usage: { iterations: 2, tokens: 1, cost: null } }));
  }
  expect(on.plan()).toMatchObject({ status: 'completed' });
  const sent = on.children.sent.map((one) => one.message.id);
  expect(new Set(sent).size).toBe(sent.length);
});

test('"continue" after a failed part tries that part again and goes on where the plan stopped', async () => {
  const strict = PLAN.replace('continue', 'fail');
  let fails = true;
  const on = await run(FILES, {
    script(request, n) {
      const last = request.messages.at(-1)?.content ?? '';
      return asksPlan(last) ? { text: strict } : (options(FILES).script(request, n) ?? {});
    },
  });
  const reply = (step: string): Partial<Reply> =>
    fails && step === 'map.5' ? { status: 'failed', text: 'boom' } : { text: '12345678' };
  await answerAll(on, reply);
  expect(on.plan()).toMatchObject({ status: 'failed' });
  expect(on.reply('1.md')).toContain('map.5 (in/e): demo~map.5: boom');
  expect(on.plan()?.steps.find((step) => step.id === 'reduce')?.status).toBe('skipped');
  fails = false;
  await on.say('2.md', 'continue');
  await answerAll(on, reply);
  expect(on.plan()).toMatchObject({ status: 'completed' });
  expect(on.plan()?.steps.find((step) => step.id === 'map.5')).toMatchObject({ attempts: 5 });
  expect(on.children.sent.filter((one) => one.child === 'demo~map.1')).toHaveLength(1);
});

test('a folder that cannot be listed fails the step that was to be split, with the reason in the reply', async () => {
  const on = await run(FILES, { tool: () => ({ ok: false, text: '`work/in` is not there.' }) });
  await answerAll(on);
  expect(on.plan()?.steps.map((step) => [step.id, step.status])).toEqual([
    ['map', 'failed'],
    ['reduce', 'skipped'],
    ['post', 'skipped'],
  ]);
  expect(on.reply('1.md')).toContain('`work/in` is not there.');
});

test('parts that are skipped or removed by hand are left out, and do not come back', async () => {
  const on = await run(FILES, { config: { mode: 'map-reduce', limits: { steps: 1 } } });
  const plan = on.plan();
  const steps = (plan?.steps ?? []).map((step) => (step.id === 'map.3' ? { ...step, status: 'skipped' } : step));
  on.store.hands.edit(JSON.stringify({ ...plan, steps: steps.filter((step) => step.id !== 'map.7') }));
  await on.wake();
  await answerAll(on);
  expect(on.children.sent.map((one) => one.child)).not.toContain('demo~map.3');
  expect(on.children.sent.map((one) => one.child)).not.toContain('demo~map.7');
  expect(on.plan()).toMatchObject({ status: 'completed' });
  expect(on.plan()?.steps.find((step) => step.id === 'map')?.result).toContain('5 of 6 parts done');
});

test('parts that cannot start because a person made their step wait say what they wait for', async () => {
  const on = await run(['in/a', 'in/b'], { config: { mode: 'map-reduce', limits: { steps: 1 } } });
  const plan = on.plan();
  const steps = plan?.steps.map((step) => (step.id === 'map' ? { ...step, needs: ['map'] } : step));
  on.store.hands.edit(JSON.stringify({ ...plan, steps }));
  await on.wake();
  await answerAll(on);
  expect(on.plan()?.steps.find((step) => step.id === 'map.2')).toMatchObject({
    status: 'failed',
    error: 'it waits for map, which will not be completed',
  });
});

test('a child that is cancelled is not tried again', async () => {
  const on = await run(['in/a', 'in/b']);
  await answerAll(on, (step) => (step === 'map.1' ? { status: 'cancelled', text: 'Cancelled.' } : { text: 'b' }));
  expect(on.children.sent.filter((one) => one.child === 'demo~map.1')).toHaveLength(1);
  expect(on.plan()?.steps.find((step) => step.id === 'map.1')?.status).toBe('failed');
});

test('a stop while parts are looked up ends the run, and "continue" looks them up again', async () => {
  let hold = true;
  const on = await run(FILES, {
    tool: ({ name, args }) =>
      name === 'parts' && hold ? 'hold' : { ok: true, text: name === 'parts' ? listing(FILES, args) : 'fine' },
  });
  await on.say('2.md', 'stop');
  expect(on.plan()).toMatchObject({ status: 'paused' });
  hold = false;
  await on.say('3.md', 'continue');
  await answerAll(on);
  expect(on.plan()).toMatchObject({ status: 'completed' });
  expect(on.plan()?.steps.filter((step) => step.parent === 'map')).toHaveLength(7);
  // Three pages, the first of them begun twice.
  expect(on.events().filter((event) => event.type === 'tool.started' && event.name === 'parts')).toHaveLength(4);
});
