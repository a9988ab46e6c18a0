import { expect, test } from 'vitest';
import { type Move, moves, type Rig, rig, shell } from '../support/rig.ts';

async function say(it: Rig, name: string, text: string): Promise<string> {
  it.drop(name, text);
  await it.pass(500);
  return it.reply(name) ?? '';
}

const BLOCKED: Move[] = [{ text: '[Step] Log in', calls: [shell()] }, { text: '[Blocked: the password is missing]' }];
const ASKING: Move[] = [
  { text: '[Step] Log in\n[Step] Read', calls: [shell()] },
  ...Array.from({ length: 4 }, () => ({ text: 'Which account do you mean?' })),
];

test.each([
  ['what is missing', BLOCKED, 'send what is missing'],
  ['an answer', ASKING, 'send your answer, or say "continue". If the step is done: /plan done 1'],
])('the reply of a run that waits for %s says what to do, and so does /status', async (_, answers, way) => {
  const it = await rig({ script: moves(...answers) });
  const reply = await say(it, '1.md', 'Read my mail');
  expect(reply).toMatch(/^status: waiting$/m);
  expect(reply).toContain(way);
  expect(await say(it, 's.md', '/status')).toContain(way);
});

test('/status names the call that waits, and how to answer it', async () => {
  const it = await rig({
    script: moves({ text: '', calls: [shell()] }),
    permit: () => ({
      is: 'ask',
      why: 'it reaches the network',
      rule: false,
      display: 'curl example.com',
      always: 'shell(curl example.com)',
    }),
  });
  await say(it, '1.md', 'Read my mail');
  const status = await say(it, 's.md', '/status');
  expect(status).toContain('Call 1, shell; it reaches the network');
  expect(status).toContain('curl example.com');
  expect(status).toContain('/approve 1 or /deny 1');
});

test.each(['/status', '/plan'])(
  '%s says that a plan.json saved just before cannot be read, and where',
  async (command) => {
    const it = await rig({ script: moves(...BLOCKED) });
    await say(it, '1.md', 'Read my mail');
    it.store.hands.edit((it.store.hands.planText() ?? '').slice(0, -5));
    expect(await say(it, 's.md', command)).toMatch(/plan\.json.*line \d+, column \d+/);
  },
);

test('a plan that begins only after a stop has the request as its goal, not the "continue"', async () => {
  const it = await rig({ script: moves({ hold: true }, { text: '[Step] Numbers', calls: [shell()] }, { hold: true }) });
  await say(it, '1.md', 'Make the yearly report');
  await say(it, 's.md', '/stop');
  await say(it, 'c.md', 'continue');
  expect(it.plan()).toMatchObject({ goal: 'Make the yearly report', status: 'running' });
});
