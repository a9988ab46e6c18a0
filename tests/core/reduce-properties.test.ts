import { expect, test } from 'vitest';
import { mapGet } from '../../src/base/collections.ts';
import { decide } from '../../src/core/decide/decide.ts';
import { mergePlanEdit } from '../../src/core/plan/merge-edit.ts';
import { currentStepIndex, formatPlanFile, readySteps } from '../../src/core/plan/plan-steps.ts';
import { reduceEvent } from '../../src/core/reducers/reduce-event.ts';
import { emptySession, type Session } from '../../src/core/session/session-state.ts';
import type { EventBody } from '../../src/protocol/session/event.ts';
import { Plan, STEP_STATUSES, type Step } from '../../src/protocol/session/plan.ts';
import { resolveRules } from '../../src/protocol/settings/effective-settings.ts';
import { DEFAULT_LIMITS } from '../../src/protocol/settings/run-options.ts';
import { givenPlan } from '../support/given.ts';
import fc from '../support/property.ts';

const rules = resolveRules();
const stamp = (seq: number) => ({
  v: 2 as const,
  seq,
  epoch: 1,
  at: new Date(1_767_600_000_000 + seq * 1000).toISOString(),
});
const reduceAll = (bodies: EventBody[], from = emptySession('demo')) =>
  bodies.reduce((session, body) => reduceEvent(session, { ...stamp(session.seq + 1), ...body }), from);

/** Something the world does: a message comes in, the model answers, a call ends, a daemon dies. */
const texts = fc.constantFrom(
  'do it',
  'continue',
  '/stop',
  '/pause',
  '/cancel',
  '/new',
  '/undo',
  '/status',
  '还没完成',
  '继续',
  'also this',
  'New task: other',
);
const answers = fc.constantFrom(
  '',
  '[Step] a\n[Step] b',
  'first is there [Done]',
  'Which year?',
  '[Not done] one is missing',
  '[Done]\n[Step] c',
);
const move = fc.oneof(
  fc.record({ kind: fc.constant('message' as const), text: texts }),
  fc.record({ kind: fc.constant('answer' as const), text: answers, calls: fc.nat(2), ok: fc.boolean() }),
  fc.record({ kind: fc.constant('fault' as const), retry: fc.boolean() }),
  fc.record({ kind: fc.constant('edit' as const), step: fc.nat(3), status: fc.constantFrom(...STEP_STATUSES) }),
);
type Move = typeof move extends fc.Arbitrary<infer T> ? T : never;

const ROUNDS = 60;

/** Lets the session do all it decides by itself; what the world is asked for is answered by the moves that are left. */
function settle(session: Session, moves: Move[]): Session {
  let now = session;
  for (let round = 0; round < ROUNDS; round++) {
    const decision = decide(now, rules);
    expect(decide(now, rules)).toEqual(decision);
    if (decision.do === 'idle') return now;
    if (decision.do === 'record') now = reduceAll(decision.events, now);
    if (decision.do === 'publish')
      now = reduceAll([{ type: 'reply.published', message: decision.message, idle: false }], now);
    if (decision.do === 'act') {
      const { key, name, args } = decision.call;
      const failed = now.seq % 5 === 0;
      now = reduceAll(
        [
          { type: 'tool.started', call: key, name, args, replay: 'never' },
          { type: 'tool.finished', call: key, ok: !failed, output: { text: `out ${now.seq}` }, ms: 1 },
        ],
        now,
      );
    }
    if (decision.do === 'think') {
      const next = moves[0];
      if (next?.kind === 'fault')
        now = reduceAll(
          [
            {
              type: 'model.failed',
              kind: 'unreachable',
              error: 'down',
              attempt: 1,
              retry_at: next.retry ? stamp(now.seq).at : null,
            },
          ],
          now,
        );
      else if (next?.kind === 'answer') {
        const calls = Array.from({ length: next.calls }, (_, n) => ({
          id: `c${now.seq}_${n}`,
          name: 'shell',
          args: `{"command":"${now.seq} ${n}"}`,
        }));
        now = reduceAll(
          [
            {
              type: 'model.answered',
              text: next.text,
              calls,
              usage: { tokens: 1, cost: null },
              model: 'm',
              ms: 1,
              delivered: decision.deliver,
              seen: now.seq,
            },
          ],
          now,
        );
      } else return now;
      moves.shift();
    }
  }
  throw new Error('it never becomes idle');
}

function play(moves: Move[]): { session: Session; dropped: string[] } {
  let session = emptySession('demo');
  const dropped: string[] = [];
  const left = [...moves];
  while (left.length > 0) {
    const next = left[0];
    if (next?.kind === 'message') {
      left.shift();
      const id = `${dropped.length}.md`;
      dropped.push(id);
      session = reduceAll(
        [
          {
            type: 'message.received',
            id,
            name: id,
            body: { text: next.text },
            file: { ino: id, mtime_ns: '0', ctime_ns: '0', sha256: id },
          },
        ],
        session,
      );
    } else if (next?.kind === 'edit') {
      left.shift();
      const step = session.plan?.steps[next.step];
      if (step)
        session = reduceAll(
          [
            {
              type: 'plan.edited',
              by: 'person',
              changes: [{ what: 'status', step: step.id, from: step.status, to: next.status }],
              ignored: [],
            },
          ],
          session,
        );
    }
    const before = left.length;
    session = settle(session, left);
    // Nobody asked the model: the answer is for nobody.
    if (left.length === before && (left[0]?.kind === 'answer' || left[0]?.kind === 'fault')) left.shift();
  }
  return { session, dropped };
}

