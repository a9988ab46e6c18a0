import { expect, test } from 'vitest';
import type { Permission } from '../../src/engine/ports/tool-ports.ts';
import type { EventBody } from '../../src/protocol/session/event.ts';
import { ApprovalFile } from '../../src/protocol/settings/permissions.ts';
import { type Move, moves, type Rig, type RigOptions, rig } from '../support/rig.ts';

const PUSH = { name: 'shell', args: { command: 'git push' } };
const ASK: Permission = {
  is: 'ask',
  why: 'it reaches the network',
  rule: false,
  display: 'git push',
  always: 'shell(git push)',
};

/** A session whose shell calls are asked about, and a model that wants one. */
function asked(options: Partial<RigOptions> = {}, ...script: Move[]): Promise<Rig> {
  return rig({
    script: moves(...(script.length > 0 ? script : [{ calls: [PUSH] }, { text: 'It is pushed.' }])),
    permit: ({ name }) => (name === 'shell' ? ASK : { is: 'allow' }),
    ...options,
  });
}

async function waiting(options: Partial<RigOptions> = {}, ...script: Move[]): Promise<Rig> {
  const it = await asked(options, ...script);
  await it.say('1.md', 'push it');
  return it;
}

const fileOf = (it: Rig, id = 1): ApprovalFile =>
  ApprovalFile.parse(JSON.parse(it.store.hands.approvals().get(id) ?? ''));
const answer = (it: Rig, change: object, id = 1) => {
  it.store.hands.saveApproval(id, JSON.stringify({ ...fileOf(it, id), ...change }));
  it.worker.wake();
};
const answers = (it: Rig) => it.events().filter((event) => event.type === 'approval.answered');
/** What the model was told of its last call. */
const reported = (it: Rig) => it.requests.at(-1)?.messages.findLast((message) => message.role === 'tool')?.content;

test('a call that asks does not run: the run waits, its reply and a file show the exact call', async () => {
  const it = await waiting();
  expect(it.toolRuns).toEqual([]);
  expect(it.types().slice(-4)).toEqual(['approval.asked', 'run.ended', 'reply.committed', 'reply.published']);
  expect(it.reply('1.md')).toContain('status: waiting');
  expect(it.reply('1.md')).toContain('approval: 1');
  expect(it.reply('1.md')).toContain('    git push\n');
  expect(it.reply('1.md')).toContain('/approve 1');
  expect(fileOf(it)).toMatchObject({
    id: 1,
    decision: null,
    always: 'shell(git push)',
    call: { tool: 'shell', args: '{"command":"git push"}' },
    why: 'it reaches the network',
  });
  expect(it.plan()).toMatchObject({ status: 'waiting', reason: 'approval' });
  expect(it.worker.isIdle).toBe(true);
});

test.each([
  ['yes', 'chat'],
  ['可以', 'chat'],
  ['OK.', 'chat'],
  ['/approve', 'person'],
  ['/approve 1', 'person'],
])('"%s" lets the same call run once, and its reply tells what came of it', async (reply, by) => {
  const it = await waiting();
  await it.say('2.md', reply);
  expect(answers(it)).toMatchObject([{ decision: 'allow', by, id: 1, message: '2.md' }]);
  expect(it.toolRuns).toEqual([{ name: 'shell', args: '{"command":"git push"}' }]);
  expect(it.reply('2.md')).toContain('status: done');
  expect(it.reply('2.md')).toContain('It is pushed.');
  expect(it.store.hands.approvals().size).toBe(0);
  expect(JSON.parse(it.store.hands.answered().get(1) ?? '')).toMatchObject({
    decision: 'allow',
    answered: { by, decision: 'allow' },
  });
  expect(it.plan()).toMatchObject({ status: 'completed' });
});

test.each(['no', '不行', "don't", '/deny', '/deny 1'])('"%s" is reported to the model as an answer', async (reply) => {
  const it = await waiting();
  await it.say('2.md', reply);
  expect(it.toolRuns).toEqual([]);
  expect(reported(it)).toBe('denied: a person said no');
  expect(it.reply('2.md')).toContain('status: done');
});

test.each(['no, push to the fork', '/deny 1 push to the fork', '/deny push to the fork'])(
  '%s denies the call, and its words join the conversation',
  async (words) => {
    const it = await waiting();
    await it.say('2.md', words);
    expect(it.toolRuns).toEqual([]);
    expect(reported(it)).toContain('the person wrote something else');
    expect(it.requests.at(-1)?.messages.some((message) => String(message.content).includes('push to the fork'))).toBe(
      true,
    );
  },
);

