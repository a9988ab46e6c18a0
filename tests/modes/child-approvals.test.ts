import { expect, test } from 'vitest';
import type { Permission } from '../../src/engine/ports/tool-ports.ts';
import { statusOf } from '../support/daemon.ts';
import { type Family, type FamilyOptions, type FamilyScript, family } from '../support/family.ts';
import { rig } from '../support/rig.ts';

const ASK: Permission = {
  is: 'ask',
  why: 'it reaches the network',
  rule: false,
  display: 'https://example.com/',
  always: 'web_fetch(https://example.com/*)',
};
const fetched = { name: 'web_fetch', args: { url: 'https://example.com/' } };
const PLAN = { steps: ['one', 'two'].map((id) => ({ id, description: `work on ${id}` })) };
const CHILDREN = ['demo~one', 'demo~two'];

/** A root in the mode `dag`, whose children each want one call that needs approval. */
const asking = (script?: Maybe): Family => family(familyOptions(script));

type Maybe = (...given: Parameters<FamilyScript>) => ReturnType<FamilyScript> | null;

function familyOptions(script?: Maybe): FamilyOptions {
  return {
    config: { mode: 'dag', limits: { approval_minutes: 60 } },
    permit: (_, call) => (call.name === 'web_fetch' ? ASK : { is: 'allow' }),
    script: (session, request, asked) => {
      const own = script?.(session, request, asked);
      if (own) return own;
      if (session === 'demo')
        return /JSON object/.test(String(request.messages.at(-1)?.content))
          ? { text: JSON.stringify(asked === 0 ? PLAN : { keep: true }) }
          : { text: 'THE SUMMARY' };
      return asked === 0 ? { calls: [fetched] } : { text: '[Done] fetched' };
    },
  };
}

let count = 0;
/** What is said, once everything has happened that does not take minutes. */
async function say(on: Family, text: string, at = 'demo'): Promise<string> {
  const name = `m${++count}.md`;
  on.drop(at, name, text);
  await on.settleWithin(60_000);
  expect(on.errors).toEqual([]);
  return on.reply(name, at) ?? '';
}

const statuses = (on: Family) => on.session('demo').plan?.steps.map((step) => step.status);
const results = (on: Family, name: string) =>
  on
    .store(name)
    .hands.events()
    .flatMap((event) => (event.type === 'tool.finished' ? [event.ok] : []));
const answers = (on: Family, name: string) =>
  on
    .store(name)
    .hands.events()
    .flatMap((event) => (event.type === 'approval.answered' ? [[event.decision, event.by]] : []));
const standing = (on: Family) => [on.session('demo').run !== null, on.session('demo').plan?.status];

test('calls of child sessions are asked about at the root, in one list, and the run rests', async () => {
  const on = asking();
  const reply = await say(on, 'go');
  expect(statusOf(reply)).toBe('waiting');
  expect(reply).toContain('reason: approval');
  for (const child of CHILDREN)
    expect(reply).toMatch(new RegExp(`${child}, call 1, web_fetch; it reaches the network`));
  expect(reply).toContain('To answer all 2');
  expect(on.session('demo').plan).toMatchObject({ status: 'waiting', reason: 'approval' });
  expect(await say(on, '/status')).toContain('waiting (approval)');
  expect(await say(on, 'continue')).toContain('demo~two, call 1');
  expect(CHILDREN.flatMap((child) => answers(on, child))).toEqual([]);
});

test.each([
  ['yes', 'allow'],
  ['/approve', 'allow'],
  ['always', 'allow'],
  ['no', 'deny'],
  ['/deny', 'deny'],
])('"%s" answers all of them, each once, and the reply to it is how the run ends', async (words, decision) => {
  const on = asking();
  await say(on, 'go');
  const reply = await say(on, words);
  expect(statusOf(reply)).toBe('done');
  expect(reply).toContain('THE SUMMARY');
  for (const child of CHILDREN) {
    expect(answers(on, child)).toEqual([[decision, 'person']]);
    expect(results(on, child)).toEqual([decision === 'allow']);
  }
  expect(statuses(on)).toEqual(['completed', 'completed']);
});

