import { expect, test } from 'vitest';
import { chatMessages } from '../../src/core/prompt/chat-messages.ts';
import { statusOf } from '../support/daemon.ts';
import { family } from '../support/family.ts';

/** A planner with one step for a child of its own, which says how often it was given it. */
function oneStep() {
  return family({
    config: { mode: 'dag' },
    script: (session, request) => {
      const asked = request.messages.at(-1)?.content ?? '';
      if (session === 'demo')
        return {
          text: asked.includes('Make the plan') ? '{"steps": [{"id": "a", "description": "Find x"}]}' : 'All told.',
        };
      const tasks = request.messages.filter(
        ({ role, content }) => role === 'user' && content?.includes('Find x'),
      ).length;
      return { text: `x, found in go ${tasks}.` };
    },
  });
}

test.each([
  ['/undo', null],
  ['not done yet, one file is missing', 'not done yet, one file is missing'],
  ['/undo one file is missing', 'one file is missing'],
  ['/plan undo', null],
])('after "%s" the child does its step again, and what it says then is the result', async (words, reason) => {
  const on = oneStep();
  on.drop('demo', '1.md', 'What is x?');
  await on.settle();
  expect(on.session('demo').plan?.steps).toMatchObject([{ status: 'completed', child: 'demo~a' }]);
  on.drop('demo', '2.md', words);
  await on.settle();
  on.drop('demo', '3.md', '/continue');
  await on.settle();
  expect(statusOf(on.reply('3.md') ?? '')).toBe('done');
  expect(on.session('demo').plan?.steps).toMatchObject([
    { status: 'completed', result: 'x, found in go 2.', attempts: 2 },
  ]);
  const reported = chatMessages(on.session('demo~a')).filter(
    ({ role, content }) => role === 'user' && content?.includes('Find x'),
  );
  expect(reported.at(-1)?.content).toContain('opened it again');
  if (reason === null) expect(reported.at(-1)?.content).not.toContain('saying');
  else expect(reported.at(-1)?.content).toContain(`saying: ${reason}`);
});
