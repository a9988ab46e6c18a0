import type { Rules } from '../../protocol/config.ts';
import type { Plan } from '../../protocol/plan.ts';
import type { Counsel } from '../modes/policy.ts';
import { activePlan, type Session } from '../session.ts';
import { isGroup, structureOf } from '../structure.ts';
import { type Adapted, readAdaptation } from './adaptation.ts';
import { PLANNED } from './consulting.ts';

/**
 * Between super-steps: whether what is still open should be different, now that this is known. Asked after the first super-step,
 * which is where facts come in, and after each one in which something came out otherwise than planned, at most `most` times in a
 * plan. Null where there is nothing to ask.
 */
export function adapting(session: Session, rules: Rules, most: number): Counsel | null {
  const { run } = session;
  const plan = activePlan(session);
  if (!run || !plan || session.revisions >= most || !isBetween(plan) || !isNews(plan, session)) return null;
  const read = adaptationIn(session, rules);
  if (!read || (read.is === 'fault' && (run.consult?.tries ?? 0) < PLANNED.tries)) return { ask: 'adapt' };
  const reason = read.is === 'fault' ? `no change: ${read.why}` : read.reason;
  return { record: [{ type: 'plan.revised', reason, changes: read.is === 'changed' ? read.changes : [] }] };
}

/** What the planner last answered to this question; undefined where it was not asked. */
export function adaptationIn({ run, plan, theirs, stepNo }: Session, { agents }: Rules): Adapted | undefined {
  return plan && run?.consult?.ask === 'adapt'
    ? readAdaptation(run.consult.text, plan, { agents, theirs, stepNo })
    : undefined;
}

/** Something was done, something is left that has not begun, and nothing runs. */
function isBetween({ steps }: Plan): boolean {
  const worked = steps.filter((step) => !isGroup(steps, step.id));
  return (
    worked.some((step) => step.status === 'completed') &&
    worked.some((step) => step.status === 'pending') &&
    !worked.some((step) => step.status === 'running')
  );
}

/** The first look; or a step that failed or was left out since the last one. A rollback that was not needed is no news. */
function isNews({ steps }: Plan, { revisions, weighed }: Session): boolean {
  const { undoes } = structureOf(steps);
  const turned = steps.filter((step) => step.status === 'failed' || step.status === 'skipped');
  return revisions === 0 || turned.some(({ id }) => !weighed.includes(id) && !undoes.has(id));
}
