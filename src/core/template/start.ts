import type { EventBody, MessageTemplate } from '../../protocol/event.ts';
import { fullLimits } from '../../protocol/limits.ts';
import type { Step } from '../../protocol/plan.ts';
import { readSteps } from '../../protocol/template/steps.ts';
import { newPlanId } from '../ids.ts';
import type { Session } from '../session.ts';

type Started = Extract<EventBody, { type: 'run.started' }>;

/** The plan a template brings: all its steps, none begun, in one event. */
export function templatePlan(
  session: Session,
  run: Started,
  { name, goal, text }: Extract<MessageTemplate, { text: string }>,
): EventBody[] {
  const read = readSteps(text);
  const steps = ('steps' in read ? read.steps : []).map(
    (step, n): Step => ({ id: `step_${n + 1}`, status: 'pending', ...step }),
  );
  const { iterations, step_iterations } = fullLimits(run.limits);
  return [
    {
      type: 'plan.started',
      id: newPlanId(session),
      goal,
      mode: run.mode,
      limits: { iterations, step_iterations },
      planned_by: `template ${name}`,
      steps,
    },
  ];
}