test('one of them is answered by its name, and the run rests for the other', async () => {
  const on = asking();
  await say(on, 'go');
  expect(await say(on, '/approve nobody')).toMatch(/status: rejected[\s\S]*demo~one 1, demo~two 1/);
  expect(await say(on, '/approve 1')).toContain('status: rejected');
  const first = await say(on, '/approve demo~one');
  expect(statusOf(first)).toBe('waiting');
  expect(first).toContain('demo~two, call 1');
  expect(first).not.toContain('demo~one, call 1');
  expect(standing(on)).toEqual([false, 'waiting']);
  expect(statusOf(await say(on, '/deny two 1'))).toBe('done');
  expect([answers(on, 'demo~one'), answers(on, 'demo~two')]).toEqual([[['allow', 'person']], [['deny', 'person']]]);
});

test('a no with other words denies, and they are passed on to each child and to the model', async () => {
  const on = asking();
  await say(on, 'go');
  expect(statusOf(await say(on, 'no, use the mirror on the intranet'))).toBe('done');
  for (const child of CHILDREN) {
    expect(answers(on, child)).toEqual([['deny', 'person']]);
    expect(JSON.stringify(on.session(child).conversation)).toContain('use the mirror on the intranet');
  }
});

test.each([
  ['/deny use the mirror on the intranet', ['deny', 'deny']],
  ['/deny two use the mirror on the intranet', ['allow', 'deny']],
  ['/deny two 1 use the mirror on the intranet', ['allow', 'deny']],
  ['/deny demo~two 1 use the mirror on the intranet', ['allow', 'deny']],
])('what follows the names in "%s" is passed on to each child whose call it denies', async (words, decisions) => {
  const on = asking();
  await say(on, 'go');
  const reply = await say(on, words);
  if (statusOf(reply) === 'waiting') expect(statusOf(await say(on, 'yes'))).toBe('done');
  for (const [place, child] of CHILDREN.entries()) {
    expect(answers(on, child)).toEqual([[decisions[place], 'person']]);
    const heard = JSON.stringify(on.session(child).conversation).includes('use the mirror on the intranet');
    expect(heard).toBe(decisions[place] === 'deny');
  }
});

test('words that are no answer leave the calls waiting, and the model gets them once each has its answer', async () => {
  const on = asking();
  await say(on, 'go');
  const reply = await say(on, 'use the mirror on the intranet');
  expect(statusOf(reply)).toBe('waiting');
  expect(reply).toContain('neither allow nor deny');
  expect(reply).toContain('demo~two, call 1');
  expect(CHILDREN.flatMap((child) => answers(on, child))).toEqual([]);
  expect(statusOf(await say(on, 'yes'))).toBe('done');
  for (const child of CHILDREN) expect(answers(on, child)).toEqual([['allow', 'person']]);
  expect(JSON.stringify(on.session('demo').conversation)).toContain('use the mirror on the intranet');
});

test('an answer in the session of the child, or in its file, is taken there, and the root goes on once none is left', async () => {
  const on = asking();
  await say(on, 'go');
  await say(on, 'yes', 'demo~one');
  expect(standing(on)).toEqual([false, 'waiting']);
  const file = JSON.parse(on.store('demo~two').hands.approvals().get(1) ?? '');
  on.store('demo~two').hands.saveApproval(1, JSON.stringify({ ...file, decision: 'allow' }));
  on.drop('demo~two', 'look.md', '/status');
  await on.settleWithin(60_000);
  expect([answers(on, 'demo~one'), answers(on, 'demo~two')]).toEqual([[['allow', 'chat']], [['allow', 'file']]]);
  expect(on.reply('approval-children.md')).toMatch(/status: done[\s\S]*THE SUMMARY/);
  expect(statuses(on)).toEqual(['completed', 'completed']);
});

test('a call that comes while another is answered is asked about by itself, and no "yes" answers what was not shown', async () => {
  const on = asking((session, _request, asked) =>
    session === 'demo~two' && asked < 2
      ? { calls: [{ ...fetched, args: { url: `https://example.com/${asked}` } }] }
      : null,
  );
  await say(on, 'go');
  const second = await say(on, 'yes');
  expect(statusOf(second)).toBe('waiting');
  expect(second).toContain('demo~two, call 2');
  expect(answers(on, 'demo~two')).toHaveLength(1);
  expect(statusOf(await say(on, 'ok'))).toBe('done');
  expect(answers(on, 'demo~two')).toHaveLength(2);
});

