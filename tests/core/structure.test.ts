import { describe, expect, test } from 'vitest';
import { cascadeEvents, reopenWithDependents } from '../../src/core/plan/step-cascade.ts';
import { dependencyNodes, findCycle } from '../../src/core/plan/step-graph.ts';
import {
  causeInReason,
  causeInWords,
  type LostCause,
  readinessOfPending,
  readySteps,
} from '../../src/core/plan/step-readiness.ts';
import type { Step } from '../../src/protocol/session/plan.ts';
import { planOf } from '../modes/given-plan.ts';

const step = (id: string, more: Partial<Step> = {}): Step => ({ id, description: id, status: 'pending', ...more });
const ids = (steps: readonly Step[]) => steps.map(({ id }) => id);
const whyLost = (steps: readonly Step[], id: string) => {
  const outlook = readinessOfPending(steps).get(id);
  return outlook?.is === 'lost' ? causeInWords(outlook.cause).reason : outlook?.is;
};

test('a cause in the words of an event of before is read, and nothing else is one', () => {
  const causes: LostCause[] = [
    { relation: 'needs', step: 'step_1', detail: ', which was failed' },
    { relation: 'when', step: 'a', detail: ': it does not hold that a says "x, which: y"' },
    { relation: 'undoes', step: 'a', detail: ' and b, which did not fail' },
    { relation: 'part of', step: '步骤.2', detail: ', which was completed' },
  ];
  for (const cause of causes) {
    const { reason, because } = causeInWords(cause);
    expect(because).toEqual({ relation: cause.relation, step: cause.step });
    expect(causeInReason(reason)).toEqual(because);
  }
  expect(causeInReason('nobody needs a report')).toBeUndefined();
});

describe('what is ready', () => {
  test('a group is never worked on; its parts are, as soon as what the group needs is completed', () => {
    const parts = (a: Step['status']) => [
      step('a', { status: a }),
      step('g', { needs: ['a'] }),
      step('p', { parent: 'g' }),
    ];
    expect(ids(readySteps(parts('pending')))).toEqual(['a']);
    expect(ids(readySteps(parts('completed')))).toEqual(['p']);
    expect(whyLost(parts('failed'), 'p')).toBe('needs a, which was failed');
  });

  test('a condition of a group holds for each of its parts', () => {
    const steps = [
      step('a', { status: 'completed', result: 'all fine' }),
      step('g', { when: [{ step: 'a', result: 'trouble' }] }),
      step('p', { parent: 'g' }),
    ];
    expect(whyLost(steps, 'p')).toBe('when a: it does not hold that a says "trouble"');
  });

  test('a need whose end a condition asks about is an order: the condition says which end will do', () => {
    const once = (status: Step['status']) => [
      step('a', { status }),
      step('b', { needs: ['a'], when: [{ step: 'a', status: 'failed' }] }),
    ];
    expect(whyLost(once('running'), 'b')).toBe('waits');
    expect(whyLost(once('failed'), 'b')).toBe('ready');
    expect(whyLost(once('completed'), 'b')).toBe('when a: it does not hold that a is failed');
  });

  test('exit is that of the last command; a step without one has none', () => {
    const once = (exit?: number) => [
      step('a', { status: 'completed', ...(exit !== undefined && { exit }) }),
      step('b', { when: [{ step: 'a', exit: 2 }] }),
      step('c', { when: [{ step: 'a', exit: 2, not: true }] }),
    ];
    expect(ids(readySteps(once(2)))).toEqual(['b']);
    expect(ids(readySteps(once(0)))).toEqual(['c']);
    expect(ids(readySteps(once()))).toEqual(['c']);
  });

  test('a blocked step decides only the condition that asks for it', () => {
    const steps = [
      step('a', { status: 'blocked' }),
      step('b', { when: [{ step: 'a', status: 'blocked' }] }),
      step('c', { when: [{ step: 'a', result: 'x' }] }),
    ];
    expect(ids(readySteps(steps))).toEqual(['b']);
    expect(whyLost(steps, 'c')).toBe('waits');
  });

  test('a need or a condition on a step that is not there waits for the person who wrote it', () => {
    expect(whyLost([step('b', { needs: ['gone'] })], 'b')).toBe('waits');
    expect(whyLost([step('b', { when: [{ step: 'gone' }] })], 'b')).toBe('waits');
  });
});

describe('a step that undoes another', () => {
  const steps = (a: Partial<Step>, b: Partial<Step>) => [
    step('a', { rollback: 'undo_a', ...a }),
    step('b', { rollback: 'undo_b', ...b }),
    step('undo_a'),
    step('undo_b'),
    step('c'),
  ];

  test('runs alone, and of two that failed the one begun last is undone first', () => {
    const [early, late] = ['2026-01-05T08:00:00.000Z', '2026-01-05T09:00:00.000Z'];
    const failed = (started_at: string): Partial<Step> => ({ status: 'failed', started_at });
    expect(ids(readySteps(steps(failed(early), failed(late))))).toEqual(['undo_b']);
    expect(ids(readySteps(steps(failed(late), failed(early))))).toEqual(['undo_a']);
    expect(ids(readySteps(steps(failed(early), failed(early))))).toEqual(['undo_b']);
  });

  test('waits while what it undoes is open, and is left out once that ended well', () => {
    expect(whyLost(steps({ status: 'running' }, {}), 'undo_a')).toBe('waits');
    expect(whyLost(steps({ status: 'completed' }, {}), 'undo_a')).toBe('undoes a, which did not fail');
  });

  test('a group is undone when it failed', () => {
    const group = (status: Step['status']) => [
      step('g', { status, rollback: 'undo' }),
      step('p', { parent: 'g', status: status === 'running' ? 'running' : 'failed' }),
      step('undo'),
    ];
    expect(ids(readySteps(group('running')))).toEqual([]);
    expect(ids(readySteps(group('failed')))).toEqual(['undo']);
  });
});