test('whatever happens, every decision is repeatable, the session becomes idle or waits for the model, and no message gets two replies', () => {
  fc.assert(
    fc.property(fc.array(move, { maxLength: 25 }), (moves) => {
      const { session, dropped } = play(moves);
      for (const id of dropped) expect(mapGet(session.messages, id)).toBeDefined();
      if (!session.run) for (const id of dropped) expect(mapGet(session.messages, id)?.isReplied, id).toBe(true);
      const running = session.plan?.steps.filter((step) => step.status === 'running') ?? [];
      const byHand = moves.some((one) => one.kind === 'edit');
      if (!byHand) expect(running.length).toBeLessThanOrEqual(1);
      if (session.plan) expect(Plan.safeParse(JSON.parse(formatPlanFile(session.plan))).success).toBe(true);
      if (session.plan?.status === 'completed' && !byHand)
        expect(session.plan.steps.every((step) => step.status === 'completed')).toBe(true);
    }),
    { numRuns: 400 },
  );
});

const step = (n: number): fc.Arbitrary<Step> =>
  fc.record({
    id: fc.constant(`step_${n}`),
    description: fc.constantFrom('a', 'b', 'c'),
    status: fc.constantFrom(...STEP_STATUSES),
    needs: fc.subarray(['step_1', 'step_2', 'step_3', 'step_9']),
  });
const steps = fc.nat(5).chain((n) => fc.tuple(...Array.from({ length: n }, (_, at) => step(at + 1))));

test('a step that is ready is pending and has everything it needs', () => {
  fc.assert(
    fc.property(steps, (list) => {
      for (const one of readySteps(list)) {
        expect(one.status).toBe('pending');
        for (const need of one.needs ?? []) expect(list.find((other) => other.id === need)?.status).toBe('completed');
      }
      expect(currentStepIndex(list)).toBeLessThan(Math.max(1, list.length));
    }),
  );
});

const base = givenPlan({
  plan: {
    goal: 'g',
    status: 'paused',
    steps: [
      { id: 'step_1', status: 'completed', description: 'a', result: 'r' },
      { id: 'step_2', status: 'running', description: 'b' },
      { id: 'step_3', status: 'pending', description: 'c' },
    ],
  },
});
const saved = fc.record({
  goal: fc.constantFrom('g', 'another goal'),
  limits: fc.record({
    iterations: fc.integer({ min: 1, max: 9 }),
    step_iterations: fc.constant(DEFAULT_LIMITS.step_iterations),
  }),
  steps: fc.shuffledSubarray([...base.steps]).chain((some) =>
    fc.tuple(
      ...some.map((one) =>
        fc.record({
          id: fc.constant(one.id),
          description: fc.constantFrom(one.description, 'reworded'),
          status: fc.constantFrom(one.status, 'completed' as const, 'pending' as const, 'skipped' as const),
        }),
      ),
    ),
  ),
});
const applied = (plan: Plan, changes: ReturnType<typeof mergePlanEdit>['changes']) => {
  const session = { ...emptySession('demo'), plan };
  return reduceEvent(session, { ...stamp(1), type: 'plan.edited', by: 'person', changes, ignored: [] }).plan;
};

test('a hand edit is taken whole: saving the same again is no edit', () => {
  fc.assert(
    fc.property(saved, (theirs) => {
      const once = applied(base, mergePlanEdit(base, theirs, base, 3, theirs).changes);
      if (!once) throw new Error('no plan');
      expect(once.steps.map((one) => one.id)).toEqual(theirs.steps.map((one) => one.id));
      expect(once.goal).toBe(theirs.goal);
      expect(
        mergePlanEdit(base, theirs, once, 3, theirs).changes.filter(
          (change) => change.what === 'added' || change.what === 'removed',
        ),
      ).toEqual([]);
    }),
  );
});

test('a hand edit and what the event log did meanwhile commute where they touch different things', () => {
  fc.assert(
    fc.property(saved, (theirs) => {
      const ran = (plan: Plan): Plan => ({
        ...plan,
        steps: plan.steps.map((one) =>
          one.id === 'step_2' ? { ...one, iterations: 4, progress: { current: 1, total: 2 } } : one,
        ),
      });
      const first = applied(ran(base), mergePlanEdit(base, theirs, ran(base), 3, theirs).changes);
      const last = ran(applied(base, mergePlanEdit(base, theirs, base, 3, theirs).changes) ?? base);
      const bare = (plan: Plan | null) => plan?.steps.map(({ completed_at: _, ...one }) => one);
      expect(bare(first)).toEqual(bare(last));
    }),
  );
});
