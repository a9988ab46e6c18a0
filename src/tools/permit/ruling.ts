import type { Permit } from '../../engine/ports.ts';
import { type ApprovalsMode, literal, type Permissions, type Touch } from '../../protocol/permissions.ts';
import type { Told } from '../define.ts';
import { type Folders, namesOfPath } from './path.ts';
import { ruleFor, type Subject } from './rules.ts';

export type Ruling = Permit;

const WHY: Record<Touch, string> = {
  work: 'it changes something, and `approvals` is "safe"',
  network: 'it reaches the network',
  outside: 'it runs outside of the sandbox',
};

/** Whether a call may run, with all it does: what is denied wins over what is asked about, and that over what is allowed. */
export function ruling(told: Told, permissions: Permissions, folders: Folders): Ruling {
  const { also = [] } = told;
  const all = [told, ...also].map((one) => rulingOf(one, permissions, folders));
  const first = all.find(({ is }) => is === 'deny') ?? all.find((one) => one.is === 'ask' && one.rule);
  const found = first ?? all.find(({ is }) => is === 'ask');
  if (!found) return { is: 'allow' };
  // Whatever is asked about, a person sees the whole call.
  return found.is === 'ask' ? { ...found, shows: told.shows } : found;
}

/** The first rule that speaks of it decides, else `approvals`. */
function rulingOf(told: Told, permissions: Permissions, folders: Folders): Ruling {
  const subject = subjectOf(told, folders);
  const rule = ruleFor(permissions, subject);
  if (rule?.word === 'allow') return { is: 'allow' };
  if (rule?.word === 'deny')
    return { is: 'deny', why: `a rule of the settings denies it: { "deny": "${rule.pattern}" }` };
  const why = rule ? `a rule says so: { "ask": "${rule.pattern}" }` : unasked(told, permissions.mode);
  if (why === null) return { is: 'allow' };
  const always = subject.kind === 'path' ? ofPath(subject) : told.always;
  return { is: 'ask', why, rule: rule !== null, shows: told.shows, always };
}

/** The rule for a file by its one true name. */
function ofPath({ tool, text, names }: Subject & { kind: 'path' }): string {
  return `${tool}(${literal(names(text).real[0] ?? text)})`;
}

function subjectOf({ tool, text, kind, access }: Told, folders: Folders): Subject {
  return kind === 'path'
    ? { tool, text, kind, access, names: (path) => namesOfPath(path, folders) }
    : { tool, text, kind };
}

/** Why a call that no rule speaks of is asked about; null where it is not. */
function unasked({ touches, granted = [], unheld }: Told, mode: ApprovalsMode): string | null {
  if (unheld !== undefined) return unheld;
  if (mode === 'auto') return null;
  const open = mode === 'safe' ? touches : touches.filter((touch) => touch !== 'work' && !granted.includes(touch));
  const first = (['outside', 'network', 'work'] as const).find((touch) => open.includes(touch));
  return first === undefined ? null : WHY[first];
}
