import { entryOf } from '../core/keyed.ts';
import type { Session } from '../core/session.ts';
import { stepNamed } from '../core/steps.ts';
import { UserError } from '../protocol/errors.ts';
import type { By, Event, EventOf } from '../protocol/event.ts';
import { own } from '../protocol/own.ts';
import type { CompletedBy, Plan, Step } from '../protocol/plan.ts';
import { type Beat, orderBehind, replay, typed } from './replay.ts';
import { waitsFor } from './why-open.ts';

/** One thing that happened to a step on its way to an end. */
export type Moment = {
  is: 'completed' | 'failed' | 'skipped' | 'blocked' | 'reopened' | 'refused' | 'asked' | 'claimed';
  /** Its number in the record. */
  event: number;
  /** ISO 8601, UTC. */
  at: string;
  by: CompletedBy | By;
  /** What decided it, word for word; may be empty. */
  words: string;
  /** Half a sentence, without a subject. */
  text: string;
};

/** Why a step of the plan is closed, or what it waits for. */
export type StepWhy = {
  id: string;
  /** Its place in the plan, from 1. */
  number: number;
  description: string;
  status: Step['status'];
  /** The answer, in one sentence. */
  text: string;
  /** What closed it; null while it is open. */
  closed: Moment | null;
  /** Everything, in order. */
  moments: Moment[];
};

/** Every step of one plan, in its order; the plan is null where there was none yet. */
export type Why = { plan: Plan | null; steps: StepWhy[] };

/** How a time is written for whoever reads it. */
export type Time = (at: string) => string;

/**
 * Why each step of the plan at hand (where there is none, of the last one) is closed, from the record
 * alone. Pure. `name` is the session's.
 */
export function whySteps(name: string, events: readonly Event[], time: Time): Why {
  const histories = new Map<string, Moment[]>();
  let plan: Plan | null = null;
  let session: Session | undefined;
  for (const beat of replay(name, events)) {
    session = beat.after;
    plan = session.plan ?? plan;
    const id = session.plan?.id ?? '';
    for (const step of touchedBy(beat)) {
      const history = histories.get(`${id}/${step}`) ?? [];
      const moment = momentOf(step, beat, history, time);
      if (moment) histories.set(`${id}/${step}`, [...history, moment]);
    }
  }
  if (!plan || !session) return { plan: null, steps: [] };
  const [last, now] = [plan, session];
  const steps = last.steps.map((step, place) => {
    const moments = histories.get(`${last.id}/${step.id}`) ?? [];
    const closed = moments.findLast((moment) => moment.is === step.status) ?? null;
    const number = place + 1;
    const subject = `${step.id} "${inLine(step.description)}"${step.id === `step_${number}` ? '' : ` (number ${number})`}`;
    const text = `${subject} ${closed?.text ?? waitsFor(now, last, step, moments)}.`;
    return { id: step.id, number, description: step.description, status: step.status, text, closed, moments };
  });
  return { plan: last, steps };
}

/** The step that is meant by its id, number or description. Throws UserError that names the known ones. */
export function whyStep({ plan, steps }: Why, name: string): StepWhy {
  const id = plan ? stepNamed(plan, name)?.id : undefined;
  const found = steps.find((step) => step.id === id);
  if (found) return found;
  const known = steps.map((step) => `${step.id} "${inLine(step.description)}"`).join(', ');
  throw new UserError(`No step ${JSON.stringify(name)}. ${known ? `Known: ${known}.` : 'There is no plan yet.'}`);
}

/** Foreign words as a part of one line. */
const inLine = (words: string): string => words.replace(/\s+/g, ' ').trim();

/** Ids of the steps an event may have a say about. */
function touchedBy({ event, before, after }: Beat): string[] {
  if (event.type === 'plan.edited')
    return event.changes.flatMap((it) => (it.what === 'status' ? [it.step] : it.what === 'added' ? [it.step.id] : []));
  if (event.type === 'run.resumed') {
    const was = before.plan?.id === after.plan?.id ? before.plan : own(before.setAside, after.plan?.id ?? '');
    return (was?.steps ?? [])
      .filter((step) => step.status === 'blocked' || step.status === 'failed')
      .map((step) => step.id);
  }
  return 'step' in event && typeof event.step === 'string' ? [event.step] : [];
}

