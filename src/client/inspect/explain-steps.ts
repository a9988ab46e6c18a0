import { getOwn, mapGet } from '../../base/collections.ts';
import { findStep, runningStep } from '../../core/plan/plan-steps.ts';
import type { Session } from '../../core/session/session-state.ts';
import type { Event, EventOf } from '../../protocol/session/event.ts';
import type { Actor } from '../../protocol/session/log-entry.ts';
import type { CompletedBy, Plan, Step } from '../../protocol/session/plan.ts';
import { RUN_END } from '../../protocol/session/reply.ts';
import { NotInPlan } from '../sessions/client-errors.ts';
import { messageAsTyped, planOrderBehind, type ReplayedEvent, replayEvents } from '../sessions/replay.ts';

/** One event in the history of a step. */
type StepEvent = {
  is: 'completed' | 'failed' | 'skipped' | 'blocked' | 'reopened' | 'refused' | 'asked' | 'claimed';
  /** Its event number, and its time in ISO 8601, UTC. */
  event: number;
  at: string;
  by: CompletedBy | Actor;
  /** The quoted text that decided it, which may be empty, and a clause without a subject. */
  words: string;
  text: string;
};

/** Why a step of the plan is closed, or what it waits for. */
export type StepExplanation = {
  id: string;
  /** Its 1-based position in the plan. */
  number: number;
  description: string;
  status: Step['status'];
  /** The answer, in one sentence. */
  text: string;
  /** What closed it; null if it is open. */
  closed: StepEvent | null;
  /** All events, in order. */
  moments: StepEvent[];
  /** What it changed in `work/`, and the checkpoints around it; null if it has none. */
  work: Session['stepCheckpoints'][string] | null;
};

/** Every step of one plan, in order; the plan is null if there was none yet. */
export type PlanExplanation = { plan: Plan | null; steps: StepExplanation[] };

/** Formats a time for the reader. */
export type FormatTime = (at: string) => string;

/**
 * Why each step of the current plan (else the last one) is closed, from the event log alone. Pure. `name` is the
 * session's.
 */
export function explainSteps(name: string, events: readonly Event[], time: FormatTime): PlanExplanation {
  const histories = new Map<string, StepEvent[]>();
  let plan: Plan | null = null;
  let session: Session | undefined;
  for (const replayed of replayEvents(name, events)) {
    session = replayed.after;
    plan = session.plan ?? plan;
    const id = session.plan?.id ?? '';
    for (const step of stepsTouchedBy(replayed)) {
      const history = histories.get(`${id}/${step}`) ?? [];
      const moment = stepEventOf(step, replayed, history, time);
      if (moment) histories.set(`${id}/${step}`, [...history, moment]);
    }
  }
  if (!plan || !session) return { plan: null, steps: [] };
  const [last, now] = [plan, session];
  const works = now.plan?.id === last.id ? now.stepCheckpoints : getOwn(now.shelvedProgress, last.id)?.stepCheckpoints;
  const steps = last.steps.map((step, place) => {
    const moments = histories.get(`${last.id}/${step.id}`) ?? [];
    const closed = moments.findLast((moment) => moment.is === step.status) ?? null;
    const number = place + 1;
    const subject = `${step.id} "${collapseSpaces(step.description)}"${step.id === `step_${number}` ? '' : ` (number ${number})`}`;
    const text = `${subject} ${closed?.text ?? describeOpenStep(now, last, step, moments)}.`;
    const { id, description, status } = step;
    return { id, number, description, status, text, closed, moments, work: getOwn(works ?? {}, id) ?? null };
  });
  return { plan: last, steps };
}

/** Finds a step by id, number or description. Throws NotInPlan that lists the known ones. */
export function findStepExplanation({ plan, steps }: PlanExplanation, name: string): StepExplanation {
  const id = plan ? findStep(plan, name)?.id : undefined;
  const found = steps.find((step) => step.id === id);
  if (found) return found;
  const known = steps.map((step) => `${step.id} "${collapseSpaces(step.description)}"`).join(', ');
  throw new NotInPlan(`No step ${JSON.stringify(name)}. ${known ? `Known: ${known}.` : 'There is no plan yet.'}`);
}

/** Quoted text as part of one line. */
const collapseSpaces = (words: string): string => words.replace(/\s+/g, ' ').trim();

/** Ids of the steps an event may concern. */
function stepsTouchedBy({ event, before, after }: ReplayedEvent): string[] {
  if (event.type === 'plan.edited')
    return event.changes.flatMap((it) => (it.what === 'status' ? [it.step] : it.what === 'added' ? [it.step.id] : []));
  if (event.type === 'run.resumed') {
    const was = before.plan?.id === after.plan?.id ? before.plan : getOwn(before.shelvedPlans, after.plan?.id ?? '');
    return (was?.steps ?? [])
      .filter((step) => step.status === 'blocked' || step.status === 'failed')
      .map((step) => step.id);
  }
  return 'step' in event && typeof event.step === 'string' ? [event.step] : [];
}

