import { describe, expect, test } from 'vitest';
import { z } from 'zod';
import { rolledBackSteps } from '../../src/core/plan/plan-steps.ts';
import { readySteps } from '../../src/core/plan/step-readiness.ts';
import { readProposal } from '../../src/core/planner/plan-proposal.ts';
import { type Step, type StepCondition, StepStatus } from '../../src/protocol/session/plan.ts';
import { casesOf } from '../core/case-file.ts';
import { type Bench, bench, type Given, type Outcome, standing } from './dag-bench.ts';

const CaseStep = z.object({
  id: z.string(),
  status: StepStatus.optional(),
  needs: z.array(z.string()).optional(),
  rollback: z.string().optional(),
  result: z.string().optional(),
  when: z.object({ step: z.string(), condition: z.string() }).optional(),
});
const Input = z.looseObject({
  given: z.looseObject({
    plan: z.looseObject({ steps: z.array(CaseStep) }).optional(),
    planner_output: z
      .object({
        subgoals: z.array(
          z.object({ id: z.string(), needs: z.array(z.string()).optional(), actions: z.array(z.string()) }),
        ),
      })
      .optional(),
    parallel: z.int().optional(),
    limits: z.object({ step_seconds: z.number() }).optional(),
  }),
  when: z.array(z.looseObject({ happens: z.string(), step: z.unknown().optional() })),
});
const Expected = z.record(z.literal('then'), z.record(z.string(), z.unknown()));
type Input = z.infer<typeof Input>;

/** The tool router has its own tests; the bound on kept revisions is that of the retention, tested with the store. */
const ELSEWHERE = /^G1(?:4|5[a-d]):/;
/** Not asked of a run, but of the plan alone. */
const OF_THE_PLAN = /^G(?:8|10[ab]):/;

const all = casesOf('dag', Input, Expected);
const cases = all.filter(({ fact }) => !ELSEWHERE.test(fact));

/** `needs deep` is a result; `act_1_1 not completed` speaks of a status. */
function structured({ step, condition }: { step: string; condition: string }): StepCondition {
  const status = /^(\w+) (not )?completed$/.exec(condition);
  return status
    ? { step: status[1] ?? step, status: 'completed', ...(status[2] && { not: true }) }
    : { step, result: condition };
}

const given = ({ when, ...step }: z.infer<typeof CaseStep>): Given => {
  const { status, needs, rollback, result, id } = step;
  return {
    id,
    ...(status && { status: status === 'running' ? 'pending' : status }),
    ...(needs && { needs }),
    ...(rollback && { rollback }),
    ...(result && { result }),
    ...(when && { when: [structured(when)] }),
  };
};

const Happening = {
  step: z.string(),
  ended: z.looseObject({ step: z.string(), error: z.string().optional(), result: z.string().optional() }),
  need: z.looseObject({ step: z.string(), needs: z.string() }),
  move: z.looseObject({ step: z.string(), to: StepStatus }),
};

/** What a planner would have to answer for this to happen. */
function answer(happening: Input['when'][number], steps: readonly Given[]): object | undefined {
  if (happening.happens === 'step_removed') return { remove: [happening.step] };
  if (happening.happens === 'need_added') {
    const { step, needs } = Happening.need.parse(happening);
    const before = steps.find((one) => one.id === step)?.needs ?? [];
    return { change: [{ id: step, needs: [...before, needs] }] };
  }
  if (happening.happens === 'status_changed') {
    const { step, to } = Happening.move.parse(happening);
    return { change: [{ id: step, status: to }] };
  }
  return undefined;
}

async function play({ given: { plan, planner_output, parallel, limits }, when }: Input): Promise<Bench> {
  const steps = (plan?.steps ?? []).map(given);
  const adapt = when.flatMap((it) => answer(it, steps) ?? []);
  // The planner is asked once something is done and something is left.
  const asked = adapt.length > 0 ? [{ id: 'z1', status: 'completed' as const }, { id: 'z2' }] : [];
  const spending = { steps: parallel ?? 4, ...(limits && { step_minutes: limits.step_seconds / 60 }) };
  const planner = planner_output && {
    steps: planner_output.subgoals.flatMap(({ id, needs, actions }) => [
      { id, description: id, ...(needs && { needs }) },
      ...actions.map((action) => ({ id: action, description: action, parent: id })),
    ]),
  };
  const b = planner
    ? await bench({ plan: planner })
    : await bench({ adapt: adapt.flatMap((one) => [one, one, one]) }, standing([...asked, ...steps], spending));
  const ends = when.filter(({ happens }) => happens === 'step_failed' || happens === 'step_completed');
  const outcomes = Object.fromEntries(
    ends.map((it): [string, Outcome] => {
      const { step, error, result } = Happening.ended.parse(it);
      return [step, error === undefined ? { text: result ?? 'ok' } : { status: 'failed', text: error }];
    }),
  );
  const late = when.find(({ happens }) => happens === 'seconds_pass');
  if (late) await b.work(outcomes, Object.keys(outcomes));
  if (late) await b.on.pass(z.looseObject({ count: z.number() }).parse(late).count * 1000);
  const named = Object.keys(outcomes);
  await b.work(outcomes, when.some(({ happens }) => happens === 'run_works') || !expectsMore(when) ? undefined : named);
  return b;
}

/** What is asked about comes right after what happened; else the run goes on to its end. */
const expectsMore = (when: Input['when']): boolean =>
  when.some(({ happens }) => happens === 'step_completed' || happens === 'ready_asked') &&
  !when.some(({ happens }) => happens === 'step_failed');

const REASONS: Record<string, RegExp> = {
  invalid_transition: /act_1_1 is completed and cannot become running/,
  already_ran: /a is completed and cannot be removed/,
  duplicate_need: /b names a twice in "needs"/,
  unknown_need: /b names zzz in "needs", and no step has that id/,
};

