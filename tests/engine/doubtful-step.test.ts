import { expect, test } from 'vitest';
import { type Move, moves, type Rig, rig, shell } from '../support/rig.ts';

/** A run whose second answer has words of the next step, too few to close this one; then these answers. */
async function inDoubt(...then: Move[]): Promise<Rig> {
  const it = await rig({
    script: moves(
      { text: '[Step] Read the settings\n[Step] Draw the big chart of yearly sales', calls: [shell()] },
      { text: 'Now the chart.', calls: [shell()] },
      ...then,
      { hold: true },
    ),
  });
  await it.say('1.md', 'Show the sales');
  return it;
}

test('an answer that leaves it in doubt whether the step is done makes the next request ask, once', async () => {
  const it = await inDoubt({ text: 'Now the chart.', calls: [shell()] }, { text: '', calls: [shell()] });
  expect(it.events().filter(({ type }) => type === 'step.asked')).toMatchObject([{ step: 'step_1', in_doubt: true }]);
  const asks = (n: number) => /Is \W*Read the settings\W* done now\?/.test(JSON.stringify(it.requests[n]?.messages));
  expect([0, 1, 2, 3, 4].map(asks)).toEqual([false, false, true, false, false]);
  // No answer means no.
  expect(it.types()).not.toContain('step.completed');
});

test('a marker answers the question and closes the step', async () => {
  const it = await inDoubt({ text: '[Done] two settings', calls: [shell()] });
  expect(it.events().filter(({ type }) => type === 'step.completed')).toMatchObject([
    { step: 'step_1', by: 'marker', result: 'two settings' },
  ]);
});
