import { describe, expect, test } from 'vitest';
import { reduceEvent } from '../../src/core/reducers/reduce-event.ts';
import { emptySession } from '../../src/core/session/session-state.ts';
import { unwrapDataBlock } from '../../src/protocol/session/prompt-tags.ts';
import fc from '../support/property.ts';
import { type Move, moves, type Rig, type RigOptions, rig, shell } from '../support/rig.ts';

/** A run with two declared steps; then what the model says. */
async function run(answers: Move[], options: Partial<RigOptions> = {}): Promise<Rig> {
  const it = await rig({
    script: moves({ text: '[Step] Fetch\n[Step] Draw\n[Step] Mail', calls: [shell()] }, ...answers, { hold: true }),
    ...options,
  });
  await it.say('1.md', 'Fetch, draw and mail');
  await it.pass(300);
  return it;
}

const statuses = (it: Rig) => it.plan()?.steps.map((step) => step.status);
const planCall = (args: object) => ({ name: 'plan', args });
const lastBlock = (it: Rig) => String(it.requests.at(-1)?.messages.at(-1)?.content);
const toolTexts = (it: Rig) =>
  it.requests
    .at(-1)
    ?.messages.flatMap((message) => (message.role === 'tool' ? [unwrapDataBlock(message.content)] : [])) ?? [];

describe('an answer that the endpoint cut off at its length limit', () => {
  test('pauses a run without steps, and "continue" lets the model go on', async () => {
    const it = await rig({
      script: moves({ text: 'The first half', truncated: true }, { text: 'and the second.' }, { hold: true }),
    });
    await it.say('1.md', 'Tell me');
    expect(it.reply('1.md')).toMatch(
      /status: paused[\s\S]*reason: limit[\s\S]*The first half\n\nThe answer ends in the middle[\s\S]*Say "continue"/,
    );
    expect(await it.say('2.md', 'continue')).toMatch(/status: done[\s\S]*and the second\./);
    const roles = it.requests[1]?.messages.map(({ role, content }) => [role, content]) ?? [];
    expect(roles.at(-3)).toEqual(['assistant', 'The first half']);
    expect(roles.at(-2)).toEqual(['user', 'continue']);
  });

  test.each(['continue', '/continue'])('is known to the model after "%s", until it has answered', async (word) => {
    const it = await rig({
      script: moves({ text: 'The first half', truncated: true }, { text: 'and the second.' }, { hold: true }),
    });
    await it.say('1.md', 'Tell me');
    await it.say('2.md', word);
    expect(it.requests[1]?.messages.at(-1)).toMatchObject({
      role: 'user',
      content: expect.stringContaining('cut off'),
    });
    await it.say('3.md', 'Thanks');
    expect(JSON.stringify(it.requests[2]?.messages)).not.toContain('cut off');
  });

  test('pauses a run whose steps are all done as well: the plan is completed with the rest of the answer', async () => {
    const it = await run([
      { text: 'Fetched. [Done]', truncated: true },
      { text: 'Drawn. [Done]', calls: [shell()] },
      { text: 'Mailed. [Done] All of it', truncated: true },
      { text: 'and the rest.' },
    ]);
    expect(it.reply('1.md')).toMatch(
      /status: paused[\s\S]*reason: limit[\s\S]*All of it\n\nThe answer ends in the middle/,
    );
    expect(it.plan()).toMatchObject({ status: 'paused', reason: 'limit' });
    expect(statuses(it)).toEqual(['completed', 'completed', 'completed']);
    await it.say('2.md', '/continue');
    expect(lastBlock(it)).toContain('cut off');
    expect(it.reply('2.md')).toMatch(/status: done[\s\S]*reason: completed[\s\S]*and the rest\./);
    expect(it.plan()?.status).toBe('completed');
  });

  test('is named in a reply that asks a person how to go on', async () => {
    const it = await run([{ text: 'Which of these' }, { text: 'Should I take the first or', truncated: true }]);
    expect(it.reply('1.md')).toMatch(/status: waiting[\s\S]*the first or\n\nThe answer ends in the middle/);
  });

  test('is the result of a child session, whose parent would see nothing but what follows a "continue"', async () => {
    const it = await rig({
      name: 'demo~step_1',
      script: moves({ text: 'The first half', truncated: true }, { text: 'and the second.' }),
    });
    await it.say('1.msg.json', JSON.stringify({ id: 'step_1.1', text: 'Tell me', from: 'demo' }));
    const [reply] = it.events().flatMap((event) => (event.type === 'reply.committed' ? [event.reply] : []));
    expect(reply).toMatchObject({ status: 'done', text: expect.stringMatching(/^The first half\n\nThe answer ends/) });
  });
});

