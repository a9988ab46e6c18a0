import { expect, test } from 'vitest';
import { moves, rig, shell } from '../support/rig.ts';

const PLAN = JSON.stringify({ title: 'Revenue', steps: ['Find the figures', 'Write the report'] });

test('a planner writes the steps, each is worked on, and a summary ends the run', async () => {
  const on = await rig({
    config: { mode: 'plan-act' },
    script: moves(
      { text: PLAN },
      { text: 'looking', calls: [shell()] },
      { text: 'found 5 figures [Done]' },
      { text: 'writing', calls: [shell()] },
      { text: 'written [Done]' },
      { text: 'Here is the report.' },
    ),
  });
  const live: string[] = [];
  on.store.live.write = (text) => void live.push(text);
  await on.say('1.md', 'Compare the revenue of five companies');
  // Of what the planner writes, only the summary is for people.
  expect(live).toEqual(['looking', 'found 5 figures [Done]', 'writing', 'written [Done]', 'Here is the report.']);
  expect(on.plan()).toMatchObject({
    status: 'completed',
    mode: 'plan-act',
    title: 'Revenue',
    planned_by: 'planner',
    steps: [
      { status: 'completed', result: 'found 5 figures' },
      { status: 'completed', result: 'written' },
    ],
  });
  expect(on.requests[0]?.tools).toEqual([]);
  expect(on.reply('1.md')).toContain('Here is the report.');
});

test('a step whose tag names an agent is done in a child session, and its answer is the result', async () => {
  const on = await rig({
    config: { mode: 'plan-act', agents: { search: { instructions: 'Search well.' } } },
    script: moves(
      { text: JSON.stringify({ steps: ['[SEARCH] find x', 'write it down'] }) },
      { text: 'writing', calls: [shell()] },
      { text: 'written [Done]' },
      { text: 'All done.' },
    ),
  });
  await on.say('1.md', 'find x and write it down');
  expect(on.children.sent).toHaveLength(1);
  expect(on.children.sent[0]).toMatchObject({
    child: 'demo~step_1',
    message: { id: expect.stringMatching(/^step_1\.1-\d+$/), options: { agent: 'search', mode: 'linear' } },
  });
  expect(on.plan()).toMatchObject({
    status: 'running',
    steps: [{ status: 'running', child: 'demo~step_1' }, { status: 'pending' }],
  });
  on.children.answer('demo~step_1', 'step_1.1', { text: 'x is 42', attachments: ['work/x.md'] });
  await on.wake();
  expect(on.plan()).toMatchObject({
    status: 'completed',
    steps: [
      { status: 'completed', completed_by: 'child', result: 'x is 42', attachments: ['work/x.md'] },
      { status: 'completed' },
    ],
  });
  expect(on.reply('1.md')).toContain('All done.');
});

test('what a person changed in the plan is told to the model, though the planner was asked in between', async () => {
  const on = await rig({
    config: { mode: 'plan-act' },
    script: moves(
      { text: PLAN },
      { text: '[Failed: no figures are there]', calls: [shell()] },
      { text: '{"keep": true, "reason": "the report can do without"}' },
      { hold: true },
    ),
    tool: () => 'hold',
  });
  await on.say('1.md', 'Compare the revenue of five companies');
  await on.say('2.md', '/plan reword step_2 Write the report in French');
  await on.letGo();
  expect(on.types()).toContain('plan.revised');
  expect(on.requests).toHaveLength(4);
  expect(String(on.requests[3]?.messages.at(-1)?.content)).toContain('A person edited the plan');
});

/** A plan whose steps are done, and then what the model says of it as a whole. */
async function summedUp(...summary: Parameters<typeof moves>) {
  const on = await rig({
    config: { mode: 'plan-act' },
    script: moves(
      { text: JSON.stringify({ steps: ['Write the report'] }) },
      { text: 'writing', calls: [shell()] },
      { text: 'written [Done]' },
      ...summary,
    ),
  });
  await on.say('1.md', 'Compare the revenue of five companies');
  return on;
}

test('the summary is shown without its markers, and says where it was cut off', async () => {
  expect((await summedUp({ text: 'All five are compared. [Done]' })).reply('1.md')).toMatch(/are compared\.\n$/);
  const cut = await summedUp({ text: 'The first three', truncated: true });
  expect(cut.reply('1.md')).toMatch(/status: done[\s\S]*The first three\n\nThe answer ends in the middle/);
});

test('a planner that answers by itself is quoted without its markers', async () => {
  const on = await rig({ config: { mode: 'plan-act' }, script: moves({ text: '{"answer": "It is four. [Done]"}' }) });
  expect(await on.say('1.md', 'What is 2 + 2?')).toMatch(/It is four\.\n$/);
});

test('a summary that the stop of a daemon cut short is asked for again by the next one', async () => {
  const on = await summedUp({ hold: true }, { text: 'All five are compared.' });
  const stopping = on.worker.stop(0);
  await on.pass(0);
  await stopping;
  await on.restart({ last: { after: 'trouble', error: 'stopped' } });
  expect(on.events().filter((event) => event.type === 'model.failed')).toMatchObject([{ kind: 'aborted' }]);
  expect(on.reply('1.md')).toContain('All five are compared.');
});

test('a reply says why a claim without any work was rejected, in place of repeating the claim', async () => {
  const on = await rig({
    config: { mode: 'plan-act' },
    script: moves({ text: JSON.stringify({ steps: ['Write the report'] }) }, { text: 'It is written. [Done]' }),
  });
  await on.say('1.md', 'Compare the revenue of five companies');
  expect(on.reply('1.md')).toMatch(
    /status: waiting[\s\S]*\n\nIt is written\.\n\nNote: the claim that "Write the report" is done was rejected: no tool was used in this step\.\n/,
  );
  expect(on.reply('1.md')).not.toContain('[Done]');
});

test('a step that a person reopens while the summary is written is done again, and then summed up again', async () => {
  const on = await summedUp(
    { hold: true, next: () => ({ text: 'An old summary.' }) },
    { text: 'writing in French', calls: [shell()] },
    { text: 'rewritten [Done]' },
    { text: 'It is in French.' },
  );
  await on.say('2.md', 'not done yet, it has to be in French');
  await on.letGo();
  expect(on.plan()).toMatchObject({ status: 'completed', steps: [{ result: 'rewritten' }] });
  expect(on.reply('1.md')).toContain('It is in French.');
});