function stepEventOf(
  step: string,
  replayed: ReplayedEvent,
  history: readonly StepEvent[],
  time: FormatTime,
): StepEvent | null {
  const { event, after } = replayed;
  const when = `at event ${event.seq} (${time(event.at)})`;
  const moment = (is: StepEvent['is'], by: StepEvent['by'], words: string, text: string): StepEvent => ({
    ...{ is, event: event.seq, at: event.at, by, words },
    text: words.trim() === '' ? text : `${text}: "${collapseSpaces(words)}"`,
  });
  switch (event.type) {
    case 'step.completed': {
      const tried = passedChecks(step, replayed);
      return moment('completed', event.by, event.evidence, describeClosing(event, when, history, tried));
    }
    case 'step.failed':
      return moment('failed', event.by, event.error, `was given up as failed by ${actorName(event.by)} ${when}`);
    case 'step.skipped':
      return moment('skipped', event.by, event.reason, `was skipped by ${actorName(event.by)} ${when}`);
    case 'step.blocked':
      return moment('blocked', event.by, event.error, `was reported as blocked by ${actorName(event.by)} ${when}`);
    case 'step.reopened': {
      const message = event.message === undefined ? undefined : mapGet(after.messages, event.message);
      return moment(
        'reopened',
        event.by,
        message ? messageAsTyped(message) : '',
        `was reopened by ${actorName(event.by)} ${when}`,
      );
    }
    case 'step.claimed':
      return event.veto === undefined
        ? moment('claimed', event.tier, event.evidence, `was claimed by ${event.tier} ${when}`)
        : moment('refused', event.tier, event.evidence, describeRefusal(event.tier, event.veto, when));
    case 'step.asked':
      return moment('asked', 'daemon', '', `was asked ${when} whether it is done`);
    case 'run.resumed':
      return after.plan?.steps.find((one) => one.id === step)?.status === 'pending'
        ? moment('reopened', event.by, '', `was reopened ${when}, when ${actorName(event.by)} resumed the plan`)
        : null;
    case 'plan.edited':
      return stepEventOfEdit(step, replayed, event, (is, words, verb) =>
        moment(
          is,
          event.by,
          words ?? '',
          `${verb} by ${actorName(event.by)}${words === null ? ' in plan.json' : ''} ${when}`,
        ),
      );
    default:
      return null;
  }
}

const ACTOR_NAMES: Record<Actor, string> = {
  person: 'a person',
  agent: 'another agent',
  model: 'the model',
  daemon: 'the daemon',
};
const actorName = (by: Actor): string => ACTOR_NAMES[by];

/** Whether checks were run for this claim, and all of them passed. */
function passedChecks(step: string, { before }: ReplayedEvent): boolean {
  const { claim } = before;
  return claim?.step === step && claim.checks.length > 0 && claim.checks.every((check) => check?.ok === true);
}

function describeClosing(
  event: EventOf<'step.completed'>,
  when: string,
  history: readonly StepEvent[],
  tried: boolean,
): string {
  const checked = `${tried && event.by !== 'person' ? ', its checks passed' : ''}${describeProof(event)}`;
  const several = event.markers === undefined ? '' : `, one of ${event.markers} markers in that answer`;
  switch (event.by) {
    case 'marker':
      return `was closed by marker ${when}${several}${checked}`;
    case 'tool':
      return `was closed by the plan tool ${when}${checked}`;
    case 'transition':
      return `was closed by transition ${when}${event.next_step ? `, because the answer moved on to ${event.next_step}` : ''}${checked}`;
    case 'timeout': {
      const asked = history.findLast((moment) => moment.is === 'asked');
      const question = asked ? `asked at event ${asked.event}, no signal in the answer` : 'no signal for too long';
      return `was assumed done by timeout ${when}, ${question}${checked}`;
    }
    case 'text':
      return `was closed by its text alone ${when}: no tool call of it succeeded`;
    case 'person':
    case 'agent':
      return `was closed by ${actorName(event.by)} ${when}`;
    case 'child':
      return `was closed ${when} because its child session completed it${checked}`;
    case 'parts':
      return `was closed ${when} because all its parts ended (${event.evidence})`;
    default:
      return event.by satisfies never;
  }
}

const describeProof = ({ proof }: EventOf<'step.completed'>): string =>
  proof === undefined ? '' : proof.length === 0 ? ', unproven' : `; to check: ${proof.join('; ')}`;

