import type { Session } from '../core/session.ts';
import { runningStep } from '../core/session.ts';
import type { Plan, Step } from '../protocol/plan.ts';
import type { Moment } from './why.ts';

/** What a step that is not closed waits for: the second half of a sentence about it. `plan` is the last one there was. */
export function waitsFor(session: Session, plan: Plan, step: Step, moments: readonly Moment[]): string {
  if (step.status !== 'pending' && step.status !== 'running') return `is ${step.status}; the record does not say why`;
  if (session.plan?.id !== plan.id)
    return `is open: its plan was put away (to take it up again: continue <session> ${plan.id})`;
  if (plan.status === 'completed' || plan.status === 'failed' || plan.status === 'cancelled')
    return `was open when the plan ended as ${plan.status}${plan.reason ? ` (${plan.reason})` : ''}`;
  return `${standsAt(session, plan, step, moments)}${restOf(session)}`;
}

function standsAt(session: Session, plan: Plan, step: Step, moments: readonly Moment[]): string {
  if (session.claim?.step === step.id) return claimed(session, step, moments);
  const asked = moments.findLast((moment) => moment.is === 'asked');
  if (session.asked === step.id && asked) return `${asked.text}; there is no answer yet`;
  if (step.status === 'running') {
    const count = step.iterations ?? 0;
    return `is the current step (${count} ${count === 1 ? 'iteration' : 'iterations'} so far); ${refusedOr(moments, 'nothing has said yet that it is done')}`;
  }
  return waitsItsTurn(plan, step);
}

/** What came of the last claim, where one was not believed since the step was opened last. */
function refusedOr(moments: readonly Moment[], otherwise: string): string {
  const last = moments.findLast((moment) => moment.is === 'refused' || moment.is === 'reopened');
  return last?.is === 'refused' ? `it ${last.text}` : otherwise;
}

function claimed({ rest }: Session, step: Step, moments: readonly Moment[]): string {
  const claim = moments.findLast((moment) => moment.is === 'claimed')?.text ?? 'was claimed';
  const question = (step.done_when ?? []).find((check) => 'person' in check);
  return rest?.reason === 'check' && question && 'person' in question
    ? `${claim}; it waits for a person to answer: "${question.person}"`
    : `${claim}; its checks are being tried`;
}

function waitsItsTurn(plan: Plan, step: Step): string {
  const unmet = (step.needs ?? []).flatMap((need) => {
    const other = plan.steps.find((one) => one.id === need);
    return other?.status === 'completed' ? [] : [`${need} (${other?.status ?? 'not in the plan'})`];
  });
  if (unmet.length > 0) return `is open and waits for ${unmet.join(', ')}`;
  const current = runningStep(plan);
  return `is open and waits its turn${current ? ` behind ${current.id}` : ''}`;
}

function restOf({ run, rest }: Session): string {
  if (run || !rest) return '';
  const why = rest.reason ? ` (${rest.reason})` : '';
  return `; no run is on, the last one ended as ${rest.status}${why} at event ${rest.seq}`;
}
