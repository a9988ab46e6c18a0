import { expect, test } from 'vitest';
import { formatReplyFile } from '../../src/core/messages/replies.ts';
import type { EventBody } from '../../src/protocol/session/event.ts';
import { type Move, type Rig, rig } from '../support/rig.ts';

const TASK = 'Fetch the reports and draw a chart';

/** Answers by what the conversation holds, so that a resumed run goes on with the same story. */
function story(answered: string[]): Move {
  const answers = answered.length;
  const list: Move[] = [
    { text: '[Step] Fetch\n[Step] Draw', calls: [{ name: 'shell', args: { command: 'fetch' } }] },
    { text: 'Fetched all five. [Done]', calls: [{ name: 'read_file', args: { path: 'a.csv' } }] },
    { text: 'Drawing.', calls: [{ name: 'shell', args: { command: 'draw' } }] },
    { text: 'Drawn into chart.svg. [Done]' },
  ];
  return list[Math.min(answers, list.length - 1)] ?? {};
}

async function live(before: EventBody[]): Promise<Rig> {
  const it = await rig({
    before,
    script: (request) =>
      story(request.messages.flatMap((message) => (message.role === 'assistant' ? [message.content ?? ''] : []))),
    tool: (call) => ({ ok: true, text: `exit 0\n${call.args}` }),
    replay: (name) => (name === 'read_file' ? 'safe' : 'never'),
  });
  if (!before.some((event) => event.type === 'message.received')) it.store.hands.drop('1.md', TASK);
  // Where it is in the event log that the reply was published, it is in the outbox.
  const isPublished = before.some((event) => event.type === 'reply.published');
  for (const event of before)
    if (isPublished && event.type === 'reply.committed')
      await it.store.outbox.publish(event.reply.id, formatReplyFile(event.reply));
  it.worker.wake();
  await it.pass(300);
  return it;
}

const bodies = (it: Rig): EventBody[] => it.events().map(({ v, seq, epoch, at, ...body }) => body);

function summary(it: Rig) {
  const events = it.events();
  const count = (type: string) => events.filter((event) => event.type === type).length;
  const starts = events.flatMap((event) =>
    event.type === 'tool.started' && event.replay === 'never' ? [event.call] : [],
  );
  return {
    plan: { status: it.plan()?.status, steps: it.plan()?.steps.map((step) => [step.description, step.status]) },
    replies: [...it.store.hands.replies().keys()],
    committed: count('reply.committed'),
    published: count('reply.published'),
    runs: count('run.started'),
    twice: starts.length - new Set(starts).size,
    reply: /Drawn into chart.svg/.test(it.reply('1.md') ?? ''),
  };
}

/** The reply; the id of its plan is the moment it was made. */
const replyIn = (it: Rig) => it.reply('1.md')?.replace(/plan_\d+/, 'plan');

test('a power cut after any line costs nothing but time', async () => {
  const whole = await live([]);
  expect(whole.faults).toEqual([]);
  const lines = bodies(whole);
  expect(lines.length).toBeGreaterThan(20);
  const wanted = summary(whole);
  expect(wanted).toMatchObject({
    plan: { status: 'completed' },
    committed: 1,
    published: 1,
    runs: 1,
    twice: 0,
    reply: true,
  });
  for (let cut = 0; cut <= lines.length; cut++) {
    const half = await live(lines.slice(0, cut));
    expect(half.faults, `cut after line ${cut}`).toEqual([]);
    expect(summary(half), `cut after line ${cut}`).toEqual(wanted);
    expect(replyIn(half), `cut after line ${cut}`).toBe(replyIn(whole));
  }
});

test('a call that was open at the cut is never started again unless it is safe', async () => {
  const lines = bodies(await live([]));
  for (const [place, line] of lines.entries()) {
    if (line.type !== 'tool.started') continue;
    const half = await live(lines.slice(0, place + 1));
    const runs = half.toolRuns.filter((call) => call.args === line.args).length;
    expect(runs, `${line.name} ${line.args}`).toBe(line.replay === 'safe' ? 1 : 0);
    const reported = JSON.stringify(half.requests.map((request) => request.messages)).includes(
      'may or may not have run',
    );
    expect(reported).toBe(line.replay !== 'safe');
  }
});

test('recovering twice is the same as once', async () => {
  const lines = bodies(await live([]));
  for (let cut = 3; cut < lines.length; cut += 4) {
    const once = await live(lines.slice(0, cut));
    const after = once.events().length;
    await once.restart();
    expect(once.events().length, `cut after line ${cut}`).toBe(after);
  }
});
