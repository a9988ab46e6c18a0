import { describe, expect, test } from 'vitest';
import { explainSteps, findStepExplanation, type StepExplanation } from '../../src/client/inspect/explain-steps.ts';
import type { EventBody } from '../../src/protocol/session/event.ts';
import { answered, edit, messageReceived, planOf, stamped } from './stamped.ts';

const clock = (at: string) => at.slice(11, 19);
const plan = planOf('Look', 'Fetch', 'Tell');
const of = (...more: EventBody[]) => explainSteps('demo', stamped([...plan, ...more]), clock).steps;
const text = (...more: EventBody[]) => of(...more)[0]?.text;
const reported = (step: StepExplanation | undefined) => step?.moments.map((moment) => moment.text);

const done = (by: Extract<EventBody, { type: 'step.completed' }>['by'], evidence: string, to?: string): EventBody => ({
  ...{ type: 'step.completed', step: 'step_1', by, evidence, result: '' },
  ...(to !== undefined && { next_step: to }),
});

describe('a closed step is reported with what closed it, when, and the very words', () => {
  test.each<[string, EventBody[], string]>([
    [
      'a marker',
      [done('marker', 'All five.\n[Done]')],
      'was closed by marker at event 9 (03:04:08): "All five. [Done]".',
    ],
    [
      'the plan tool',
      [done('tool', 'complete_step: five')],
      'was closed by the plan tool at event 9 (03:04:08): "complete_step: five".',
    ],
    [
      'a transition',
      [done('transition', 'Now let me fetch', 'step_3')],
      'was closed by transition at event 9 (03:04:08), because the answer moved on to step_3: "Now let me fetch".',
    ],
    [
      'a timeout',
      [{ type: 'step.asked', step: 'step_1', iterations: 6 }, done('timeout', '')],
      'was assumed done by timeout at event 10 (03:04:09), asked at event 9, no signal in the answer.',
    ],
    ['a person who was asked', [done('person', 'yes')], 'was closed by a person at event 9 (03:04:08): "yes".'],
    [
      'a save of plan.json',
      [edit({ what: 'status', step: 'step_1', from: 'running', to: 'completed' })],
      'was closed by a person in plan.json at event 9 (03:04:08).',
    ],
    [
      'an order',
      [
        messageReceived('2', 'done step_1 It is there', 'plan'),
        edit({ what: 'status', step: 'step_1', from: 'running', to: 'completed' }),
        answered('2'),
      ],
      'was closed by a person at event 10 (03:04:09): "/plan done step_1 It is there".',
    ],
    [
      'a failure',
      [{ type: 'step.failed', step: 'step_1', error: 'no net', by: 'model' }],
      'was given up as failed by the model at event 9 (03:04:08): "no net".',
    ],
    [
      'a rule of the daemon',
      [{ type: 'step.skipped', step: 'step_1', reason: 'needs step_0, which was failed', by: 'daemon' }],
      'was skipped by the daemon at event 9 (03:04:08): "needs step_0, which was failed".',
    ],
    [
      'a block',
      [{ type: 'step.blocked', step: 'step_1', error: 'no key', by: 'model' }],
      'was reported as blocked by the model at event 9 (03:04:08): "no key".',
    ],
    [
      'a claim with checks',
      [
        { type: 'step.claimed', step: 'step_1', tier: 'marker', evidence: '[Done]' },
        { type: 'tool.started', call: '9.check0', name: 'check', args: '{}', replay: 'safe' },
        { type: 'tool.finished', call: '9.check0', ok: true, output: { text: 'there' }, ms: 1 },
        done('marker', '[Done]'),
      ],
      'was closed by marker at event 12 (03:04:11), its checks passed: "[Done]".',
    ],
    [
      'a claim whose checks were taken off',
      [{ type: 'step.claimed', step: 'step_1', tier: 'marker', evidence: '[Done]' }, done('marker', '[Done]')],
      'was closed by marker at event 10 (03:04:09): "[Done]".',
    ],
  ])('%s', (_, events, sentence) => {
    expect(text(...events)).toBe(`step_1 "Look" ${sentence}`);
  });
});

test('a save of plan.json just before "/plan" is shown to a person is no order', () => {
  const saved = edit({ what: 'status', step: 'step_1', from: 'running', to: 'skipped' });
  expect(text(messageReceived('2', '', 'plan'), saved, answered('2'))).toContain(
    'was skipped by a person in plan.json',
  );
  expect(text(messageReceived('2', 'done 2', 'plan'), saved, answered('2'))).toContain('in plan.json');
});

test('claims that were refused are kept with the reason', () => {
  const [step] = of(
    { type: 'step.claimed', step: 'step_1', tier: 'marker', evidence: '[Done] all', veto: 'tool_failed' },
    { type: 'step.claimed', step: 'step_1', tier: 'tool', evidence: 'work/a.txt is not there', veto: 'check_failed' },
    { type: 'step.claimed', step: 'step_1', tier: 'timeout', evidence: '[Not done]', veto: 'not_done' },
    { type: 'step.claimed', step: 'step_1', tier: 'marker', evidence: 'It is. [Done]', veto: 'no_work' },
    { type: 'step.claimed', step: 'step_1', tier: 'timeout', evidence: 'still writing a.md', veto: 'moving' },
    done('marker', '[Done]'),
  );
  expect(reported(step)).toEqual([
    'was claimed by marker and rejected at event 9 (03:04:08) because a tool had just failed: "[Done] all"',
    'was claimed by tool and rejected at event 10 (03:04:09) because a check failed: "work/a.txt is not there"',
    'was reported as not done at event 11 (03:04:10): "[Not done]"',
    'was claimed by marker and rejected at event 12 (03:04:11) because no tool was used in it: "It is. [Done]"',
    'was not assumed done at event 13 (03:04:12): "still writing a.md"',
    'was closed by marker at event 14 (03:04:13): "[Done]"',
  ]);
});

