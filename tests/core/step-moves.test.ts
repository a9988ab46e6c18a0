import { expect, test } from 'vitest';
import { assertLegalTransitions, IllegalTransition, whyIllegalTransition } from '../../src/core/plan/plan-steps.ts';
import type { EventBody } from '../../src/protocol/session/event.ts';
import { type Plan, STEP_STATUSES, type Step, type StepStatus } from '../../src/protocol/session/plan.ts';

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

const plan = (...steps: Step[]): Plan => ({
  version: 1,
  id: 'plan_1',
  goal: 'g',
  mode: 'dag',
  status: 'running',
  steps,
  current_step_index: 0,
  iteration_count: 0,
  limits: { iterations: 50, step_iterations: 5 },
  revision: 1,
  created_at: '',
  updated_at: '',
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
  expect(() => assertLegalTransitions(plan(step('a', 'pending')), again.slice(0, 2))).not.toThrow();
  expect(() => assertLegalTransitions(plan(step('a', 'pending')), again)).toThrow(IllegalTransition);
  expect(() => assertLegalTransitions(plan(step('a', 'pending')), again)).toThrow(
    'a is completed and cannot become running',
  );
});

test('a person may open again what has ended, the daemon may not', () => {
  const by = (who: 'person' | 'daemon'): EventBody[] => [{ type: 'step.reopened', step: 'a', by: who }];
  expect(() => assertLegalTransitions(plan(step('a', 'completed')), by('person'))).not.toThrow();
  expect(() => assertLegalTransitions(plan(step('a', 'completed')), by('daemon'))).toThrow(
    'a is completed and cannot become pending',
  );
});

test('a group follows its parts wherever they go', () => {
  const p = plan(step('g', 'completed'), step('a', 'pending', { parent: 'g' }));
  expect(() => assertLegalTransitions(p, [{ type: 'step.reopened', step: 'g', by: 'daemon' }])).not.toThrow();
});
