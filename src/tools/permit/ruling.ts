import type { Permit } from '../../engine/ports.ts';
import type { ApprovalsMode, Permissions, Touch } from '../../protocol/permissions.ts';
import type { Told } from '../define.ts';
import { ruleFor } from './rules.ts';

export type Ruling = Permit;

const WHY: Record<Touch, string> = {
  work: 'it changes something, and `approvals` is "safe"',
  network: 'it reaches the network',
  outside: 'it runs outside of the sandbox',
};

/** Whether a call may run: the first rule that speaks of it decides, else `approvals`. */
export function ruling(told: Told, permissions: Permissions): Ruling {
  const rule = ruleFor(permissions, told);
  if (rule?.word === 'allow') return { is: 'allow' };
  if (rule?.word === 'deny')
    return { is: 'deny', why: `a rule of the settings denies it: { "deny": "${rule.pattern}" }` };
  const why = rule ? `a rule says so: { "ask": "${rule.pattern}" }` : unasked(told, permissions.mode);
  if (why === null) return { is: 'allow' };
  return { is: 'ask', why, rule: rule !== null, shows: told.shows, always: told.always };
}

/** Why a call that no rule speaks of is asked about; null where it is not. */
function unasked({ touches, granted = [], unheld }: Told, mode: ApprovalsMode): string | null {
  if (unheld !== undefined) return unheld;
  if (mode === 'auto') return null;
  const open = mode === 'safe' ? touches : touches.filter((touch) => touch !== 'work' && !granted.includes(touch));
  const first = (['outside', 'network', 'work'] as const).find((touch) => open.includes(touch));
  return first === undefined ? null : WHY[first];
}