test('a step that was reopened is open, and tells who closed and who opened it', () => {
  const [step] = of(done('marker', '[Done]'), messageReceived('2', 'not done yet'), {
    type: 'step.reopened',
    step: 'step_1',
    by: 'person',
    message: '2',
  });
  expect(step).toMatchObject({ status: 'running', closed: null });
  expect(step?.text).toContain('is the current step');
  expect(reported(step)).toEqual([
    'was closed by marker at event 9 (03:04:08): "[Done]"',
    'was reopened by a person at event 11 (03:04:10): "not done yet"',
  ]);
});

test('a blocked step is opened again by "continue"', () => {
  const spent = { iterations: 1, tokens: 0, cost: null };
  const [step] = of(
    { type: 'step.blocked', step: 'step_1', error: 'no key', by: 'model' },
    { type: 'run.ended', message: '1.md', status: 'waiting', reason: 'blocked', text: '', spent },
    messageReceived('2', 'continue'),
    { type: 'run.resumed', message: '2', by: 'person', limits: {} },
  );
  expect(step).toMatchObject({ status: 'pending', closed: null });
  expect(reported(step)?.at(-1)).toBe('was reopened at event 12 (03:04:11), when a person resumed the plan');
});

describe('an open step tells what it waits for', () => {
  const spent = { iterations: 1, tokens: 0, cost: null };
  test.each<[string, EventBody[], string]>([
    ['a sign', [], 'is the current step (0 iterations so far); nothing has reported it done yet.'],
    [
      'an answer',
      [{ type: 'step.asked', step: 'step_1', iterations: 6 }],
      'was asked at event 9 (03:04:08) whether it is done; no answer yet.',
    ],
    [
      'its checks',
      [{ type: 'step.claimed', step: 'step_1', tier: 'marker', evidence: '[Done]' }],
      'was claimed by marker at event 9 (03:04:08): "[Done]"; its checks are running.',
    ],
    [
      'a person who looks',
      [
        edit({ what: 'step', step: 'step_1', set: { done_when: [{ person: 'Is it red?' }] }, unset: [] }),
        { type: 'step.claimed', step: 'step_1', tier: 'marker', evidence: '[Done]' },
        { type: 'run.ended', message: '1.md', status: 'waiting', reason: 'check', text: '', spent },
      ],
      'was claimed by marker at event 10 (03:04:09): "[Done]"; waiting for a person to answer: "Is it red?"; no run is active, the last one ended as waiting (check) at event 11.',
    ],
    [
      'nothing any more',
      [{ type: 'plan.ended', plan: 'plan_1', status: 'cancelled', reason: 'asked' }],
      'was open when the plan ended as cancelled (asked).',
    ],
    [
      'its plan',
      [{ type: 'plan.ended', plan: 'plan_1', status: 'paused', reason: 'shelved' }],
      'is open: its plan was shelved (to resume it: continue <session> plan_1).',
    ],
  ])('%s', (_, events, sentence) => {
    expect(text(...events)).toBe(`step_1 "Look" ${sentence}`);
  });

  test('the steps before it', () => {
    const [, second, third] = of(
      edit({ what: 'step', step: 'step_3', set: { needs: ['step_1', 'step_9'] }, unset: [] }),
    );
    expect(second?.text).toBe('step_2 "Fetch" is open and waiting its turn behind step_1.');
    expect(third?.text).toBe('step_3 "Tell" is open and waiting for step_1 (running), step_9 (not in the plan).');
  });
});

test('the steps of the plan at hand are reported, in its order, and not of an earlier one with the same ids', () => {
  const limits = { iterations: 50, step_iterations: 5 };
  const steps = of(
    done('marker', '[Done]'),
    { type: 'plan.started', id: 'plan_2', goal: 'More', mode: 'linear', limits },
    { type: 'step.added', by: 'model', step: { id: 'step_1', description: 'Again', status: 'pending' } },
    { type: 'step.added', by: 'model', step: { id: 'step_2', description: 'Once\n more', status: 'pending' } },
    edit({ what: 'order', to: ['step_2', 'step_1'] }),
  );
  expect(steps.map((step) => [step.id, step.number, step.moments.length])).toEqual([
    ['step_2', 1, 0],
    ['step_1', 2, 0],
  ]);
  expect(steps[0]?.text).toBe('step_2 "Once more" (number 1) is open and waiting its turn.');
});

test('a step is found by id, number or description; an unknown one names the known', () => {
  const found = explainSteps('demo', stamped(plan), clock);
  for (const name of ['step_2', '2', 'fetch']) expect(findStepExplanation(found, name).id).toBe('step_2');
  expect(() => findStepExplanation(found, '7')).toThrow(
    'No step "7". Known: step_1 "Look", step_2 "Fetch", step_3 "Tell".',
  );
  expect(() => findStepExplanation(explainSteps('demo', [], clock), '7')).toThrow('There is no plan yet');
});
