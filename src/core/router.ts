import { own } from '../protocol/own.ts';
import type { Session } from './session.ts';

/** Failures in a row of one tool in one step after which the others are named (manus_demo has the same threshold). */
const OFTEN = 2;
/** More names than this are no help. */
const NAMED = 8;

/** How often each tool failed in a row in the step at work, after this call of it. */
export function failing(before: Session['failing'], tool: string, ok: boolean): Session['failing'] {
  if (!ok) return { ...before, [tool]: (own(before, tool) ?? 0) + 1 };
  const { [tool]: _, ...others } = before;
  return others;
}

/** Tools that keep failing in the step at work, each with those that have not: what to use instead. */
export function detours(
  { failing: counts }: Session,
  tools: readonly string[],
): Array<{ tool: string; failures: number; others: string[] }> {
  const often = Object.entries(counts).filter(([, failures]) => failures >= OFTEN);
  const others = tools.filter((name) => !often.some(([tool]) => tool === name)).slice(0, NAMED);
  return others.length === 0 ? [] : often.map(([tool, failures]) => ({ tool, failures, others }));
}
