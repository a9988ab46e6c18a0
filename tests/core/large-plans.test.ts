import { expect, test, vi } from 'vitest';
import { decide } from '../../src/core/decide/decide.ts';
import { replyEvent } from '../../src/core/messages/replies.ts';
import { formatPlanSummary } from '../../src/core/messages/status-report.ts';
import { parseEditedPlan } from '../../src/core/plan/edited-plan.ts';
import { mergePlanEdit } from '../../src/core/plan/merge-edit.ts';
import { formatPlanFile } from '../../src/core/plan/plan-steps.ts';
import { readySteps } from '../../src/core/plan/step-readiness.ts';
import { reduceEvent } from '../../src/core/reducers/reduce-event.ts';
import { emptySession, type Session } from '../../src/core/session/session-state.ts';
import type { EventBody } from '../../src/protocol/session/event.ts';
import type { Step } from '../../src/protocol/session/plan.ts';
import { type EditedPlan, PLAN_BOUNDS } from '../../src/protocol/session/plan-edit.ts';
import { resolveRules } from '../../src/protocol/settings/effective-settings.ts';
import { MODES } from '../../src/protocol/settings/run-options.ts';
import { givenPlan } from '../support/given.ts';

const N = PLAN_BOUNDS.steps;
const AT = '2026-01-05T08:00:00.000Z';

/** Plans of the most steps there may be; what is quadratic in one of them takes minutes here. */
const SHAPES: Record<string, (n: number) => Partial<Step>> = {
  'that stand for themselves': () => ({}),
  'in one chain': (n) => (n > 0 ? { needs: [`s${n - 1}`] } : {}),
  'in a chain from last to first': (n) => (n < N - 1 ? { needs: [`s${n + 1}`] } : {}),
  'in one group': (n) => (n > 0 ? { parent: 's0' } : {}),
  'that all undo with one': (n) => (n > 0 ? { rollback: 's0' } : {}),
  'in cycles of two': (n) => ({ needs: [`s${n ^ 1}`] }),
  'in one cycle': (n) => ({ needs: [`s${(n + 1) % N}`] }),
  'that need what is not there': () => ({ needs: ['nothing'] }),
};

const stepsOf = (shape: (n: number) => Partial<Step>): Step[] =>
  Array.from({ length: N }, (_, n) => ({ id: `s${n}`, description: `Do ${n}.1.1`, status: 'pending', ...shape(n) }));

const play = (session: Session, ...bodies: EventBody[]): Session =>
  bodies.reduce((so, body) => reduceEvent(so, { v: 2, seq: so.seq + 1, epoch: 1, at: AT, ...body }), session);

test.each(Object.entries(SHAPES))('a plan of the most steps, %s, is merged and read to its end', (_what, shape) => {
  const base = givenPlan({ plan: { status: 'paused', steps: [{ id: 'step_1', status: 'pending' }] } });
  const theirs: EditedPlan = { steps: stepsOf(shape) };
  const read = parseEditedPlan(JSON.stringify(theirs));
  expect(read).toHaveProperty('edit');
  const { changes, ignored, save } = mergePlanEdit(base, theirs, base, 1, {});
  const saved = save && { save: { ...save, sha256: 'x' } };
  const session = play(
    { ...emptySession('demo'), plan: base },
    { type: 'plan.edited', by: 'person', changes, ignored, ...saved },
  );
  expect(session.plan?.steps.map((step) => step.id)).toEqual(theirs.steps.map((step) => step.id));
  expect(ignored.join().length).toBeLessThan(5000);
  expect(formatPlanSummary(session.plan ?? base, 'en').length).toBeGreaterThan(0);
  const backwards = { steps: theirs.steps.toReversed() };
  const again = mergePlanEdit(
    session.planSaves[0] ?? base,
    backwards,
    session.plan ?? base,
    session.lastStepNumber,
    {},
  );
  expect(again.changes).toHaveLength(1);
  expect(formatPlanFile(session.plan ?? base).length).toBeLessThan(PLAN_BOUNDS.bytes);
});

for (const mode of MODES)
  test.each(Object.entries(SHAPES))(
    `${mode} decides what comes first in a plan of the most steps %s`,
    (_what, shape) => {
      const limits = { ...resolveRules().limits };
      let session = play(
        emptySession('demo'),
        { type: 'session.opened', format: 1, key: 'demo' },
        {
          type: 'message.received',
          id: 'm',
          name: 'm.md',
          body: { text: 'go' },
          file: { ino: '1', mtime_ns: '1', ctime_ns: '1', sha256: '1' },
        },
        { type: 'run.started', message: 'm', limits, mode },
        { type: 'plan.started', id: 'plan_1', goal: 'go', mode, limits, steps: stepsOf(shape) },
      );
      for (let n = 0; n < 3; n++) {
        const decision = decide(session, resolveRules());
        expect(decision.do === 'record' ? decision.events.length : 0).toBeLessThanOrEqual(300);
        if (decision.do === 'record') session = play(session, ...decision.events);
      }
    },
  );

const base = () => givenPlan({ plan: { status: 'paused', steps: [{ id: 'step_1', status: 'pending' }] } });
const needing = (count: number, needs: number) =>
  Array.from({ length: count }, (_, n) => ({
    id: `s${n}`,
    description: `Do ${n}`,
    needs: Array.from({ length: Math.min(needs, n) }, (_, k) => `s${n - 1 - k}`),
  }));
const wordy = (count: number) =>
  Array.from({ length: count }, (_, n) => ({
    id: `s${n}`,
    description: 'x'.repeat(PLAN_BOUNDS.description),
    status: 'pending' as const,
  }));

