import type { EventOf } from '../protocol/event.ts';
import type { Plan, Step } from '../protocol/plan.ts';
import { bare } from './revived.ts';
import { without } from './steps.ts';

export type GroupEvent = EventOf<'step.started' | 'step.completed' | 'step.failed' | 'step.skipped' | 'step.reopened'>;

export const isGroupEvent = (event: { type: string }): event is GroupEvent => MOVES.has(event.type);
const MOVES = new Set(['step.started', 'step.completed', 'step.failed', 'step.skipped', 'step.reopened']);

/** A group begins and ends with its parts; nothing that is at hand ends with it. */
export function groupAfter(group: Plan['steps'][number], event: GroupEvent): Step {
  switch (event.type) {
    case 'step.started':
      return { ...without(group, 'error'), status: 'running', started_at: group.started_at ?? event.at };
    case 'step.completed': {
      const { result, by, evidence, at } = event;
      const done = { status: 'completed' as const, completed_by: by, evidence, completed_at: at };
      return { ...without(group, 'error'), ...done, ...(result !== '' && { result }) };
    }
    case 'step.failed':
      return { ...group, status: 'failed', error: event.error, completed_at: event.at };
    case 'step.skipped':
      return { ...group, status: 'skipped', error: event.reason, completed_at: event.at };
    case 'step.reopened':
      return { ...bare(group), status: 'running' };
    default:
      return event satisfies never;
  }
}
