import { expect, test } from 'vitest';
import { decide } from '../../src/core/decide/decide.ts';
import { formatPlanSummary } from '../../src/core/messages/status-report.ts';
import { parseEditedPlan } from '../../src/core/plan/edited-plan.ts';
import { mergePlanEdit } from '../../src/core/plan/merge-edit.ts';
import { formatPlanFile } from '../../src/core/plan/plan-steps.ts';
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
  'in rings of two': (n) => ({ needs: [`s${n ^ 1}`] }),
  'in one ring': (n) => ({ needs: [`s${(n + 1) % N}`] }),
  'that need what is not there': () => ({ needs: ['nothing'] }),
};

const stepsOf = (shape: (n: number) => Partial<Step>): Step[] =>
  Array.from({ length: N }, (_, n) => ({ id: `s${n}`, description: `Do ${n}.1.1`, status: 'pending', ...shape(n) }));

const play = (session: Session, ...bodies: EventBody[]): Session =>
  bodies.reduce((so, body) => reduceEvent(so, { v: 1, seq: so.seq + 1, epoch: 1, at: AT, ...body }), session);

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
          file: { ino: '1', mtime_ns: '1', sha256: '1' },
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