test.each(['what does this do?', 'maybe', 'let me look at it first', 'yes, but push to the fork'])(
  '%s is no answer: the call waits on, and the model gets the words once it is decided',
  async (words) => {
    const it = await waiting();
    await it.say('2.md', words);
    expect(answers(it)).toEqual([]);
    expect(it.reply('2.md')).toContain('status: waiting');
    expect(it.reply('2.md')).toContain('neither allow nor deny');
    await it.say('3.md', 'yes');
    expect(it.toolRuns).toHaveLength(1);
    expect(JSON.stringify(it.requests.at(-1)?.messages)).toContain(words);
  },
);

test('a yes that was written before anything was asked is no answer', async () => {
  const it = await asked({}, { hold: true, next: () => ({ calls: [PUSH] }) }, { text: 'done' });
  await it.say('1.md', 'push it');
  await it.say('2.md', 'yes');
  await it.letGo();
  expect(answers(it)).toEqual([]);
  expect(it.toolRuns).toEqual([]);
  await it.say('3.md', 'yes');
  expect(it.toolRuns).toHaveLength(1);
  expect(it.reply('2.md')).toContain('status: joined');
  expect(it.reply('3.md')).toContain('status: done');
});

test('an answer written into the file is taken, and what came of it gets a reply of its own', async () => {
  const it = await waiting();
  answer(it, { decision: 'allow' });
  await it.settle();
  expect(answers(it)).toMatchObject([{ decision: 'allow', by: 'file' }]);
  expect(it.toolRuns).toHaveLength(1);
  expect(it.reply('approval-1.md')).toContain('It is pushed.');
  expect(it.reply('approval-1.md')).toContain('in_reply_to: approval-1.md');
});

test('a file whose call was changed is no leave for either call', async () => {
  const it = await waiting();
  answer(it, { decision: 'allow', call: { tool: 'shell', args: '{"command":"rm -rf /"}' } });
  await it.settle();
  expect(answers(it)).toEqual([]);
  expect(it.toolRuns).toEqual([]);
});

test('an approval for another hash is no leave', async () => {
  const it = await waiting();
  answer(it, { decision: 'allow', hash: '0'.repeat(64) });
  await it.settle();
  expect(it.toolRuns).toEqual([]);
  answer(it, { decision: 'allow', why: 'something else', display: 'echo hi' });
  await it.settle();
  // What else is changed is of no account, the call runs as it is in the event log; but this file still has the wrong hash.
  expect(it.toolRuns).toEqual([]);
});

test('a file that does not parse is left as it is; one that was removed is written again', async () => {
  const it = await waiting();
  it.store.hands.saveApproval(1, '{ "decision": "all');
  await it.wake();
  expect(it.store.hands.approvals().get(1)).toBe('{ "decision": "all');
  it.store.hands.saveApproval(1);
  await it.wake();
  expect(fileOf(it).decision).toBeNull();
});

test('nobody answers: after limits.approval_minutes the model is told so and the run goes on by itself', async () => {
  const it = await waiting({ config: { limits: { approval_minutes: 10 } } });
  await it.pass(9 * 60_000);
  expect(answers(it)).toEqual([]);
  await it.pass(70_000);
  expect(answers(it)).toMatchObject([{ decision: 'deny', by: 'nobody' }]);
  expect(reported(it)).toBe('denied: nobody answered');
  expect(it.toolRuns).toEqual([]);
  expect(it.reply('approval-1.md')).toContain('status: done');
});

test('with approval_minutes 0 nothing waits: the run is denied and goes on at once', async () => {
  const it = await waiting({ config: { limits: { approval_minutes: 0 } } });
  expect(reported(it)).toBe('denied: nobody answered');
  expect(it.reply('1.md')).toContain('status: done');
  expect(it.store.hands.answered().get(1)).toContain('nobody');
});

test('each call of one answer is asked about in turn, in order', async () => {
  const two = [
    { name: 'shell', args: { command: 'one' } },
    { name: 'shell', args: { command: 'two' } },
  ];
  const it = await waiting({}, { calls: two }, { text: 'both' });
  await it.say('2.md', 'yes');
  expect(it.toolRuns.map(({ args }) => args)).toEqual(['{"command":"one"}']);
  expect(it.reply('2.md')).toContain('approval: 2');
  expect(await it.say('3.md', '/approve 1')).toContain('status: rejected');
  await it.say('4.md', '/approve 2');
  expect(it.toolRuns.map(({ args }) => args)).toEqual(['{"command":"one"}', '{"command":"two"}']);
  expect(it.reply('4.md')).toContain('both');
});

