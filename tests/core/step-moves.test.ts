import { expect, test } from 'vitest';
import { applyPlanChanges } from '../../src/core/plan/plan-changes.ts';
import {
  assertLegalTransitions,
  IllegalTransition,
  moveStep,
  whyIllegalTransition,
} from '../../src/core/plan/step-moves.ts';
import type { EventBody } from '../../src/protocol/session/event.ts';
import { STEP_STATUSES, type Step, type StepStatus } from '../../src/protocol/session/plan.ts';
import { planOf } from '../modes/given-plan.ts';

const LEGAL: Record<StepStatus, readonly StepStatus[]> = {
  pending: ['running', 'completed', 'failed', 'blocked', 'skipped'],
  running: ['pending', 'completed', 'failed', 'blocked', 'skipped'],
  blocked: ['pending', 'running', 'completed', 'failed', 'skipped'],
  failed: ['pending', 'blocked'],
  completed: [],
  skipped: [],
};

const pairs = STEP_STATUSES.flatMap((from) => STEP_STATUSES.map((to) => [from, to] as const));

test.each(pairs)('from %s to %s: the table says whether it may', (from, to) => {
  const why = whyIllegalTransition({ id: 'a', status: from }, to);
  if (LEGAL[from].includes(to)) expect(why).toBeUndefined();
  else expect(why).toContain(`a is ${from} and cannot become ${to}`);
});

const step = (id: string, status: StepStatus, more: Partial<Step> = {}): Step => ({
  id,
  description: id,
  status,
  ...more,
});

test('events are followed in their order, and the first illegal one is an error that names both states', () => {
  const again: EventBody[] = [
    { type: 'step.started', step: 'a' },
    { type: 'step.completed', step: 'a', by: 'child', evidence: '', result: '' },
    { type: 'step.started', step: 'a' },
  ];
  expect(() => assertLegalTransitions(planOf(step('a', 'pending')), again.slice(0, 2))).not.toThrow();
  expect(() => assertLegalTransitions(planOf(step('a', 'pending')), again)).toThrow(IllegalTransition);
  expect(() => assertLegalTransitions(planOf(step('a', 'pending')), again)).toThrow(
    'a is completed and cannot become running',
  );
});

test('a person may open again what has ended, the daemon may not', () => {
  const by = (who: 'person' | 'daemon'): EventBody[] => [{ type: 'step.reopened', step: 'a', by: who }];
  expect(() => assertLegalTransitions(planOf(step('a', 'completed')), by('person'))).not.toThrow();
  expect(() => assertLegalTransitions(planOf(step('a', 'completed')), by('daemon'))).toThrow(
    'a is completed and cannot become pending',
  );
});

test('a group follows its parts wherever they go', () => {
  const p = planOf(step('g', 'completed'), step('a', 'pending', { parent: 'g' }));
  expect(() => assertLegalTransitions(p, [{ type: 'step.reopened', step: 'g', by: 'daemon' }])).not.toThrow();
});

const ENDED = ['completed', 'failed', 'skipped'];
const OPEN = ['pending', 'running'];
const NOW = '2026-01-05T09:00:00.000Z';
const EARLIER = '2026-01-05T08:00:00.000Z';
const past = {
  result: 'r0',
  error: 'e0',
  evidence: 'v0',
  completed_by: 'tool',
  attachments: ['a'],
} satisfies Partial<Step>;

test.each(pairs)('from %s to %s: one rule for the end, the outcome and the error', (from, to) => {
  const before = step('a', from, { ...past, iterations: 2, started_at: EARLIER, completed_at: EARLIER });
  const after = moveStep(before, to, { at: NOW, result: to === 'completed' ? 'r1' : undefined });
  const opensAgain = OPEN.includes(to) && !OPEN.includes(from);
  expect(after).toEqual({
    ...{ id: 'a', description: 'a', status: to, iterations: 2, started_at: EARLIER },
    ...(!opensAgain && { result: to === 'completed' ? 'r1' : 'r0', attachments: ['a'] }),
    ...(ENDED.includes(to) && { completed_at: NOW }),
  });
  expect(moveStep(before, to, { at: NOW, error: 'e1' }).error).toBe(OPEN.includes(to) ? undefined : 'e1');
});

test('a step that is tried again keeps the error of its last attempt until it ends', () => {
  const again = moveStep(step('a', 'failed', { error: 'e0', completed_at: EARLIER }), 'pending', { attempts: 2 });
  expect(again).toEqual(step('a', 'pending', { error: 'e0', attempts: 2 }));
  const running = moveStep(again, 'running', { at: NOW });
  expect(running).toEqual(step('a', 'running', { error: 'e0', attempts: 2, started_at: NOW }));
  expect(moveStep(running, 'completed', { at: NOW, result: '' }).error).toBeUndefined();
  expect(moveStep(step('a', 'failed', { error: 'e0', attempts: 2 }), 'running').error).toBeUndefined();
});

test('a step that a person failed has its end, as one that failed by itself', () => {
  const one = planOf(step('a', 'running'));
  const change = { what: 'status', step: 'a', from: 'running', to: 'failed', note: 'wrong file' } as const;
  expect(applyPlanChanges(one, [change], NOW).steps[0]).toEqual(
    step('a', 'failed', { error: 'wrong file', completed_at: NOW }),
  );
});