describe('an answer that the endpoint stopped for a reason other than its length', () => {
  const half = { text: 'Fetched. [Done] And in 2024 it', unfinished: 'content_filter' };

  test('pauses the run with its text and the reason; "continue" asks again, and the model knows why', async () => {
    const it = await rig({ script: moves(half, { text: 'The whole.' }, { hold: true }) });
    await it.say('1.md', 'Tell me');
    expect(it.reply('1.md')).toMatch(
      /status: paused[\s\S]*reason: unfinished[\s\S]*in 2024 it\n\nPaused: [\s\S]*"content_filter", its content filter/,
    );
    await it.say('2.md', 'continue');
    expect(lastBlock({ ...it, requests: it.requests.slice(0, 2) })).toContain('content_filter');
    expect(it.reply('2.md')).toMatch(/status: done[\s\S]*The whole\./);
  });

  test('closes no step, neither by what it states nor by what it moves on to', async () => {
    const it = await run([half]);
    expect(statuses(it)).toEqual(['running', 'pending', 'pending']);
    expect(it.reply('1.md')).toMatch(/status: paused[\s\S]*reason: unfinished/);
    const moved = await run([{ text: 'Now I draw the graph.', calls: [shell()], unfinished: 'something_new' }]);
    expect(statuses(moved)).toEqual(['running', 'pending', 'pending']);
  });

  test('is no result of a child session', async () => {
    const it = await rig({ name: 'demo~step_1', script: moves(half) });
    await it.say('1.msg.json', JSON.stringify({ id: 'step_1.1', text: 'Tell me', from: 'demo' }));
    const [reply] = it.events().flatMap((event) => (event.type === 'reply.committed' ? [event.reply] : []));
    expect(reply).toMatchObject({ status: 'paused', reason: 'unfinished' });
  });

  test('is no plan and no summary: it is asked for again', async () => {
    const plan = JSON.stringify({ steps: ['Look', 'Write'] });
    const it = await rig({
      config: { mode: 'plan-act' },
      script: moves({ text: plan, unfinished: 'SAFETY' }, { text: plan }, { hold: true }),
    });
    await it.say('1.md', 'Write it up');
    await it.pass(1000);
    expect(it.events().flatMap((one) => (one.type === 'model.failed' ? [one.kind] : []))).toEqual(['malformed']);
    const [asked] = it.events().flatMap((one) => (one.type === 'model.answered' ? [one.planner_query] : []));
    expect(asked).toBe('plan');
  });
});

test('after a call that could not be read, the model is told how to call a tool, once', async () => {
  const options = { retry: true, hint: 'call' as const };
  const it = await run([{ fault: ['malformed', 'a tool call came as text', options] }, { calls: [shell()] }]);
  await it.pass(1000);
  const blocks = it.requests.map(({ messages }) => String(messages.at(-1)?.content));
  expect(blocks.map((block) => block.includes('tool call that could not be read'))).toEqual([
    false,
    false,
    true,
    false,
  ]);
});

