import { expect, test } from 'vitest';
import { statusOf } from '../support/daemon.ts';
import { type Family, family } from '../support/family.ts';
import { moves, rig, shell } from '../support/rig.ts';

const spawn = (task: string) => ({ name: 'spawn', args: { task } });

/** Says it in the root, and answers how the reply begins. */
async function say(on: Family, file: string, text: string): Promise<string> {
  on.drop('demo', file, text);
  await on.settle();
  expect(on.faults).toEqual([]);
  return statusOf(on.reply(file) ?? 'status: nothing');
}

test('a child that spent its budget pauses its family, which spends no more, and goes on with "continue"', async () => {
  const on = family({
    config: { limits: { iterations: 3 } },
    script: (session, _request, asked) => {
      if (session !== 'demo') return asked < 3 ? { calls: [shell()] } : { text: 'x is 42.' };
      return asked === 0 ? { calls: [spawn('find x')] } : { text: 'So x is 42.' };
    },
  });
  expect(await say(on, '1.md', 'What is x?')).toBe('paused');
  expect(on.reply('1.md')).toContain('limits.iterations = 3');
  expect(on.asked).toEqual(['demo', 'demo~step_1', 'demo~step_1']);
  expect(await say(on, '2.md', 'continue')).toBe('done');
  expect(on.reply('2.md')).toContain('So x is 42.');
});

test('more children than there is budget for: those without a share wait for the next slice, and none is given twice', async () => {
  const on = family({
    config: { limits: { iterations: 3, steps: 4 } },
    script: (session, _request, asked) =>
      session === 'demo' && asked === 0 ? { calls: ['a', 'b', 'c', 'd'].map(spawn) } : { text: `${session} is done.` },
  });
  expect(await say(on, '1.md', 'four things')).toBe('paused');
  expect(on.asked).toHaveLength(3);
  expect(await say(on, '2.md', 'continue')).toBe('done');
  expect(on.asked).toHaveLength(6);
  expect(on.session('demo').plan?.steps.map((step) => step.status)).toEqual(Array(4).fill('completed'));
});

test('where the limit is extended, children pause at what they were given', async () => {
  const on = family({
    config: { limits: { iterations: 2 }, on_limit: 'extend' },
    script: (session, _request, asked) =>
      session === 'demo' && asked === 0 ? { calls: [spawn('a')] } : { calls: [shell()] },
  });
  expect(await say(on, '1.md', 'x')).toBe('failed');
  expect(on.reply('1.md')).toContain('five times limits.iterations');
  expect(on.asked).toHaveLength(10);
});

test('an answer reaches the child that asked, whatever another one asked after it', async () => {
  const on = await rig({
    config: { limits: { steps: 2 } },
    script: moves({ calls: [spawn('a'), spawn('b')] }, { text: 'Done.' }),
  });
  on.drop('1.md', 'two things');
  await on.settle();
  const asks = async (step: string, text: string) => {
    on.children.answer(`demo~${step}`, `${step}.1`, { status: 'waiting', text });
    on.worker.wake();
    await on.settle();
  };
  await asks('step_2', 'Which size?');
  await asks('step_1', 'Which colour?');
  on.drop('2.md', 'large');
  await on.settle();
  on.drop('3.md', 'red');
  await on.settle();
  expect(on.reply('1.md')).toContain('Which size?');
  expect(on.reply('2.md')).toContain('Which colour?');
  const told = on.children.sent.flatMap(({ child, message }) =>
    message.command === 'continue' ? [[child, message.text]] : [],
  );
  expect(told).toEqual([
    ['demo~step_2', 'large'],
    ['demo~step_1', 'red'],
  ]);
});