describe('every case of the mode dag', () => {
  test('the cases left out belong to the tool router and to the retention', () => {
    expect(all.length - cases.length).toBe(5);
  });

  for (const {
    fact,
    input,
    expect: { then },
  } of cases.filter((one) => !OF_THE_PLAN.test(one.fact))) {
    test(fact, async () => {
      const b = await play(input);
      for (const [key, wanted] of Object.entries(then)) CHECKS[key]?.(b, wanted, then) ?? unknownKey(key);
    });
  }
});

function unknownKey(key: string): void {
  if (!(key in CHECKS)) throw new Error(`nothing checks ${key}`);
}

const Statuses = z.array(
  z.object({
    id: z.string(),
    status: StepStatus.optional(),
    status_one_of: z.array(StepStatus).optional(),
    needs: z.array(z.string()).optional(),
    error_kind: z.literal('timeout').optional(),
    error_mentions: z.array(z.string()).optional(),
  }),
);
const Ids = z.array(z.string());

const CHECKS: Record<string, (b: Bench, wanted: unknown, then: Record<string, unknown>) => void> = {
  super_steps: (b, wanted) => expect(b.superSteps()).toEqual(wanted),
  super_steps_recorded: (b, wanted) => expect(b.superSteps()).toHaveLength(z.int().parse(wanted)),
  plan: (b, wanted) => expect(b.plan()).toMatchObject(z.looseObject({}).parse(wanted)),
  ran_in_order: (b, wanted) => expect(b.ran()).toEqual(wanted),
  never_run: (b, wanted) => {
    for (const id of Ids.parse(wanted)) expect(b.ran()).not.toContain(id);
  },
  rolled_back: (b, wanted) => expect(rolledBackSteps(b.plan().steps).map(({ id }) => id)).toEqual(wanted),
  ready: (b, wanted) => expect(b.atWork()).toEqual(wanted),
  condition_met: (b, wanted) => {
    const target = b.plan().steps.find(({ when }) => when);
    expect(target?.status).toBe(wanted ? 'running' : 'skipped');
  },
  steps: (b, wanted) => {
    for (const one of Statuses.parse(wanted)) {
      const step = b.steps()[one.id];
      if (one.status) expect(step).toMatchObject({ id: one.id, status: one.status });
      if (one.status_one_of) expect(one.status_one_of).toContain(step?.status);
      if (one.needs) expect(step?.needs).toEqual(one.needs);
      if (one.error_kind) expect(step?.error).toContain('timed out');
      for (const mention of one.error_mentions ?? []) expect(step?.error).toContain(mention);
    }
  },
  gone: (b, wanted) => {
    for (const id of Ids.parse(wanted)) expect(b.steps()).not.toHaveProperty(id);
  },
  needs_on_gone: (b) => {
    const ids = new Set(Object.keys(b.steps()));
    expect(b.plan().steps.flatMap(({ needs = [] }) => needs.filter((need) => !ids.has(need)))).toEqual([]);
  },
  refused: (b) => expect(b.looks()[0]).toMatchObject({ changes: [], reason: expect.stringContaining('no change') }),
  reason: (b, wanted) => expect(b.looks()[0]?.reason).toMatch(REASONS[z.string().parse(wanted)] ?? /never/),
  change_recorded: (b) => expect(b.looks()[0]?.changes[0]).toMatchObject({ what: 'removed', step: 'b' }),
  histories: (b, wanted) => {
    const Histories = z.array(z.object({ session: z.string(), contains_only: Ids }));
    for (const { session, contains_only } of Histories.parse(wanted)) {
      const reported = b.on.children.sent.filter((one) => one.child === session).map((one) => one.message.text ?? '');
      expect(reported).toHaveLength(1);
      for (const { id, description } of b.plan().steps)
        expect(reported[0]?.includes(description), `${session} and ${id}`).toBe(contains_only.includes(id));
    }
  },
};

const caseOf = (id: string) => {
  const found = cases.find(({ fact }) => fact.startsWith(`${id}:`));
  if (!found) throw new Error(`no case ${id}`);
  return found;
};

test(caseOf('G8').fact, () => {
  const steps = caseOf('G8').input.given.plan?.steps ?? [];
  const text = JSON.stringify({ steps: steps.map(({ id, needs }) => ({ id, description: id, needs })) });
  const read = readProposal(text, { agents: {} });
  expect(read).toMatchObject({ is: 'fault', why: expect.stringContaining('cycle') });
  for (const id of ['a', 'b', 'c']) expect(JSON.stringify(read)).toContain(id);
});

/** A condition that counts how often it is looked at. */
function counted(when: StepCondition): { when: StepCondition; times: () => number } {
  let times = 0;
  const { step, result = '' } = when;
  return {
    when: {
      step,
      get result() {
        times += 1;
        return result;
      },
    },
    times: () => times,
  };
}

for (const id of ['G10a', 'G10b']) {
  const { fact, input, expect: expected } = caseOf(id);
  test(fact, () => {
    const { when, times } = counted({ step: 'act_check', result: '需要深入' });
    let steps: Step[] = [
      { id: 'act_check', description: 'check', status: 'completed', result: '需要深入' },
      { id: 'act_deep_search', description: 'search', status: 'pending', needs: ['act_check'], when: [when] },
    ];
    for (const { happens } of input.when) {
      if (happens === 'ready_asked') expect(readySteps(steps).map((step) => step.id)).toContain('act_deep_search');
      if (happens === 'step_added') steps = [...steps, { id: 'act_extra', description: 'extra', status: 'pending' }];
    }
    expect(times()).toBe(expected.then['condition_evaluations']);
  });
}