describe('a limit on cost', () => {
  const work = { calls: [shell()], cost: 0.4 };

  test('pauses at the first answer whose cost is unknown, and says what to set', async () => {
    const it = await rig({
      config: { limits: { cost: 1 } },
      script: moves(work, { calls: [shell()] }, { text: 'never' }),
    });
    await it.say('1.md', 'Work');
    expect(it.requests).toHaveLength(2);
    expect(it.reply('1.md')).toMatch(/status: paused[\s\S]*reason: limit[\s\S]*unknown[\s\S]*model\.prices/);
  });

  test('pauses where it is reached; an answer that ends the run is not held back', async () => {
    const reached = await rig({ config: { limits: { cost: 1 } }, script: () => ({ ...work, calls: [shell()] }) });
    expect(await reached.say('1.md', 'Work')).toContain('limits.cost = 1');
    const ended = await rig({ config: { limits: { cost: 1 } }, script: moves({ text: 'Done.' }) });
    expect(await ended.say('1.md', 'Work')).toMatch(/status: done/);
  });

  test('gives nothing of a budget whose rest is unknown to a child session', async () => {
    const it = await rig({
      config: { limits: { cost: 1 } },
      tools: ['spawn'],
      script: moves({ calls: [{ name: 'spawn', args: { task: 'Read a.txt' } }] }, { text: 'never' }),
    });
    await it.say('1.md', 'Work');
    expect(it.events().map(({ type }) => type)).not.toContain('child.sent');
    expect(it.reply('1.md')).toMatch(/status: paused[\s\S]*reason: limit/);
  });
});

describe('markers that say more', () => {
  test.each(['[Failed: the site is gone]', '[失败：网站没了]', '[Failed] the site is gone'])(
    '%s fails the step with its reason, and the next one begins',
    async (text) => {
      const it = await run([{ text, calls: [shell()] }]);
      expect(statuses(it)).toEqual(['failed', 'running', 'pending']);
      expect(it.plan()?.steps[0]?.error).toMatch(/the site is gone|网站没了/);
    },
  );

  test.each(['[Skip: nothing to fetch]', '[跳过：没有要下载的]'])('%s skips the step', async (text) => {
    const it = await run([{ text, calls: [shell()] }]);
    expect(statuses(it)).toEqual(['skipped', 'running', 'pending']);
  });

  test('[Blocked: …] with nothing more to try waits for a person at once, and "continue" tries the step again', async () => {
    const it = await run([{ text: '[Blocked: the site wants a login]' }]);
    expect(it.plan()).toMatchObject({ status: 'waiting', reason: 'blocked' });
    expect(it.plan()?.steps[0]).toMatchObject({ status: 'blocked', error: 'the site wants a login' });
    expect(it.requests).toHaveLength(2);
    await it.say('2.md', 'The password is swordfish');
    await it.pass(300);
    expect(statuses(it)).toEqual(['running', 'pending', 'pending']);
  });

  test.each(['[Progress 2/5]', '[进度：2/5]'])('%s is kept with the step', async (text) => {
    const it = await run([{ text: `two are there ${text}`, calls: [shell()] }]);
    expect(it.plan()?.steps[0]).toMatchObject({ status: 'running', progress: { current: 2, total: 5 } });
    expect(lastBlock(it)).toContain('(2/5)');
  });

  test('[Done: step_3] closes the step it names and leaves the one at work as it is', async () => {
    const it = await run([{ text: 'Mailed it on the way. [Done: step_3]', calls: [shell()] }]);
    expect(statuses(it)).toEqual(['running', 'pending', 'completed']);
  });

  test('a step is never closed twice, by whatever road', async () => {
    const it = await run([
      { text: 'Fetched. [Done]', calls: [planCall({ command: 'complete_step', step: 'step_1', result: 'fetched' })] },
      { text: 'Again: [Done: step_1]', calls: [planCall({ command: 'complete_step', step: 'step_1' })] },
    ]);
    const closings = it.events().filter((event) => event.type === 'step.completed');
    expect(closings).toHaveLength(1);
    expect(statuses(it)).toEqual(['completed', 'running', 'pending']);
  });

  test('an answer that is JSON as a whole is read like prose', async () => {
    const it = await run([
      { text: '{"thought": "All five links are saved. [Done]", "next": "draw"}', calls: [shell()] },
    ]);
    expect(statuses(it)).toEqual(['completed', 'running', 'pending']);
  });

  test.each([
    '`[Failed: x]` is how a failure is marked',
    'If it breaks I will write [Failed: x]',
    'This is not [Failed: x]',
    '> [Failed: x]',
  ])('%s says nothing of the step', async (text) => {
    const it = await run([{ text, calls: [shell()] }]);
    expect(statuses(it)).toEqual(['running', 'pending', 'pending']);
  });

  test('a plan with a failed step ends failed and names it, and what needs it is skipped with the reason', async () => {
    const it = await run([
      { text: '', calls: [planCall({ command: 'update', step: 'step_2', needs: ['step_1'] })] },
      { text: '[Failed: gone]', calls: [shell()] },
      { text: 'Mailed that. [Done]', calls: [shell()] },
      { text: 'The fetching failed, so there is no drawing.' },
    ]);
    expect(it.plan()).toMatchObject({ status: 'failed', reason: 'not reached: step_1' });
    expect(it.plan()?.steps[1]).toMatchObject({ status: 'skipped', error: 'needs step_1, which was failed' });
  });
});

