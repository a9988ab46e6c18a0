import type { Rules } from '../../protocol/config.ts';
import type { Consult, EventBody } from '../../protocol/event.ts';
import type { Plan, Step } from '../../protocol/plan.ts';
import { spokenText } from '../commands.ts';
import { newPlanId } from '../ids.ts';
import { entryOf } from '../keyed.ts';
import type { Beginning, Counsel } from '../modes/policy.ts';
import { aside } from '../respond.ts';
import { activePlan, type Session } from '../session.ts';
import { sessionLanguage } from '../session-language.ts';
import { fallbackSteps } from './fallback.ts';
import { firstOf, MOST_STEPS, type Read, readProposal } from './proposal.ts';
import { wantedAnew } from './replan.ts';

/** Three tries and up to 50 steps; else three plain steps (JManus tries as often, OpenManus falls back on the like). */
export const PLANNED: Beginning = { tries: 3, first: MOST_STEPS, fallback: (language) => fallbackSteps(language) };

/**
 * What the planner's last answer comes to. One reading serves the decision and the words that tell the planner what was wrong,
 * so that it is told of every fault that counts.
 */
export function readConsult(session: Session, rules: Rules, ask: Consult, begins: Beginning = PLANNED): Read | null {
  const { run, stepNo } = session;
  if (run?.consult?.ask !== ask || ask === 'summary' || ask === 'choose') return null;
  const { text } = run.consult;
  if (ask === 'plan') return readProposal(text, { agents: rules.agents, most: begins.first });
  const plan = activePlan(session);
  return readProposal(text, { agents: rules.agents, steps: plan ? keptSteps(plan) : [], stepNo });
}

/** Steps that no new plan takes away: all that are not waiting for their turn. */
const keptSteps = (plan: Plan): Step[] => plan.steps.filter((step) => step.status !== 'pending');

type Made = { title: string | undefined; steps: Step[]; by: string };

/**
 * The plan a run begins with: asked of the model, tried again where its answer cannot be read, and made of plain steps where it
 * never can; the reason stays in the plan. One that is only too long is cut at the last try, and says so. Null once there is a
 * plan.
 */
export function planFirst(session: Session, rules: Rules, begins: Beginning = PLANNED): Counsel | null {
  if (!session.run || activePlan(session)) return null;
  const made = madeBy(session, rules, begins);
  return 'steps' in made ? { record: planEvents(session, made) } : made;
}

/** The plan that the planner's answers come to, or what is to be done about them. */
function madeBy(session: Session, rules: Rules, begins: Beginning): Made | Counsel {
  const consult = session.run?.consult;
  const read = readConsult(session, rules, 'plan', begins);
  if (!read || !consult) return { ask: 'plan' };
  if (read.is === 'answer') return { rest: { status: 'done', reason: 'answered', text: read.text } };
  if (read.is === 'plan') return { title: read.title, steps: read.steps, by: 'planner' };
  if (consult.tries < begins.tries) return { ask: 'plan' };
  const whole = readProposal(consult.text, { agents: rules.agents });
  if (whole.is === 'plan') {
    const by = `planner; the first ${begins.first} of ${whole.steps.length} steps`;
    return { title: whole.title, steps: firstOf(whole.steps, begins.first), by };
  }
  const steps = begins.fallback(sessionLanguage(session, rules), goalOf(session));
  return { title: undefined, steps, by: `fallback: ${read.why}` };
}

/** What the person asked for, as typed. */
function goalOf({ run, messages }: Session): string {
  return spokenText(entryOf(messages, run?.message ?? '') ?? { text: '' }).trim();
}

/** A plan with its steps, in one event: half a plan must not be left by a power cut. */
function planEvents(session: Session, { title, steps, by }: Made): EventBody[] {
  const { run } = session;
  if (!run) return [];
  const goal = goalOf(session);
  const limits = { iterations: run.limits.iterations, step_iterations: run.limits.step_iterations };
  return [
    ...(run.beside ? [aside(run.beside)] : []),
    {
      type: 'plan.started',
      id: newPlanId(session),
      goal,
      mode: run.mode,
      limits,
      title: title ?? shortTitle(goal),
      planned_by: by,
      steps,
    },
  ];
}

const TITLE = 50;

/** The first line of a goal, cut at the end of a word within 50 characters. */
export function shortTitle(goal: string): string {
  const [line = ''] = goal.trim().split('\n');
  const points = [...line];
  if (points.length <= TITLE) return line;
  const head = points.slice(0, TITLE).join('');
  const word = points[TITLE] === ' ' ? head.length : head.lastIndexOf(' ');
  return `${word > TITLE / 2 ? head.slice(0, word) : head}…`;
}

/**
 * A new plan for what is still open, after a step failed that no revision knows of yet, or where the model asked for one. Null
 * where nothing is to be revised; gives up, and lets the run end on its steps, after `most` revisions or where the planner cannot
 * be read.
 */
export function revision(session: Session, rules: Rules, most: number): Counsel | null {
  const { run } = session;
  const plan = activePlan(session);
  if (!run || !plan || session.revisions >= most) return null;
  const failed = plan.steps.filter((step) => step.status === 'failed' && !session.revisedFor.includes(step.id));
  const wanted = wantedAnew(session);
  if (failed.length === 0 && wanted === null) return null;
  const reason = failed.length > 0 ? `${failed.map((step) => step.id).join(', ')} failed` : (wanted ?? '');
  const read = readConsult(session, rules, 'replan');
  if (!read || !run.consult) return { ask: 'replan' };
  if (read.is === 'fault' && run.consult.tries < PLANNED.tries) return { ask: 'replan' };
  if (read.is === 'fault')
    return { record: [{ type: 'plan.revised', reason: `${reason}; no new plan: ${read.why}`, changes: [] }] };
  return { record: [{ type: 'plan.revised', reason, changes: changesTo(plan, read.is === 'plan' ? read.steps : []) }] };
}

function changesTo(plan: Plan, steps: readonly Step[]): Extract<EventBody, { type: 'plan.revised' }>['changes'] {
  const open = plan.steps.filter((step) => step.status === 'pending');
  const removed = open.map((step) => ({ what: 'removed' as const, step: step.id, description: step.description }));
  const at = keptSteps(plan).length;
  return [...removed, ...steps.map((step, n) => ({ what: 'added' as const, step, at: at + n }))];
}