describe('a group ends with its parts', () => {
  const end = (...parts: Partial<Step>[]) =>
    cascadeEvents(
      planOf(step('g', { status: 'running' }), ...parts.map((part, n) => step(`p${n}`, { parent: 'g', ...part }))),
      [],
    )[0];

  test('completed where one was completed and the others were left out by choice', () => {
    expect(end({ status: 'completed', result: 'x is 42' }, { status: 'skipped' })).toMatchObject({
      type: 'step.completed',
      by: 'parts',
      result: 'p0: x is 42',
    });
  });
  test('failed where one failed', () => {
    expect(end({ status: 'completed' }, { status: 'failed' })).toMatchObject({
      type: 'step.failed',
      error: 'p1 failed',
    });
  });
  test('failed where one was left out since something before it failed', () => {
    const p = planOf(
      step('a', { status: 'failed' }),
      step('g', { status: 'running' }),
      step('p', { parent: 'g', status: 'completed' }),
      step('q', {
        parent: 'g',
        status: 'skipped',
        needs: ['a'],
        error: 'needs a, which was failed',
        because: { relation: 'needs', step: 'a' },
      }),
    );
    expect(cascadeEvents(p, [])).toMatchObject([{ type: 'step.failed', step: 'g', error: 'q could not be done' }]);
    expect(cascadeEvents(p, ['a'])).toMatchObject([{ type: 'step.completed', step: 'g' }]);
  });
  test('skipped where all were', () => {
    expect(end({ status: 'skipped' }, { status: 'skipped' })).toMatchObject({ type: 'step.skipped', step: 'g' });
  });
  test('not while one is open or blocked', () => {
    expect(end({ status: 'completed' }, { status: 'running' })).toBeUndefined();
    expect(end({ status: 'completed' }, { status: 'blocked' })).toBeUndefined();
  });
  test('it is open again with a new part, unless a person closed it: then the part is left out', () => {
    const closed = (by: 'parts' | 'person') =>
      cascadeEvents(planOf(step('g', { status: 'completed', completed_by: by }), step('p', { parent: 'g' })), [])[0];
    expect(closed('parts')).toMatchObject({ type: 'step.reopened', step: 'g' });
    expect(closed('person')).toMatchObject({ type: 'step.skipped', reason: 'part of g, which was completed' });
  });
});

test('a step that is opened again brings back what was skipped because of it, and its rollback', () => {
  const steps = [
    step('g', { status: 'failed', error: 'a failed' }),
    step('a', { status: 'running', parent: 'g', rollback: 'undo' }),
    step('undo', { status: 'completed', result: 'undone' }),
    step('b', {
      status: 'skipped',
      needs: ['a'],
      error: 'needs a, which was failed',
      because: { relation: 'needs', step: 'a' },
    }),
    step('c', {
      status: 'skipped',
      needs: ['b'],
      error: 'needs b, which was skipped',
      because: { relation: 'needs', step: 'b' },
    }),
    step('d', { status: 'skipped', error: 'not wanted' }),
  ];
  expect(reopenWithDependents(steps, new Set(['a']), []).map(({ id, status }) => `${id} ${status}`)).toEqual([
    'g running',
    'a running',
    'undo pending',
    'b pending',
    'c pending',
    'd skipped',
  ]);
});

test('a group that is open again brings back what was skipped because of it', () => {
  const steps = [
    step('a'),
    step('g', { status: 'skipped', error: 'all its parts were skipped' }),
    step('p', {
      status: 'skipped',
      parent: 'g',
      error: 'needs a, which was failed',
      because: { relation: 'needs', step: 'a' },
    }),
    step('z', { status: 'skipped', error: 'needs g, which was skipped', because: { relation: 'needs', step: 'g' } }),
  ];
  const statuses = (editedByPerson: string[]) =>
    reopenWithDependents(steps, new Set(['a']), editedByPerson).map(({ id, status }) => `${id} ${status}`);
  expect(statuses([])).toEqual(['a pending', 'g running', 'p pending', 'z pending']);
  expect(statuses(['g:status'])).toEqual(['a pending', 'g skipped', 'p skipped', 'z skipped']);
});

test.each([
  ['a step that needs its own group', [step('g'), step('p', { parent: 'g', needs: ['g'] })]],
  ['groups inside each other', [step('g', { parent: 'h' }), step('h', { parent: 'g' })]],
  ['a step that needs what undoes it', [step('a', { rollback: 'u', needs: ['u'] }), step('u')]],
  [
    'two groups whose parts need the other',
    [step('g'), step('h'), step('p', { parent: 'g', needs: ['h'] }), step('q', { parent: 'h', needs: ['g'] })],
  ],
])('%s is a cycle, and nothing loops over it', (_what, steps) => {
  expect(findCycle(dependencyNodes(steps))).toBeDefined();
  expect(readySteps(steps)).toEqual([]);
});

test('a step that undoes may need what it undoes', () => {
  expect(findCycle(dependencyNodes([step('a', { rollback: 'u' }), step('u', { needs: ['a'] })]))).toBeUndefined();
});
