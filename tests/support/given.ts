import { reduceEvent } from '../../src/core/reducers/reduce-event.ts';
import { emptySession } from '../../src/core/session/session-state.ts';
import type { EventBody } from '../../src/protocol/session/event.ts';
import type { Plan } from '../../src/protocol/session/plan.ts';
import { DEFAULT_LIMITS } from '../../src/protocol/settings/run-options.ts';

/** The state a scenario of tests/cases begins in. */
export type Given = {
  plan?: {
    id?: string;
    status: string;
    goal?: string;
    iteration_count?: number;
    steps: Array<{
      id: string;
      status: string;
      description?: string;
      result?: string;
      iterations?: number;
      progress?: { current: number; total: number };
    }>;
  } | null;
  execution?: string;
  limits?: { iterations?: number; step_iterations?: number };
  message?: string;
  messages?: number;
  model_call_in_flight?: boolean;
  tool_call_in_flight?: { tool: string; replay?: 'safe' };
};

/** A record that leads to that state, event by event, as the daemon would have written it. */
export function givenRecord(given: Given, sameRun = false): EventBody[] {
  const { plan } = given;
  if (!plan) return [];
  const goal = plan.goal ?? 'A goal';
  const limits = { ...DEFAULT_LIMITS, ...given.limits };
  const events: EventBody[] = [
    { type: 'session.opened', format: 1, key: 'demo' },
    {
      type: 'message.received',
      id: 'm0.md',
      name: 'm0.md',
      body: { text: goal },
      file: { ino: '0', mtime_ns: '0', ctime_ns: '0', sha256: '0' },
    },
    { type: 'run.started', message: 'm0.md', mode: 'linear', limits },
    {
      type: 'plan.started',
      id: plan.id ?? 'plan_1',
      goal,
      mode: 'linear',
      limits: { iterations: limits.iterations, step_iterations: limits.step_iterations },
    },
    ...plan.steps.map(
      (step): EventBody => ({
        type: 'step.added',
        by: 'model',
        step: { id: step.id, description: step.description ?? step.id, status: 'pending' },
      }),
    ),
  ];
  for (const step of plan.steps) {
    if (step.status === 'pending') continue;
    events.push({ type: 'step.started', step: step.id });
    for (let n = 0; n < (step.iterations ?? 0); n++) events.push(...iteration(events.length + 1));
    if (step.progress) events.push({ type: 'step.progressed', step: step.id, progress: step.progress });
    if (step.status === 'completed')
      events.push({
        type: 'step.completed',
        step: step.id,
        by: 'marker',
        evidence: '[Done]',
        result: step.result ?? '',
      });
  }
  return sameRun ? events : [...events, ...eventsAfter(plan.status, given)];
}

/** One answer with a call that ended well, for the counters. */
function iteration(seq: number): EventBody[] {
  const calls = [{ id: `c${seq}`, name: 'shell', args: `{"command":"given ${seq}"}` }];
  return [
    {
      type: 'model.answered',
      text: '',
      calls,
      usage: { tokens: 0, cost: null },
      model: 'given',
      ms: 0,
      delivered: [],
      seen: 0,
    },
    { type: 'tool.started', call: `${seq}.0`, name: 'shell', args: '{}', replay: 'never' },
    { type: 'tool.finished', call: `${seq}.0`, ok: true, output: { text: `exit 0 ${seq}` }, ms: 1 },
  ];
}

function eventsAfter(status: string, given: Given): EventBody[] {
  if (status === 'running') {
    const call = given.tool_call_in_flight;
    return call ? openCall(call, given) : [];
  }
  const done = status === 'completed';
  const spent = { iterations: 0, tokens: 0, cost: null };
  const events: EventBody[] = [
    {
      type: 'run.ended',
      message: 'm0.md',
      status: done ? 'done' : 'paused',
      reason: done ? 'completed' : 'limit',
      text: 'so far',
      spent,
    },
  ];
  if (done)
    events.push({
      type: 'plan.ended',
      plan: given.plan?.id ?? 'plan_1',
      status: 'completed',
      reason: 'all steps are closed',
    });
  const reply = {
    id: 'm0.md',
    in_reply_to: 'm0.md',
    session: 'demo',
    status: done ? ('done' as const) : ('paused' as const),
    text: 'so far',
    plan: null,
    usage: null,
    attachments: [],
  };
  return [
    ...events,
    { type: 'reply.committed', message: 'm0.md', reply },
    { type: 'reply.published', message: 'm0.md', idle: true },
  ];
}

function openCall(call: { tool: string; replay?: 'safe' }, given: Given): EventBody[] {
  const steps = given.plan?.steps ?? [];
  // opened, received, run, plan, one per step, one start per step that is not pending: the answer comes next.
  const seq = 4 + steps.length + steps.filter((step) => step.status !== 'pending').length + 1;
  return [
    {
      type: 'model.answered',
      text: '',
      calls: [{ id: 'c', name: call.tool, args: '{}' }],
      usage: { tokens: 0, cost: null },
      model: 'given',
      ms: 0,
      delivered: ['m0.md'],
      seen: seq - 1,
    },
    { type: 'tool.started', call: `${seq}.0`, name: call.tool, args: '{}', replay: call.replay ?? 'never' },
  ];
}

/** The plan of that state, with the counters the scenario gives. */
export function givenPlan(given: Given): Plan {
  const stamp = { v: 2 as const, epoch: 1, at: '2026-01-05T08:00:00.000Z' };
  const session = givenRecord(given).reduce(
    (so, body, n) => reduceEvent(so, { ...stamp, seq: n + 1, ...body }),
    emptySession('demo'),
  );
  if (!session.plan) throw new Error('the scenario gives no plan');
  return { ...session.plan, iteration_count: given.plan?.iteration_count ?? session.plan.iteration_count };
}
