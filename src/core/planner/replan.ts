import { PLAN_TOOL } from '../../protocol/plan-call.ts';
import type { Call, Session } from '../session.ts';

/** Calls of the answer at hand that asked for a new plan, and were told that it comes. */
export function replanCalls({ turn }: Session): Call[] {
  return (turn?.calls ?? []).filter((call) => call.name === PLAN_TOOL.name && call.ok && wants(call.args) !== null);
}

/** Why the model wants what is open planned anew; null where it does not, or where that was done. */
export function wantedAnew(session: Session): string | null {
  const call = replanCalls(session).find((one) => !session.revisedFor.includes(one.key));
  return call ? `asked for: ${wants(call.args)}` : null;
}

function wants(args: string): string | null {
  try {
    const call: unknown = JSON.parse(args);
    if (typeof call !== 'object' || call === null || !('command' in call) || call.command !== 'replan') return null;
    return 'reason' in call && typeof call.reason === 'string' ? call.reason : '';
  } catch {
    return null;
  }
}
