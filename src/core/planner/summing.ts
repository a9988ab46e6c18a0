import type { Rules } from '../../protocol/config.ts';
import type { Counsel } from '../modes/policy.ts';
import { SAYINGS } from '../sayings.ts';
import { activePlan, type Session } from '../session.ts';
import { sessionLanguage } from '../session-language.ts';
import { openSteps, unreached } from '../steps.ts';
import { planSummary } from '../summary.ts';

/** The end of a planned run: once no step is open, the model sums up; where it cannot, the plan itself is the answer. */
export function summing(session: Session, rules: Rules): Counsel | null {
  const { run } = session;
  const plan = activePlan(session);
  if (!run || !plan || plan.steps.length === 0 || session.turn?.blocked || openSteps(plan).length > 0) return null;
  const lost = unreached(plan, session.replaced);
  const said = run.consult?.ask === 'summary' ? run.consult.text.trim() : undefined;
  const gaveUp = run.failure !== null && run.failure.last.retry_at === null;
  if (said === undefined && !gaveUp) return { ask: 'summary' };
  const language = sessionLanguage(session, rules);
  // A rest that failed is told with the plan anyhow.
  const computed = lost.length > 0 ? [] : [planSummary(plan, language)];
  const text = said || [SAYINGS[language].noSummary, ...computed].join('\n\n');
  return lost.length > 0
    ? { rest: { status: 'failed', reason: `not reached: ${lost.join(', ')}`, text } }
    : { rest: { status: 'done', reason: 'completed', text } };
}