describe('the plan tool', () => {
  test('it creates, adds, completes and shows, in the same events as the text', async () => {
    const it = await rig({
      script: moves(
        {
          text: '',
          calls: [planCall({ command: 'create', steps: ['Fetch', { description: 'Draw', needs: ['step_1'] }] })],
        },
        { text: '', calls: [planCall({ command: 'complete_step', result: '5 links' })] },
        { text: '', calls: [planCall({ command: 'add_step', description: 'Mail' })] },
        { text: '', calls: [planCall({ command: 'get' })] },
        { hold: true },
      ),
    });
    await it.say('1.md', 'Fetch and draw');
    await it.pass(300);
    expect(it.plan()?.steps).toMatchObject([
      { id: 'step_1', status: 'completed', completed_by: 'tool', result: '5 links' },
      { id: 'step_2', status: 'running', needs: ['step_1'] },
      { id: 'step_3', status: 'pending', description: 'Mail' },
    ]);
    expect(toolTexts(it).at(-1)).toContain('1/3 steps done');
    expect(it.toolRuns).toEqual([]);
  });

  test.each([
    [{ command: 'complete_step', step: 'step_9' }, 'There is no step "step_9"'],
    [{ command: 'add_step', description: 'x', needs: ['step_9'] }, 'Unknown in "needs": step_9'],
    [{ command: 'fly' }, 'The arguments of `plan` do not fit'],
    [{ command: 'mark_step' }, 'mark_step needs "status"'],
  ])('%j is answered with what was wanted', async (args, part) => {
    const it = await run([{ text: '', calls: [planCall(args)] }]);
    expect(toolTexts(it).at(-1)).toContain(part);
    expect(it.plan()?.steps).toHaveLength(3);
  });

  test('the model cannot reword a step that a person wrote', async () => {
    const it = await run([
      {
        hold: true,
        next: () => ({
          text: '',
          calls: [planCall({ command: 'update', step: 'step_2', description: 'Draw nothing' })],
        }),
      },
    ]);
    await it.say('p.md', '/plan reword step_2 Draw in blue');
    it.release();
    await it.pass(300);
    expect(it.plan()?.steps[1]?.description).toBe('Draw in blue');
    expect(toolTexts(it).at(-1)).toContain('was written by a person');
  });
});

