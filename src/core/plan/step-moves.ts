import type { EventBody } from '../../protocol/session/event.ts';
import { isFromOutside } from '../../protocol/session/log-entry.ts';
import type { Plan, Step, StepStatus } from '../../protocol/session/plan.ts';
import { omitFields } from './plan-steps.ts';
import { isGroup } from './step-graph.ts';

/** What is known when the status of a step changes; undefined values are not written. */
type Outcome = {
  [K in 'result' | 'error' | 'because' | 'evidence' | 'completed_by' | 'proof' | 'attachments']?: Step[K] | undefined;
};

/** The statuses of a step that has ended. */
export const isEnded = (status: StepStatus | undefined): boolean =>
  status === 'completed' || status === 'failed' || status === 'skipped';

/**
 * The step with another status; nothing else writes one. A step that ends has `completed_at`, any other has none. A
 * completed step has no `error`. A step that opens again has no outcome any more, but if it is tried again
 * (`attempts`), it keeps the error of the attempt before until it ends. `at`: ISO 8601.
 */
export function moveStep(step: Step, to: 'pending' | 'running', facts?: { at?: string; attempts?: number }): Step;
export function moveStep(step: Step, to: StepStatus, facts: Outcome & { at: string }): Step;
export function moveStep(
  step: Step,
  to: StepStatus,
  { at, attempts, ...outcome }: Outcome & { at?: string; attempts?: number } = {},
): Step {
  const wasOpen = step.status === 'pending' || step.status === 'running';
  const bare = omitFields(step, 'because', 'completed_by', 'evidence', 'proof', 'completed_at');
  if (to === 'pending' || to === 'running') {
    const isTriedAgain = attempts !== undefined || (wasOpen && (step.attempts ?? 1) > 1);
    const open = omitFields(bare, ...(wasOpen ? [] : OUTCOME), ...(isTriedAgain ? [] : ['error' as const]));
    return {
      ...open,
      status: to,
      ...(attempts !== undefined && { attempts }),
      ...(to === 'running' && at !== undefined && { started_at: step.started_at ?? at }),
    };
  }
  const written = Object.entries(outcome).filter(([, value]) => value !== undefined);
  const isOver = isEnded(to) && at !== undefined;
  return {
    ...omitFields(bare, 'error'),
    status: to,
    ...Object.fromEntries(written),
    ...(isOver && { completed_at: at }),
  };
}

const OUTCOME = ['result', 'attachments'] as const;

/**
 * The transitions that the model or the daemon may make. A person may do more: reopen a step that has ended. A group
 * follows its steps.
 */
const TRANSITIONS: Readonly<Record<StepStatus, readonly StepStatus[]>> = {
  pending: ['running', 'completed', 'failed', 'blocked', 'skipped'],
  running: ['pending', 'completed', 'failed', 'blocked', 'skipped'],
  blocked: ['pending', 'running', 'completed', 'failed', 'skipped'],
  failed: ['pending', 'blocked'],
  completed: [],
  skipped: [],
};

/** Why a step cannot change to that status, with both statuses named; undefined if it can. */
export function whyIllegalTransition({ id, status }: Pick<Step, 'id' | 'status'>, to: StepStatus): string | undefined {
  if (TRANSITIONS[status].includes(to)) return undefined;
  const open = TRANSITIONS[status].length === 0 ? '; only a person can open it again' : '';
  return `${id} is ${status} and cannot become ${to}${open}`;
}

/** A step was about to make an illegal transition: a bug, reported as one. */
export class IllegalTransition extends Error {
  constructor(why: string) {
    super(`Illegal transition: ${why}`);
    this.name = 'IllegalTransition';
  }
}

/** Throws `IllegalTransition` if one of these events, in order, makes an illegal transition of a step of the plan. */
export function assertLegalTransitions(plan: Plan | null, events: readonly EventBody[]): void {
  const statuses = new Map((plan?.steps ?? []).map(({ id, status }) => [id, status]));
  for (const event of events) {
    if (event.type === 'plan.started') statuses.clear();
    for (const step of event.type === 'plan.started' ? (event.steps ?? []) : []) statuses.set(step.id, step.status);
    if (event.type === 'step.added') statuses.set(event.step.id, event.step.status);
    for (const { step, to } of transitionsOf(event)) {
      const status = statuses.get(step);
      if (status === undefined || (plan && isGroup(plan.steps, step))) continue;
      const why = whyIllegalTransition({ id: step, status }, to);
      if (why !== undefined) throw new IllegalTransition(why);
      statuses.set(step, to);
    }
  }
}

function transitionsOf(event: EventBody): Array<{ step: string; to: StepStatus }> {
  switch (event.type) {
    case 'step.started':
      return [{ step: event.step, to: 'running' }];
    case 'step.completed':
      return [{ step: event.step, to: 'completed' }];
    case 'step.failed':
      return [{ step: event.step, to: 'failed' }];
    case 'step.blocked':
      return [{ step: event.step, to: 'blocked' }];
    case 'step.skipped':
      return [{ step: event.step, to: 'skipped' }];
    case 'step.reopened':
      return isFromOutside(event.by) ? [] : [{ step: event.step, to: 'pending' }];
    case 'plan.revised':
      return event.changes.flatMap((it) => (it.what === 'status' ? [{ step: it.step, to: it.to }] : []));
    default:
      return [];
  }
}