test('a "yes" that comes with a further call answers only what was asked about before', async () => {
  const call = (session: string) => ({
    ...{ session, id: 1, tool: 'web_fetch', display: 'x', why: 'it asks', always: null, hash: `hash of ${session}` },
    expires_at: '2026-01-05T09:00:00.000Z',
  });
  const on = await rig({ config: { mode: 'dag' }, script: () => ({ text: JSON.stringify(PLAN) }) });
  on.drop('1.md', 'go');
  await on.pass(300);
  on.children.waiting.push(call('demo~one'));
  on.worker.wake();
  await on.pass(1500);
  expect(on.reply('1.md')).toContain('demo~one, call 1');
  on.children.waiting.push(call('demo~two'));
  on.drop('2.md', 'yes');
  await on.pass(300);
  const told = on.children.sent.flatMap(({ child, message: { command, text } }) =>
    command ? [[child, command, text]] : [],
  );
  expect(told).toEqual([['demo~one', 'approve', '1']]);
  expect(on.reply('2.md')).toMatch(/status: waiting[\s\S]*demo~two, call 1/);
});

test('what nobody answers is denied in time, and the run goes on by itself', async () => {
  const on = asking();
  await say(on, 'go');
  await on.settle();
  expect(CHILDREN.flatMap((child) => answers(on, child))).toEqual([
    ['deny', 'nobody'],
    ['deny', 'nobody'],
  ]);
  expect(on.reply('approval-children.md')).toContain('status: done');
});

test.each([
  ['/pause', 'paused', 'paused'],
  ['stop', 'paused', 'paused'],
  ['/cancel', 'cancelled', 'cancelled'],
])('"%s" ends the wait: no call runs, and "continue" asks again', async (words, status, plan) => {
  const on = asking((session, request, asked) =>
    session !== 'demo' && asked < 3 && !JSON.stringify(request.messages).includes('output of')
      ? { calls: [fetched] }
      : null,
  );
  await say(on, 'go');
  await say(on, words);
  expect(on.session('demo').runEnd?.status).toBe(status);
  expect(on.session('demo').plan?.status).toBe(plan);
  expect(CHILDREN.flatMap((child) => answers(on, child)).every(([decision]) => decision === 'deny')).toBe(true);
  expect(statusOf(await say(on, 'continue'))).toBe('waiting');
  expect(statusOf(await say(on, 'yes'))).toBe('done');
});

test("a call of a child's child is asked about at the root, and answered there", async () => {
  const on = family({
    config: { limits: { approval_minutes: 60 } },
    permit: (_, call) => (call.name === 'web_fetch' ? ASK : { is: 'allow' }),
    script: (session, _request, asked) => {
      if (session === 'demo~step_1~step_1') return asked === 0 ? { calls: [fetched] } : { text: 'Fetched.' };
      return asked === 0 ? { calls: [{ name: 'spawn', args: { task: 'fetch it' } }] } : { text: 'It is there.' };
    },
  });
  const reply = await say(on, 'go');
  expect(statusOf(reply)).toBe('waiting');
  expect(reply).toContain('demo~step_1~step_1, call 1');
  expect(on.session('demo~step_1').run).not.toBeNull();
  expect(statusOf(await say(on, 'yes'))).toBe('done');
  expect(answers(on, 'demo~step_1~step_1')).toEqual([['allow', 'person']]);
});

test('a power cut anywhere costs no question and no answer, and no call runs twice', async () => {
  const whole = asking();
  await say(whole, 'go');
  await say(whole, 'yes');
  const all = whole.count();
  for (let cut = 1; cut < all; cut++) {
    const on = family({ ...familyOptions(), cuts: [cut] });
    on.drop('demo', '1.md', 'go');
    await on.settleWithin(60_000);
    on.drop('demo', '2.md', 'yes');
    await on.settleWithin(60_000);
    expect([cut, statusOf(on.reply('2.md') ?? ''), on.faults]).toEqual([cut, 'done', []]);
    for (const child of CHILDREN) expect([cut, answers(on, child)]).toEqual([cut, [['allow', 'person']]]);
  }
});