describe('completion that is earned', () => {
  const claims = { text: 'The chart is drawn. [Done]', calls: [shell()] };
  const withCheck = (check: object): Move => ({
    text: '',
    calls: [planCall({ command: 'update', step: 'step_1', done_when: [check] })],
  });
  const checks = (it: Rig) => it.toolRuns.filter((call) => call.name === 'check');

  test('a step with a check is closed when the check passes', async () => {
    const it = await run([withCheck({ file: 'work/chart.svg' }), claims]);
    expect(checks(it)).toEqual([{ name: 'check', args: '{"file":"work/chart.svg"}' }]);
    expect(statuses(it)).toEqual(['completed', 'running', 'pending']);
  });

  test('a failing check keeps the step open, and the model is told what it said', async () => {
    const it = await run([withCheck({ file: 'work/chart.svg' }), claims], {
      tool: (call) =>
        call.name === 'check'
          ? { ok: false, text: 'work/chart.svg: there is no such file' }
          : { ok: true, text: `fine ${call.args}` },
    });
    expect(statuses(it)).toEqual(['running', 'pending', 'pending']);
    expect(it.events().findLast((event) => event.type === 'step.claimed')).toMatchObject({ veto: 'check_failed' });
    expect(lastBlock(it)).toContain('there is no such file');
  });

  test('a check by a person waits for them; yes closes the step, anything else is reported to the model', async () => {
    for (const [answer, status] of [
      ['yes, looks good', 'completed'],
      ['the bars are upside down', 'running'],
    ] as const) {
      const it = await run([withCheck({ person: 'Is the chart right?' }), claims]);
      expect(it.plan()).toMatchObject({ status: 'waiting', reason: 'check' });
      expect(it.reply('1.md')).toContain('Is the chart right?');
      await it.say('2.md', answer);
      await it.pass(300);
      expect(it.plan()?.steps[0]?.status, answer).toBe(status);
      if (status === 'running') expect(lastBlock(it)).toContain('the bars are upside down');
    }
  });

  test('a "yes" that a person wrote before the question passes no check: the question is put to them again', async () => {
    const it = await run([withCheck({ person: 'Is the chart right?' }), { hold: true, next: () => claims }]);
    await it.say('2.md', 'looks good');
    it.release();
    await it.pass(300);
    for (const reply of ['1.md', '2.md']) expect(it.reply(reply)).toContain('Is the chart right?');
    expect(it.plan()).toMatchObject({ status: 'waiting', reason: 'check' });
    await it.say('3.md', 'yes');
    await it.pass(300);
    expect(it.plan()?.steps[0]).toMatchObject({ status: 'completed', completed_by: 'person' });
    expect(it.requests.at(-1)?.messages.some(({ content }) => content === 'looks good')).toBe(true);
  });

  test('a check that a person replaces while it runs closes nothing: the new one does', async () => {
    const it = await run([withCheck({ file: 'work/a.svg' }), claims], {
      tool: (call) => {
        if (call.name !== 'check') return { ok: true, text: `fine ${call.args}` };
        return String(call.args).includes('a.svg') ? 'hold' : { ok: false, text: 'there is no work/b.svg' };
      },
    });
    await it.pass(300);
    const plan = it.plan();
    const steps = plan?.steps.map((step, n) => (n === 0 ? { ...step, done_when: [{ file: 'work/b.svg' }] } : step));
    it.store.hands.edit(JSON.stringify({ ...plan, steps }));
    await it.wake();
    it.release();
    await it.pass(300);
    expect(checks(it).map(({ args }) => args)).toEqual(['{"file":"work/a.svg"}', '{"file":"work/b.svg"}']);
    expect(statuses(it)?.[0]).toBe('running');
    expect(lastBlock(it)).toContain('there is no work/b.svg');
  });

  test.each(['pending', 'completed', 'skipped'])(
    'a step that a person sets to %s after a daemon was killed in its check: the check gets its end, and the old answer closes nothing',
    async (status) => {
      const it = await run([withCheck({ command: 'make test' }), claims], {
        tool: (call) => (call.name === 'check' ? 'hold' : { ok: true, text: `fine ${call.args}` }),
        replay: (name) => (name === 'check' ? 'never' : 'safe'),
      });
      it.kill();
      const plan = it.plan();
      const steps = plan?.steps.map((step, n) => (n === 0 ? { ...step, status } : step));
      it.store.hands.edit(JSON.stringify({ ...plan, steps }));
      const asked = it.requests.length;
      await it.restart();
      await it.pass(300);
      const events = it.events();
      const call = events.flatMap((event) =>
        event.type === 'tool.started' && event.name === 'check' ? [event.call] : [],
      );
      expect(call).toHaveLength(1);
      expect(events.filter((event) => event.type === 'tool.interrupted')).toMatchObject([
        { call: call[0], outcome: 'unknown' },
      ]);
      expect(events.filter((event) => event.type === 'step.claimed')).toHaveLength(1);
      expect(it.requests.length).toBeGreaterThan(asked);
      expect(statuses(it)?.[0]).toBe(status === 'pending' ? 'running' : status);
    },
  );

  test('a stop after a daemon was killed in a check ends that check once', async () => {
    const it = await run([withCheck({ command: 'make test' }), claims], {
      tool: (call) => (call.name === 'check' ? 'hold' : { ok: true, text: `fine ${call.args}` }),
      replay: (name) => (name === 'check' ? 'never' : 'safe'),
      resume: () => 'hold',
    });
    it.kill();
    it.drop('2.md', '/stop');
    await it.restart();
    await it.pass(300);
    expect(it.reply('1.md')).toMatch(/^status: paused$/m);
    expect(it.events().filter((event) => event.type === 'tool.interrupted')).toHaveLength(1);
  });

  test('a person closes a step whose check fails', async () => {
    const it = await run([withCheck({ file: 'work/x' }), claims], {
      tool: (call) => ({ ok: call.name !== 'check', text: `t ${call.args}` }),
    });
    await it.say('2.md', '/plan done step_1');
    await it.pass(300);
    expect(it.plan()?.steps[0]).toMatchObject({ status: 'completed', completed_by: 'person' });
  });

  test('a finished step keeps its own result and the files it wrote', async () => {
    const it = await run([
      { text: '', calls: [{ name: 'write_file', args: { path: 'chart.svg', content: '<svg/>' } }] },
      { text: 'Five links saved. [Done]', calls: [shell()] },
    ]);
    expect(it.plan()?.steps[0]).toMatchObject({ result: 'Five links saved.', attachments: ['work/chart.svg'] });
  });
});