test('an approval is for one use: the same call later is asked about again', async () => {
  const it = await waiting({}, { calls: [PUSH] }, { calls: [PUSH] }, { text: 'twice' });
  await it.say('2.md', 'yes');
  expect(it.toolRuns).toHaveLength(1);
  expect(it.reply('2.md')).toContain('approval: 2');
});

test('a call with marks that nobody sees is shown with each of them written out, and runs as it is', async () => {
  const command = 'echo \u202egnihton\u2066 \u200b';
  const display = `${command}\u001b[2K`;
  const permit = { ...ASK, display, why: 'a rule \u202e says so', always: `shell(${command})` };
  const it = await waiting(
    { permit: () => permit },
    { calls: [{ name: 'shell', args: { command } }] },
    { text: 'Ran.' },
  );
  const text = it.store.hands.approvals().get(1) ?? '';
  for (const shown of [text, it.reply('1.md') ?? '']) {
    expect(shown).not.toMatch(/[\u202e\u2066\u200b]/u);
    expect(shown).toContain('u202egnihton');
  }
  expect(fileOf(it).display).toBe('echo \\u202egnihton\\u2066 \\u200b\\u001b[2K');
  expect(fileOf(it).call.args).toBe(JSON.stringify({ command }));
  answer(it, { decision: 'allow' });
  await it.settle();
  expect(it.toolRuns).toEqual([{ name: 'shell', args: JSON.stringify({ command }) }]);
});

test('"always" adds the rule to session.json and keeps what is there', async () => {
  const it = await waiting();
  it.store.hands.saveSettings(
    '{\n    "title": "Mine",\n    "permissions": [{ "deny": "shell(rm *)" }, { "ask": "shell" }]\n}\n',
  );
  await it.say('2.md', 'always');
  expect(JSON.parse(it.store.hands.settings() ?? '')).toEqual({
    title: 'Mine',
    permissions: [{ deny: 'shell(rm *)' }, { allow: 'shell(git push)' }, { ask: 'shell' }],
  });
  expect(answers(it)).toMatchObject([{ decision: 'allow', always: 'shell(git push)' }]);
  expect(it.toolRuns).toHaveLength(1);
});

test('the rule that a person wrote beside "always" in the file is the one that is added', async () => {
  const it = await waiting();
  answer(it, { decision: 'always', always: 'shell(git *)' });
  await it.settle();
  expect(JSON.parse(it.store.hands.settings() ?? '')).toEqual({ permissions: [{ allow: 'shell(git *)' }] });
});

test('a session.json that does not hold is not touched; the call still runs this once', async () => {
  const it = await waiting();
  it.store.hands.saveSettings('{ "title": ');
  await it.say('2.md', '/approve always');
  expect(it.store.hands.settings()).toBe('{ "title": ');
  expect(it.toolRuns).toHaveLength(1);
  expect(answers(it)[0]).not.toHaveProperty('always');
});

test('a rule that denies is reported to the model, and nobody is asked', async () => {
  const it = await waiting({ permit: () => ({ is: 'deny', why: 'a rule of the settings denies it' }) });
  expect(it.toolRuns).toEqual([]);
  expect(reported(it)).toBe('denied: a rule of the settings denies it');
  expect(it.types()).not.toContain('approval.asked');
});

test('a rule that denies and comes between the asking and the yes wins', async () => {
  let ruled = false;
  const it = await waiting({ permit: () => (ruled ? { is: 'deny', why: 'a rule' } : ASK) });
  ruled = true;
  await it.say('2.md', 'yes');
  expect(it.toolRuns).toEqual([]);
  expect(reported(it)).toBe('denied: a rule');
});

test('the third denial of the same call ends the run, "continue" goes on', async () => {
  const it = await waiting(
    { config: { limits: { approval_minutes: 0 } } },
    { calls: [PUSH] },
    { calls: [PUSH] },
    { calls: [{ name: 'shell', args: { command: 'else' } }] },
    { calls: [PUSH] },
    { text: 'I give up.' },
  );
  expect(it.reply('1.md')).toContain('status: paused');
  expect(it.reply('1.md')).toContain('denied 3 times');
  expect(it.reply('1.md')).toContain('git push');
  expect(it.requests).toHaveLength(4);
  expect(await it.say('2.md', 'continue')).toContain('I give up.');
});

