import { expect, test } from 'vitest';
import { buildPlanHistory, diffPlanRevisions } from '../../src/client/inspect/plan-history.ts';
import type { EventBody } from '../../src/protocol/session/event.ts';
import { answered, edit, messageReceived, planOf, stamped } from './stamped.ts';

function historyOf(...more: EventBody[]) {
  const history = buildPlanHistory('demo', stamped([...planOf('Look', 'Fetch'), ...more]));
  if (!history) throw new Error('there is no plan');
  return history;
}

const reworded = edit({ what: 'step', step: 'step_2', set: { description: 'Fetch all' }, unset: [] });

test('an event log without a plan has no history', () => {
  expect(buildPlanHistory('demo', stamped([messageReceived('1', 'hello')]))).toBeUndefined();
});

test('the history tells every change with who made it, and the revision it led to', () => {
  const { entries, plan } = historyOf(
    { type: 'step.completed', step: 'step_1', by: 'marker', evidence: '[Done]', result: '' },
    messageReceived('2', 'reword 2 Fetch all', 'plan'),
    reworded,
    answered('2'),
    { type: 'plan.edited', by: 'person', changes: [], ignored: ['plan.json does not parse'] },
    { type: 'step.started', step: 'step_2' },
    { type: 'step.completed', step: 'step_2', by: 'timeout', evidence: '', result: '' },
    { type: 'plan.ended', plan: 'plan_1', status: 'completed', reason: 'all steps are closed' },
  );
  expect(entries.map(({ event, by, from, to, what }) => [event, by, `${from}-${to}`, what.join('; ')])).toEqual([
    [4, 'daemon', '0-1', 'plan_1 started: Do it'],
    [5, 'model', '1-2', 'step_1 was added: Look'],
    [6, 'model', '2-3', 'step_2 was added: Fetch'],
    [7, 'daemon', '3-4', 'step_1 started'],
    [8, 'model', '4-5', 'step_1 was closed by marker: [Done]'],
    [10, 'person', '5-6', 'step_2 was changed: description = Fetch all; by: /plan reword 2 Fetch all'],
    [12, 'person', '6-6', 'ignored: plan.json does not parse'],
    [13, 'daemon', '6-7', 'step_2 started'],
    [14, 'daemon', '7-8', 'step_2 was closed by timeout'],
    [15, 'daemon', '8-9', 'it ended as completed: all steps are closed'],
  ]);
  expect(plan.revision).toBe(9);
});

test('a plan that was put away and taken up again has one history', () => {
  const { entries } = historyOf(
    { type: 'plan.ended', plan: 'plan_1', status: 'paused', reason: 'shelved' },
    messageReceived('2', 'plan_1', 'continue'),
    { type: 'run.resumed', message: '2', by: 'person', limits: {}, plan: 'plan_1' },
  );
  expect(entries.slice(-2).map(({ from, to, what }) => [from, to, what])).toEqual([
    [4, 4, ['it was shelved']],
    [4, 5, ['it resumed']],
  ]);
});

test('a diff tells the fields that differ between two revisions, and who changed them', () => {
  const history = historyOf(
    reworded,
    edit(
      { what: 'added', at: 2, step: { id: 'step_3', description: 'Tell', status: 'pending' } },
      { what: 'removed', step: 'step_1', description: 'Look' },
      { what: 'order', to: ['step_3', 'step_2'] },
    ),
  );
  const diff = diffPlanRevisions(history, 4, 6);
  expect(diff.changes.map(({ step, field, from, to }) => [step, field, from === null, to === null])).toEqual([
    ['step_3', 'step', true, false],
    ['step_2', 'description', false, false],
    ['step_1', 'step', false, true],
  ]);
  expect(diff.entries.map((entry) => [entry.event, entry.by])).toEqual([
    [8, 'person'],
    [9, 'person'],
  ]);
});

test('without revisions a diff is that of the last change; steps that changed places are reported', () => {
  const history = historyOf(reworded, edit({ what: 'order', to: ['step_2', 'step_1'] }));
  expect(diffPlanRevisions(history)).toMatchObject({
    from: 5,
    to: 6,
    changes: [{ step: null, field: 'order', from: ['step_1', 'step_2'], to: ['step_2', 'step_1'] }],
  });
});

test('a diff with a revision that never was, or that goes backwards, is refused', () => {
  const history = historyOf(reworded);
  expect(() => diffPlanRevisions(history, 2, 99)).toThrow('plan_1 has revisions 1 to 5; there is no revision 99');
  expect(() => diffPlanRevisions(history, 4, 2)).toThrow('4 is not before 2');
});
