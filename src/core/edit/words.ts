import type { PlanChange } from '../../protocol/event.ts';

/** A hand edit as the model is told it: one sentence a change. */
export function changesInWords(changes: readonly PlanChange[]): string[] {
  return changes.map((change) => {
    switch (change.what) {
      case 'goal':
        return `the goal is now: ${change.to}`;
      case 'limits':
        return `the limits are now ${change.to.iterations} iterations, ${change.to.step_iterations} in a step`;
      case 'added':
        return `${change.step.id} was added: ${change.step.description}`;
      case 'removed':
        return `${change.step} was removed: ${change.description}`;
      case 'order':
        return `the order is now ${change.to.join(', ')}`;
      case 'status':
        return `${change.step} was set from ${change.from} to ${change.to}`;
      case 'step':
        return `${change.step} was changed: ${[...Object.entries(change.set).map(([key, value]) => `${key} = ${typeof value === 'string' ? value : JSON.stringify(value)}`), ...change.unset.map((key) => `${key} removed`)].join('; ')}`;
      default:
        return change satisfies never;
    }
  });
}