test.each([
  ['/stop', 'paused'],
  ['/cancel', 'cancelled'],
])('%s while a call waits ends the wait and runs nothing', async (reply, status) => {
  const it = await waiting();
  await it.say('2.md', reply);
  expect(it.toolRuns).toEqual([]);
  expect(it.plan()?.status ?? it.archived().length).toBe(status);
  expect(it.store.hands.approvals().size).toBe(0);
  expect(it.reply('2.md')).toContain('status: done');
  expect(it.requests).toHaveLength(1);
});

test('/status is answered and the call goes on waiting; a bare "continue" is told again what is asked', async () => {
  const it = await waiting();
  it.drop('2.md', '/status');
  await it.say('3.md', 'continue');
  expect(it.reply('2.md')).toContain('approval');
  expect(it.reply('3.md')).toContain('status: waiting');
  expect(it.reply('3.md')).toContain('git push');
  expect(answers(it)).toEqual([]);
  await it.say('4.md', 'yes');
  expect(it.toolRuns).toHaveLength(1);
});

test.each([
  ['/approve 1', 1],
  ['/deny 1', 0],
])('every step closed by hand while a call waits: "%s" answers that call, in the same plan', async (reply, runs) => {
  const it = await waiting({}, { text: '[Step] Push it', calls: [PUSH] }, { text: 'That is all.' });
  const plan = it.plan();
  const steps = plan?.steps.map((step) => ({ ...step, status: 'completed' }));
  it.store.hands.edit(JSON.stringify({ ...plan, status: 'completed', steps }));
  await it.wake();
  expect(it.plan()).toMatchObject({ status: 'waiting', reason: 'approval', steps: [{ completed_by: 'person' }] });
  await it.say('2.md', reply);
  expect(it.toolRuns).toHaveLength(runs);
  expect(it.reply('2.md')).toMatch(/status: done[\s\S]*That is all\./);
  expect(it.plan()).toMatchObject({ id: plan?.id, goal: 'push it', status: 'completed' });
  expect([it.archived(), it.faults]).toEqual([[], []]);
});

test('/approve where nothing waits is told so', async () => {
  const it = await asked();
  expect(await it.say('1.md', '/approve 3')).toContain('status: rejected');
  expect(it.reply('1.md')).toContain('No call is waiting');
});

test('a yes given while the daemon was down counts, and counters go on as they were', async () => {
  const it = await waiting();
  it.kill();
  it.store.hands.drop('2.md', 'yes');
  await it.restart();
  expect(it.toolRuns).toHaveLength(1);
  expect(it.reply('2.md')).toContain('iterations":2');
});

test('a crash after any event: the call runs once after its yes, and never without', async () => {
  const script: RigOptions['script'] = ({ messages }) =>
    messages.some((message) => message.role === 'tool') ? { text: 'pushed' } : { calls: [PUSH] };
  const whole = await waiting({ script });
  await whole.say('2.md', 'yes');
  const isAnswered = (events: EventBody[]) =>
    events.some((event) => event.type === 'message.received' && event.id === '2.md');
  const record = whole.events().map(({ v: _, seq: __, epoch: ___, at: ____, ...body }) => body as EventBody);
  for (let cut = 3; cut <= record.length; cut++) {
    const before = record.slice(0, cut);
    const has = (type: string) => before.some((event) => event.type === type);
    const it = await asked({ script, before });
    await it.wake();
    expect(it.toolRuns.length, `${cut} without a yes`).toBe(isAnswered(before) && !has('tool.started') ? 1 : 0);
    if (!isAnswered(before)) it.drop('2.md', 'yes');
    await it.settle();
    const starts = it.events().filter((event) => event.type === 'tool.started').length;
    expect(starts, `${cut} in the end`).toBe(1);
    expect(it.toolRuns.length).toBe(has('tool.started') ? 0 : 1);
    expect(it.reply('2.md') ?? (has('reply.published') && 'status: done')).toContain('status: done');
  }
});

test('a child session waits silently, and answers once: when it is done', async () => {
  const it = await rig({
    name: 'demo~step_1',
    script: moves({ calls: [PUSH] }, { text: 'pushed' }),
    permit: () => ASK,
  });
  expect(await it.say('step_1.1.msg.json', JSON.stringify({ id: 'step_1.1', text: 'push it' }))).toBeUndefined();
  expect(it.types().at(-1)).toBe('run.ended');
  answer(it, { decision: 'allow' });
  await it.settle();
  expect(it.toolRuns).toHaveLength(1);
  expect(JSON.parse(it.reply('step_1.1.msg.json') ?? '')).toMatchObject({ status: 'done', text: 'pushed' });
  expect([...it.store.hands.replies().keys()]).toEqual(['step_1.1.msg.json']);
});
