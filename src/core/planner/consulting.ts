import type { Rules } from '../../protocol/config.ts';
import type { EventBody } from '../../protocol/event.ts';
import type { Step } from '../../protocol/plan.ts';
import { spokenText } from '../commands.ts';
import { newPlanId } from '../ids.ts';
import { entryOf } from '../keyed.ts';
import type { Counsel } from '../modes/policy.ts';
import { activePlan, type Session } from '../session.ts';
import { sessionLanguage } from '../session-language.ts';
import { fallbackSteps } from './fallback.ts';
import { readProposal } from './proposal.ts';

/** Tries a planner has before the daemon goes on without it. */
export const PLANNER_TRIES = 3;

/**
 * The plan a run begins with: asked of the model, tried again where its answer cannot be read, and made of three plain steps
 * where it never can; the reason stays in the plan. Null once there is a plan.
 */
export function planFirst(session: Session, rules: Rules): Counsel | null {
  const { run } = session;
  if (!run || activePlan(session)) return null;
  if (run.consult?.ask !== 'plan') return { ask: 'plan' };
  const read = readProposal(run.consult.text, { agents: rules.agents });
  if (read.is === 'answer') return { rest: { status: 'done', reason: 'answered', text: read.text } };
  if (read.is === 'plan') return { record: planEvents(session, { ...read, by: 'planner' }) };
  if (run.consult.tries < PLANNER_TRIES) return { ask: 'plan' };
  const steps = fallbackSteps(sessionLanguage(session, rules));
  return { record: planEvents(session, { title: undefined, steps, by: `fallback: ${read.why}` }) };
}

/** A plan and its steps, as one piece of the record. */
export function planEvents(
  session: Session,
  { title, steps, by }: { title: string | undefined; steps: Step[]; by: string },
): EventBody[] {
  const { run } = session;
  if (!run) return [];
  const goal = spokenText(entryOf(session.messages, run.message) ?? { text: '' }).trim();
  const limits = { iterations: run.limits.iterations, step_iterations: run.limits.step_iterations };
  return [
    {
      type: 'plan.started',
      id: newPlanId(session),
      goal,
      mode: run.mode,
      limits,
      title: title ?? shortTitle(goal),
      planned_by: by,
    },
    ...steps.map((step): EventBody => ({ type: 'step.added', by: 'model', step })),
  ];
}

const TITLE = 50;

/** The first line of a goal, cut at the last word within 50 characters. */
export function shortTitle(goal: string): string {
  const [line = ''] = goal.trim().split('\n');
  const points = [...line];
  if (points.length <= TITLE) return line;
  const head = points.slice(0, TITLE).join('');
  const word = head.lastIndexOf(' ');
  return `${word > TITLE / 2 ? head.slice(0, word) : head}…`;
}

/**
 * A new plan for what is still open, after a step failed that no revision knows of yet. Null where nothing is to be revised;
 * gives up, and lets the run end on its steps, after `most` revisions or where the planner cannot be read.
 */
export function revision(session: Session, rules: Rules, most: number): Counsel | null {
  const { run } = session;
  const plan = activePlan(session);
  if (!run || !plan || session.revisions >= most) return null;
  const failed = plan.steps.filter((step) => step.status === 'failed' && !session.revisedFor.includes(step.id));
  if (failed.length === 0) return null;
  const reason = `${failed.map((step) => step.id).join(', ')} failed`;
  if (run.consult?.ask !== 'replan') return { ask: 'replan' };
  const open = plan.steps.filter((step) => step.status === 'pending');
  const kept = plan.steps.filter((step) => step.status !== 'pending');
  const read = readProposal(run.consult.text, { agents: rules.agents, steps: kept, stepNo: session.stepNo });
  if (read.is === 'fault' && run.consult.tries < PLANNER_TRIES) return { ask: 'replan' };
  const removed = open.map((step) => ({ what: 'removed' as const, step: step.id, description: step.description }));
  const steps = read.is === 'plan' ? read.steps : [];
  const added = steps.map((step, n) => ({ what: 'added' as const, step, at: kept.length + n }));
  const changes = read.is === 'fault' ? [] : [...removed, ...added];
  return {
    record: [
      { type: 'plan.revised', reason: read.is === 'fault' ? `${reason}; no new plan: ${read.why}` : reason, changes },
    ],
  };
}