test.each([
  ['of 4,900 steps that need 60 others each', needing(4900, 60)],
  ['of 150 steps with 10,000 characters each', wordy(150)],
  ['with more steps than there may be', needing(N + 1, 0)],
])('a save %s is refused, with what was expected and what was found', (_what, steps) => {
  const read = parseEditedPlan(JSON.stringify({ steps }));
  expect('fault' in read ? read.fault : '').toMatch(
    /^plan\.json is not a plan: line 1, column \d+, at steps: expected at most \d+ (characters in all steps|steps), got \d+/,
  );
});

test('a save with a pattern that is none is refused at its place', () => {
  const steps = [{ description: 'Count', done_when: [{ file: 'x.txt', matches: '(' }] }];
  expect(parseEditedPlan(JSON.stringify({ steps }))).toEqual({
    fault: expect.stringMatching(/column \d+, at steps\.0\.done_when\.0\.matches: expected a JavaScript regular expr/),
  });
});

const taken = (steps: EditedPlan['steps']) => {
  const read = parseEditedPlan(JSON.stringify({ steps }));
  if ('fault' in read) throw new Error(read.fault);
  const { changes, ignored } = mergePlanEdit(base(), read.edit, base(), 1, read.raw);
  const session = play(
    { ...emptySession('demo'), plan: base() },
    { type: 'plan.edited', by: 'person', changes, ignored },
  );
  return session.plan ?? base();
};

test.each([
  ['of the most text there may be', wordy(Math.floor(PLAN_BOUNDS.text / (PLAN_BOUNDS.description + 10)))],
  ['of the most steps', needing(N, 1)],
  [
    'in which one step needs all others',
    [...needing(N - 1, 0), { id: 'end', needs: needing(N - 1, 0).map(({ id }) => id), description: 'x' }],
  ],
  [
    'with a hundred checks',
    [{ description: 'x', done_when: Array.from({ length: 100 }, (_, n) => ({ file: `work/${n}` })) }],
  ],
])('a plan %s is taken, and taken again as the daemon wrote it back', (_what, steps) => {
  const plan = taken(steps);
  expect(parseEditedPlan(formatPlanFile(plan), plan.steps)).toHaveProperty('edit');
});

test('a plan that has outgrown the bounds is taken again as it is and smaller, and not larger', () => {
  const grown = { ...base(), steps: wordy(1500) };
  const text = (steps: readonly object[]) => JSON.stringify({ ...grown, steps });
  expect(parseEditedPlan(formatPlanFile(grown), grown.steps)).toHaveProperty('edit');
  expect(parseEditedPlan(text(grown.steps.slice(1)), grown.steps)).toHaveProperty('edit');
  expect(parseEditedPlan(text([...grown.steps, ...wordy(1)]), grown.steps)).toHaveProperty('fault');
});

test('a save with a huge result is refused before it is parsed; a plan that the daemon wrote is taken at its size, and twice that', () => {
  const result = 'x'.repeat(5 * 1024 * 1024);
  const large = {
    ...base(),
    steps: [{ ...wordy(1)[0], id: 's0', description: 'Do', status: 'completed' as const, result }],
  };
  const parse = vi.spyOn(JSON, 'parse');
  const read = parseEditedPlan(formatPlanFile(large), base().steps);
  expect('fault' in read ? read.fault : '').toMatch(
    /^plan\.json is too large to be read: expected at most 4194304 characters.*, got 5\d{6}$/,
  );
  expect(parse).not.toHaveBeenCalled();
  parse.mockRestore();
  expect(parseEditedPlan(formatPlanFile(large), large.steps)).toHaveProperty('edit');
  const more = { ...large, steps: [...large.steps, { ...large.steps[0], id: 's1', result: result.slice(0, -1000) }] };
  expect(parseEditedPlan(JSON.stringify(more), large.steps)).toHaveProperty('edit');
  expect(parseEditedPlan(JSON.stringify({ ...more, x: result }), large.steps)).toHaveProperty('fault');
});

test.each(['en', 'zh'] as const)(
  'a summary in %s shows a hundred steps around the one at work, and says how many more',
  (language) => {
    const steps = wordy(N).map((step, n) => ({ ...step, status: n < 2500 ? ('completed' as const) : step.status }));
    const text = formatPlanSummary({ ...base(), steps }, language);
    expect(text.length).toBeLessThan(100_000);
    expect(text).toContain('\n2501. ○');
    expect(text).toMatch(/… 2480 |另有 2480 /);
    expect(text).toMatch(/… 2420 |另有 2420 /);
    expect(formatPlanSummary({ ...base(), steps: wordy(100) }, language)).toContain('\n100. ○');
  },
);

test('no reply is longer than a million characters', () => {
  const { reply } = replyEvent(emptySession('demo'), 'm', { status: 'done', text: 'x'.repeat(2_000_000) }, 'en');
  expect(reply.text.length).toBeLessThan(1_000_100);
  expect(reply.text).toMatch(/x\n\[… cut here: 2000000 characters\]$/);
});

test('what a thousand needs of fifty groups mean for four thousand steps in them is found out once', () => {
  const groups = Array.from({ length: 50 }, (_, n) => ({
    ...{ id: `g${n}`, description: 'x', status: 'pending' as const },
    ...(n > 0 && { parent: `g${n - 1}` }),
    needs: Array.from({ length: 1000 }, (_, k) => `s${k}`),
  }));
  let looks = 0;
  const counted = wordy(1000).map(({ id, description }) => ({
    ...{ id, description },
    get status() {
      looks++;
      return 'completed' as const;
    },
  }));
  const parts = Array.from({ length: 3950 }, (_, n) => ({
    id: `p${n}`,
    description: 'x',
    status: 'pending' as const,
    parent: 'g49',
  }));
  expect(readySteps([...groups, ...counted, ...parts])).toHaveLength(parts.length);
  expect(looks).toBeLessThan(1_000_000);
});
