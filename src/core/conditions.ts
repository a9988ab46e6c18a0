import type { Step, When } from '../protocol/plan.ts';
import { says } from './text/says.ts';

/** Whether what a `when` asks for can be said by now: the step it is about has ended, or is blocked and that is asked. */
export function isDecided({ status: asked }: When, { status }: Step): boolean {
  return status === 'blocked' ? asked === 'blocked' : status !== 'pending' && status !== 'running';
}

/** Whether a `when` holds for the step it is about. A failed step's error is what it came to. */
export function holds({ status, result, exit, not = false }: When, other: Step): boolean {
  const outcome = other.result ?? (other.status === 'failed' ? other.error : undefined) ?? '';
  const all =
    (status === undefined || other.status === status) &&
    (result === undefined || says(outcome, result)) &&
    (exit === undefined || other.exit === exit);
  return all !== not;
}

/** A condition as a person reads it: `check says "error"`. */
export function inWords({ step, status, result, exit, not = false }: When): string {
  const facts = [
    ...(status === undefined ? [] : [`is ${status}`]),
    ...(result === undefined ? [] : [`says "${result}"`]),
    ...(exit === undefined ? [] : [`ended with exit ${exit}`]),
  ];
  return `${not ? 'not ' : ''}${step} ${facts.join(' and ') || 'has ended'}`;
}