describe('reversible', () => {
  test('/plan changes the plan as a hand edit would', async () => {
    const it = await run([]);
    for (const [n, order] of [
      'skip step_2 not needed',
      'add after step_1: Check them',
      'move step_3 1',
      'done step_1 by hand',
    ].entries()) {
      await it.say(`o${n}.md`, `/plan ${order}`);
    }
    await it.pass(300);
    expect(it.plan()?.steps.map((step) => [step.id, step.status])).toEqual([
      ['step_3', 'pending'],
      ['step_1', 'completed'],
      ['step_4', 'pending'],
      ['step_2', 'skipped'],
    ]);
    expect(await it.say('x.md', '/plan fly away')).toContain('status: rejected');
  });

  test('an order to change a plan is rejected where there is none, and nothing is asked to be undone', async () => {
    const it = await rig({ script: moves({ hold: true }) });
    const say = async (name: string, command: string, text = '') => {
      await it.say(name, JSON.stringify({ command, text }));
      return JSON.parse(it.reply(name) ?? '{}');
    };
    for (const order of ['done 1', 'add Draw it', 'move 1 2'])
      expect(await say(`${order}.json`, 'plan', order)).toMatchObject({
        status: 'rejected',
        text: 'There is no plan.',
      });
    for (const [command, text] of [
      ['plan', ''],
      ['plan', 'undo'],
      ['undo', ''],
    ] as const)
      expect(await say(`${command} ${text}.json`, command, text)).toMatchObject({
        ...{ status: 'done', text: 'There is no plan.' },
      });
    expect(it.events().reduce(reduceEvent, emptySession('demo')).title).toBeNull();
  });

  test('undo after any advance restores the step and the one that was begun after it', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.constantFrom('Fetched. [Done]', '[Failed: x]', '[Skip: x]', 'Fetched. [Done: step_1]'),
        fc.integer({ min: 0, max: 2 }),
        async (text, extra) => {
          const before = await run(Array.from({ length: extra }, () => ({ text: '', calls: [shell()] })));
          const after = await run([
            ...Array.from({ length: extra }, () => ({ text: '', calls: [shell()] })),
            { text, calls: [shell()] },
          ]);
          await after.say('u.md', '/undo');
          after.release();
          await after.pass(300);
          const bare = (it: Rig) => it.plan()?.steps.map(({ started_at: _, iterations: __, ...step }) => step);
          expect(bare(after)).toEqual(bare(before));
          expect(after.plan()?.steps[0]?.iterations).toBe((before.plan()?.steps[0]?.iterations ?? 0) + 1);
        },
      ),
      { numRuns: 12 },
    );
  });
});