function momentOf(step: string, beat: Beat, history: readonly Moment[], time: Time): Moment | null {
  const { event, after } = beat;
  const when = `at event ${event.seq} (${time(event.at)})`;
  const moment = (is: Moment['is'], by: Moment['by'], words: string, text: string): Moment => ({
    ...{ is, event: event.seq, at: event.at, by, words },
    text: words.trim() === '' ? text : `${text}: "${inLine(words)}"`,
  });
  switch (event.type) {
    case 'step.completed':
      return moment('completed', event.by, event.evidence, closedBy(event, when, history, passed(step, beat)));
    case 'step.failed':
      return moment('failed', event.by, event.error, `was given up as failed by ${who(event.by)} ${when}`);
    case 'step.skipped':
      return moment('skipped', event.by, event.reason, `was skipped by ${who(event.by)} ${when}`);
    case 'step.blocked':
      return moment('blocked', event.by, event.error, `was said to be blocked by ${who(event.by)} ${when}`);
    case 'step.reopened': {
      const message = event.message === undefined ? undefined : entryOf(after.messages, event.message);
      return moment(
        'reopened',
        event.by,
        message ? typed(message) : '',
        `was opened again by ${who(event.by)} ${when}`,
      );
    }
    case 'step.claimed':
      return event.veto === undefined
        ? moment('claimed', event.tier, event.evidence, `was claimed by ${event.tier} ${when}`)
        : moment('refused', event.tier, event.evidence, refusal(event.tier, event.veto, when));
    case 'step.asked':
      return moment('asked', 'daemon', '', `was asked ${when} whether it is done`);
    case 'run.resumed':
      return after.plan?.steps.find((one) => one.id === step)?.status === 'pending'
        ? moment('reopened', event.by, '', `was opened again ${when}, as ${who(event.by)} had the plan go on`)
        : null;
    case 'plan.edited':
      return edited(step, beat, event, (is, words, verb) =>
        moment(
          is,
          event.by,
          words ?? '',
          `${verb} by ${who(event.by)}${words === null ? ' in plan.json' : ''} ${when}`,
        ),
      );
    default:
      return null;
  }
}

const WHO: Record<By, string> = { person: 'a person', model: 'the model', daemon: 'the daemon' };
const who = (by: By): string => WHO[by];

/** Whether checks were tried for this claim, and all that were said yes. */
function passed(step: string, { before }: Beat): boolean {
  const { claim } = before;
  return claim?.step === step && claim.checks.length > 0 && claim.checks.every((check) => check?.ok === true);
}

function closedBy(event: EventOf<'step.completed'>, when: string, history: readonly Moment[], tried: boolean): string {
  const checked = tried && event.by !== 'person' ? ', its checks passed' : '';
  const several = event.markers === undefined ? '' : `, one of ${event.markers} markers in that answer`;
  switch (event.by) {
    case 'marker':
      return `was closed by marker ${when}${several}${checked}`;
    case 'tool':
      return `was closed by the plan tool ${when}${checked}`;
    case 'transition':
      return `was closed by transition ${when}${event.to ? `, the answer went on to ${event.to}` : ''}${checked}`;
    case 'timeout': {
      const asked = history.findLast((moment) => moment.is === 'asked');
      const question = asked ? `asked at event ${asked.event}, no sign in the answer` : 'no sign for too long';
      return `was assumed done by timeout ${when}, ${question}${checked}`;
    }
    case 'person':
      return `was closed by a person ${when}`;
    case 'child':
      return `was closed ${when}, since its child session had done it${checked}`;
    case 'parts':
      return `was closed ${when}, since all its parts had ended (${event.evidence})`;
    default:
      return event.by satisfies never;
  }
}

function refusal(tier: CompletedBy, veto: string, when: string): string {
  if (veto === 'tool_failed') return `was claimed by ${tier} and refused ${when}, since a tool had just failed`;
  if (veto === 'check_failed') return `was claimed by ${tier} and refused ${when}, since a check failed`;
  return `was said to be ${veto === 'not_done' ? 'not done' : veto} ${when}`;
}

type Status = Step['status'];
const VERBS: Partial<Record<Status, string>> = {
  completed: 'was closed',
  failed: 'was set to failed',
  skipped: 'was skipped',
  blocked: 'was set to blocked',
};

/** A step that was closed or opened again in `plan.json`, or by an order such as `/plan done`; `words` are null for the file. */
function edited(
  step: string,
  beat: Beat,
  event: EventOf<'plan.edited'>,
  moment: (is: Moment['is'], words: string | null, verb: string) => Moment,
): Moment | null {
  const words = orderBehind(event, beat);
  for (const change of event.changes) {
    const isThis =
      (change.what === 'status' && change.step === step) || (change.what === 'added' && change.step.id === step);
    if (!isThis) continue;
    const to = change.what === 'status' ? change.to : change.step.status;
    const verb = VERBS[to];
    if (verb && to !== 'pending' && to !== 'running') return moment(to, words, verb);
    if (change.what === 'status' && VERBS[change.from]) return moment('reopened', words, 'was opened again');
  }
  return null;
}
