import { reduceEvent } from '../../src/core/reducers/reduce-event.ts';
import { emptySession, type Session } from '../../src/core/session/session-state.ts';
import type { EventBody } from '../../src/protocol/session/event.ts';
import type { Plan, Step } from '../../src/protocol/session/plan.ts';
import type { Mode } from '../../src/protocol/settings/run-options.ts';
import { DEFAULT_LIMITS } from '../../src/protocol/settings/run-options.ts';

/** A step in the state a case begins in. */
export type GivenStep = {
  id: string;
  status: string;
  notes?: string;
  description?: string;
  needs?: string[];
  result?: string;
  error?: string;
};
/** A plan that is running, with these steps. */
export const planOf = (...steps: Step[]): Plan => ({
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

const DONE = { by: 'marker', evidence: '[Done]' } as const;

/** The record that leads to a plan as given, as a daemon would have written it. A failed item has used up its tries. */
export function recordOf(steps: GivenStep[], mode: Mode): EventBody[] {
  const { iterations, step_iterations } = DEFAULT_LIMITS;
  return [
    { type: 'session.opened', format: 1, key: 'demo' },
    {
      type: 'message.received',
      id: 'm0.md',
      name: 'm0.md',
      body: { text: 'A goal' },
      file: { ino: '0', mtime_ns: '0', ctime_ns: '0', sha256: '0' },
    },
    { type: 'run.started', message: 'm0.md', mode, limits: DEFAULT_LIMITS },
    {
      type: 'plan.started',
      id: 'plan_1',
      goal: 'A goal',
      mode,
      limits: { iterations, step_iterations },
      planned_by: 'planner',
    },
    ...steps.map((step): EventBody => ({ type: 'step.added', by: 'model', step: stepOf(step) })),
    ...steps.flatMap(become),
  ];
}

export const stepOf = ({ id, description, needs, notes, status }: GivenStep): Step => ({
  id,
  description: description ?? id,
  status: 'pending',
  ...(needs && { needs }),
  ...(notes !== undefined && { notes }),
  ...(status === 'failed' && { attempts: 3 }),
});

export function become({ id: step, status, result = '', error = 'it broke' }: GivenStep): EventBody[] {
  const started: EventBody = { type: 'step.started', step };
  if (status === 'pending') return [];
  if (status === 'running') return [started];
  if (status === 'completed') return [started, { type: 'step.completed', step, ...DONE, result }];
  if (status === 'blocked') return [started, { type: 'step.blocked', step, error, by: 'daemon' }];
  return [started, { type: 'step.failed', step, error, by: 'model' }];
}

export const played = (events: EventBody[], from: Session = emptySession('demo')): Session =>
  events.reduce(
    (so, body) => reduceEvent(so, { v: 2, epoch: 1, at: '2026-01-05T08:00:00.000Z', seq: so.seq + 1, ...body }),
    from,
  );