describe('a claim without a call that succeeded', () => {
  const failing = { tool: () => ({ ok: false, text: 'exit 2', exit: 2 }) };

  test('is refused after calls that all failed; said again, it closes the step as unproven', async () => {
    const claim = { text: '[Done] Fetched.' };
    const it = await run([claim, claim, { text: 'no' }], failing);
    expect(statuses(it)).toEqual(['completed', 'running', 'pending']);
    expect(it.plan()?.steps[0]).toMatchObject({ completed_by: 'text', result: 'Fetched.' });
    expect(it.events().filter((event) => event.type === 'step.claimed')).toMatchObject([{ veto: 'tool_failed' }]);
    const once = await run([claim, { text: 'no' }], failing);
    expect(statuses(once)).toEqual(['running', 'pending', 'pending']);
  });

  test('closes a step that asked for a text with that text, as unproven, also where a mode requires tools', async () => {
    const essay = `${'A sentence of the essay about the sea. '.repeat(8)}\n[Done]`;
    const it = await rig({
      config: { mode: 'plan-act' },
      script: moves({ text: JSON.stringify({ steps: ['Write an essay'] }) }, { text: essay }, { text: 'Here it is.' }),
    });
    it.drop('1.md', 'An essay');
    await it.pass(300);
    expect(it.plan()).toMatchObject({ status: 'completed', steps: [{ completed_by: 'text' }] });
    expect(it.reply('1.md')).toContain('Note: no tool call of this plan succeeded.');
  });
});

test('a closed step names what a person can check; one with nothing to check is shown as unproven', async () => {
  const write = { name: 'write_file', args: { path: 'a.txt', content: 'x' } };
  const it = await rig({
    script: moves(
      { text: '[Step] Fetch\n[Step] Think', calls: [write, { name: 'shell', args: { command: 'npm test' } }] },
      { text: '[Done] fetched', calls: [] },
      { text: '[Done] thought' },
      { text: 'All there.' },
    ),
    tool: ({ name }) => ({
      ok: true,
      text: 'fine',
      ...(name === 'shell' ? { exit: 0 } : { sha256: 'ab12'.repeat(16) }),
    }),
  });
  it.drop('1.md', 'go');
  await it.pass(300);
  expect(it.plan()?.steps).toMatchObject([
    { proof: ['work/a.txt sha256 ab12ab12ab12ab12', 'exit 0: npm test'] },
    { completed_by: 'marker', proof: [] },
  ]);
  expect(it.reply('1.md')).toContain(
    'Note: unproven, because no tool call succeeded and the text is all there is: Think',
  );
});

test.each([
  ['I did it. [Done: five links]', 'I did it. five links'],
  ['完成了。[完成：五个链接]', '完成了。五个链接'],
  ['[Done] - five links', 'five links'],
  ['-rw-r--r-- 1 me notes [Done]', '-rw-r--r-- 1 me notes'],
  ['It says "quoted [Done]" here. [Done]', 'It says "quoted [Done]" here.'],
])('the result of %j keeps its words, dashes and brackets', async (text, result) => {
  const it = await run([{ text, calls: [shell()] }]);
  expect(it.plan()?.steps[0]?.result).toBe(result);
});

test('a plan that is restated does not grow: its completed steps are named again too', async () => {
  const again = '[Step] Fetch\n[Step] Draw.\n[Step] mail';
  const it = await run([
    { text: `Fetched. [Done]\n${again}`, calls: [shell()] },
    { text: again, calls: [shell()] },
  ]);
  expect(statuses(it)).toEqual(['completed', 'running', 'pending']);
});

test('calls that are made in turn with the same results are repeats', async () => {
  const it = await rig({
    script: (_request, n) => ({
      text: n === 0 ? '[Step] Look' : '',
      calls: [{ name: 'shell', args: { command: `cat ${n % 3}` } }],
    }),
    tool: (_call, n) => ({ ok: true, text: `text ${n % 3}` }),
  });
  it.drop('1.md', 'Look');
  await it.pass(300);
  expect(it.reply('1.md')).toMatch(/^reason: repeats$/m);
  expect(it.requests.length).toBeLessThan(20);
});
