import { errorText } from '../../base/user-error.ts';
import { parseEditedPlan } from '../../core/plan/edited-plan.ts';
import type { Session } from '../../core/session/session-state.ts';
import type { Step } from '../../protocol/session/plan.ts';
import { readPlanContent } from '../../store/plan/plan-content.ts';

/** Why the current `plan.json` cannot be read, with line and column; null if it can, or does not exist. */
export function planFileProblem(path: string, current?: readonly Step[]): string | null {
  let text: string | undefined;
  try {
    text = readPlanContent(path, undefined, 0)?.text;
  } catch (error) {
    return errorText(error);
  }
  if (text === undefined) return null;
  const read = parseEditedPlan(text, current);
  return 'fault' in read ? read.fault : null;
}

/** Why the current `plan.json` cannot be read, or what of the last save was not accepted. */
export const planProblemOf = (path: string, session: Session): string | null =>
  planFileProblem(path, session.plan?.steps) ?? session.planProblem;
