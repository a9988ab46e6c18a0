import type { Plan } from '../protocol/plan.ts';
import { SPAWN_TOOL } from '../protocol/spawn-call.ts';
import type { Call } from './session.ts';

export const isSpawnCall = (call: Pick<Call, 'name'>): boolean => call.name === SPAWN_TOOL.name;

/** A step that a call asked for is a means: its end is the call's result, and no advance of the step at work. */
export const isSpawned = ({ steps }: Plan, id: string): boolean =>
  steps.some((step) => step.id === id && step.call !== undefined);