function describeRefusal(tier: CompletedBy, veto: string, when: string): string {
  if (veto === 'tool_failed') return `was claimed by ${tier} and rejected ${when} because a tool had just failed`;
  if (veto === 'no_work') return `was claimed by ${tier} and rejected ${when} because no tool was used in it`;
  if (veto === 'moving') return `was not assumed done ${when}`;
  if (veto === 'check_failed') return `was claimed by ${tier} and rejected ${when} because a check failed`;
  return `was reported as ${veto === 'not_done' ? 'not done' : veto} ${when}`;
}

type StatusOfStep = Step['status'];
const STATUS_VERBS: Partial<Record<StatusOfStep, string>> = {
  completed: 'was closed',
  failed: 'was set to failed',
  skipped: 'was skipped',
  blocked: 'was set to blocked',
};

/**
 * A step that was closed or reopened in `plan.json`, or by a command such as `/plan done`; `words` is null for the
 * file.
 */
function stepEventOfEdit(
  step: string,
  replayed: ReplayedEvent,
  event: EventOf<'plan.edited'>,
  moment: (is: StepEvent['is'], words: string | null, verb: string) => StepEvent,
): StepEvent | null {
  const words = planOrderBehind(event, replayed);
  for (const change of event.changes) {
    const isThis =
      (change.what === 'status' && change.step === step) || (change.what === 'added' && change.step.id === step);
    if (!isThis) continue;
    const to = change.what === 'status' ? change.to : change.step.status;
    const verb = STATUS_VERBS[to];
    if (verb && to !== 'pending' && to !== 'running') return moment(to, words, verb);
    if (change.what === 'status' && STATUS_VERBS[change.from]) return moment('reopened', words, 'was reopened');
  }
  return null;
}

/** What an open step waits for: the second half of a sentence about it. `plan` is the last one there was. */
function describeOpenStep(session: Session, plan: Plan, step: Step, moments: readonly StepEvent[]): string {
  if (step.status !== 'pending' && step.status !== 'running')
    return `is ${step.status}; the event log does not say why`;
  if (session.plan?.id !== plan.id)
    return `is open: its plan was shelved (to resume it: continue <session> ${plan.id})`;
  if (plan.status === 'completed' || plan.status === 'failed' || plan.status === 'cancelled')
    return `was open when the plan ended as ${plan.status}${plan.reason ? ` (${plan.reason})` : ''}`;
  return `${describeStanding(session, plan, step, moments)}${describeRunEnd(session)}`;
}

function describeStanding(session: Session, plan: Plan, step: Step, moments: readonly StepEvent[]): string {
  if (session.claim?.step === step.id) return describeClaim(session, step, moments);
  const asked = moments.findLast((moment) => moment.is === 'asked');
  if (session.askedIfDone === step.id && asked) return `${asked.text}; no answer yet`;
  if (step.status === 'running') {
    const count = step.iterations ?? 0;
    return `is the current step (${count} ${count === 1 ? 'iteration' : 'iterations'} so far); ${lastRefusalOr(moments, 'nothing has reported it done yet')}`;
  }
  return describeWaiting(plan, step);
}

/** The outcome of the last claim, if one was rejected since the step was last reopened. */
function lastRefusalOr(moments: readonly StepEvent[], otherwise: string): string {
  const last = moments.findLast((moment) => moment.is === 'refused' || moment.is === 'reopened');
  return last?.is === 'refused' ? `it ${last.text}` : otherwise;
}

function describeClaim({ runEnd }: Session, step: Step, moments: readonly StepEvent[]): string {
  const claim = moments.findLast((moment) => moment.is === 'claimed')?.text ?? 'was claimed';
  const question = (step.done_when ?? []).find((check) => 'person' in check);
  return runEnd?.reason === RUN_END.check && question && 'person' in question
    ? `${claim}; waiting for a person to answer: "${question.person}"`
    : `${claim}; its checks are running`;
}

function describeWaiting(plan: Plan, step: Step): string {
  const unmet = (step.needs ?? []).flatMap((need) => {
    const other = plan.steps.find((one) => one.id === need);
    return other?.status === 'completed' ? [] : [`${need} (${other?.status ?? 'not in the plan'})`];
  });
  if (unmet.length > 0) return `is open and waiting for ${unmet.join(', ')}`;
  const current = runningStep(plan);
  return `is open and waiting its turn${current ? ` behind ${current.id}` : ''}`;
}

function describeRunEnd({ run, runEnd }: Session): string {
  if (run || !runEnd) return '';
  const why = runEnd.reason ? ` (${runEnd.reason})` : '';
  return `; no run is active, the last one ended as ${runEnd.status}${why} at event ${runEnd.seq}`;
}
