import { expect, test } from 'vitest';
import { moves, rig, shell } from '../support/rig.ts';

test('simple talk is answered and makes no plan', async () => {
  const it = await rig({ script: moves({ text: 'Hello.' }) });
  await it.say('1.md', 'hi');
  expect(it.reply('1.md')).toContain('Hello.');
  expect(it.plan()).toBeUndefined();
  expect(it.types()).toEqual([
    'session.opened',
    'message.received',
    'run.started',
    'model.answered',
    'run.ended',
    'reply.committed',
    'reply.published',
  ]);
});

test('declared steps become a plan that ends completed', async () => {
  const it = await rig({
    script: moves(
      { text: '[Step] Find the links\n[Step] Download them', calls: [shell()] },
      { text: 'Five links found. [Done]', calls: [shell()] },
      { text: 'All five are in work/. [Done]' },
    ),
  });
  await it.say('1.md', 'fetch the reports');
  expect(it.types().slice(3)).toEqual([
    'model.answered',
    'plan.started',
    'step.added',
    'step.added',
    'step.started',
    'tool.started',
    'tool.finished',
    'model.answered',
    'tool.started',
    'tool.finished',
    'step.completed',
    'step.started',
    'model.answered',
    'step.completed',
    'run.ended',
    'plan.ended',
    'reply.committed',
    'reply.published',
  ]);
  expect(it.plan()).toMatchObject({ status: 'completed', goal: 'fetch the reports', iteration_count: 3 });
  expect(it.plan()?.steps).toMatchObject([
    { id: 'step_1', status: 'completed', completed_by: 'marker', result: 'Five links found.', iterations: 2 },
    { id: 'step_2', status: 'completed', completed_by: 'marker', result: 'All five are in work/.', iterations: 1 },
  ]);
  expect(it.reply('1.md')).toContain('status: done');
  expect(it.reply('1.md')).toMatch(/All five are in work\/\.\n$/);
});
