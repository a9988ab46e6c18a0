import { expect, test } from 'vitest';
import type { EventBody } from '../../src/protocol/session/event.ts';
import { type Rig, rig, shell } from '../support/rig.ts';
import { bench } from './dag-bench.ts';

const step = (id: string, more: object = {}) => ({ id, description: `work on ${id}`, ...more });
const shown = (on: Rig) =>
  on.plan()?.steps.map(({ id, description, status, needs = [] }) => [id, description, status, ...needs]);
const revisions = (on: Rig): EventBody[] => on.events().filter((event) => event.type === 'plan.revised');

test("a planner's revision in the form of a plan stands in place of what has not begun", async () => {
  const first = [step('o'), step('a'), step('b', { needs: ['o'] }), step('c'), step('d', { needs: ['b', 'c'] })];
  const restated = [
    step('o'),
    { id: 'a', description: 'another way to a', needs: ['o'] },
    { description: 'Work on d.', needs: ['b', 'a'] },
    step('b', { done_when: [{ file: 'work/b' }] }),
    'look at it all',
  ];
  const on = await rig({
    config: { mode: 'plan-act' },
    script: ({ messages }) => {
      const asked = String(messages.at(-1)?.content);
      if (asked.includes('Look at the results'))
        return { text: JSON.stringify({ steps: restated, reason: 'a failed' }) };
      if (asked.includes('JSON object')) return { text: JSON.stringify({ steps: first }) };
      if (/Current step[^:]*: work on a/.test(asked)) return { text: '[Failed: no]', calls: [shell()] };
      return /Current step[^:]*: work on o/.test(asked) ? { text: 'There. [Done]', calls: [shell()] } : { hold: true };
    },
  });
  on.drop('1.md', 'Do it');
  await on.pass(300);
  expect(revisions(on)).toMatchObject([{ reason: 'a failed; a failed' }]);
  expect(shown(on)).toEqual([
    ['o', 'work on o', 'completed'],
    ['a', 'work on a', 'failed'],
    ['step_1', 'another way to a', 'running', 'o'],
    ['d', 'Work on d.', 'pending', 'b', 'step_1'],
    ['b', 'work on b', 'pending'],
    ['step_2', 'look at it all', 'pending'],
  ]);
  expect(on.plan()?.steps[4]?.done_when).toEqual([{ file: 'work/b' }]);
});

test('a restated plan that says nothing new changes nothing, and a step of a person stays in any case', async () => {
  const steps = [step('o'), step('a', { needs: ['o'] })];
  const b = await bench({ plan: { steps }, adapt: [{ steps }], limits: { steps: 1 } });
  b.on.drop('2.md', '/plan add mine');
  await b.on.settle();
  await b.work();
  expect(revisions(b.on)).toMatchObject([{ changes: [] }]);
  expect(b.ran()).toEqual(['o', 'a', 'step_1']);
});
