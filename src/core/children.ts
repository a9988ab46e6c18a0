import type { Rules } from '../protocol/config.ts';
import type { EventBody } from '../protocol/event.ts';
import { own } from '../protocol/own.ts';
import type { Step } from '../protocol/plan.ts';
import { clip } from '../protocol/recorded.ts';
import { LOST } from '../protocol/reply.ts';
import { beginning, isAtWork } from './beginning.ts';
import { hasFree, isBusy, share } from './budget.ts';
import { answerTo, type Sent, send, spawnedTogether, tell } from './child-messages.ts';
import { claimOf } from './claim.ts';
import type { Decision, Due } from './decide.ts';
import { haltRank } from './fold-child.ts';
import { POLICIES, policyOf } from './modes/index.ts';
import { limitReached, restEvents } from './rest.ts';
import { activePlan, type Child, type Session } from './session.ts';
import { readSigns } from './signs.ts';
import { unwrapped } from './text/unwrapped.ts';

/**
 * What the steps given to child sessions need next: a reply to be understood, a child to be sent its task, its answer or
 * "continue", more steps to begin, or patience. Null where no step is given away and none is to be.
 */
export function delegation(session: Session, rules: Rules): Decision | null {
  const plan = activePlan(session);
  if (!plan || !session.run) return null;
  const policy = POLICIES[plan.mode];
  const stray = Object.values(session.children).find(
    (child) =>
      child.state === 'working' && !plan.steps.some((step) => step.id === child.step && step.status === 'running'),
  );
  if (stray) return tell(session, stray, { command: 'cancel' });
  const given = plan.steps.filter(
    (step) => isAtWork(plan, step) && (step.call !== undefined || policy.delegates(session, step, rules)),
  );
  const more = () => beginning(session, rules, plan, given);
  // A power cut may have left the beginning of a super-step half on record: as long as nobody works on it, it is completed.
  const isFresh = given.every(({ id }) => (own(session.children, id)?.state ?? 'over') === 'over');
  const together = isFresh && !policy.slides ? more() : [];
  if (together.length > 0) return { do: 'record', events: together };
  const { now, later } = nextOfThese(session, rules, given);
  if (now) return now;
  const joining = policy.slides ? more() : [];
  if (joining.length > 0) return { do: 'record', events: joining };
  if (later || given.length === 0) return later ?? null;
  // Whether others are at work or nobody is: once the budget of the family is spent, the run rests.
  const spent = limitReached(session, rules);
  return spent
    ? { do: 'record', events: restEvents(session, rules, spent) }
    : { do: 'rest', ...overdue(session, given) };
}

/**
 * What is to be done for one of these steps now; else the message that is due next. What people said is passed on before the run
 * rests with another child: their words answer what was asked before.
 */
function nextOfThese(session: Session, rules: Rules, given: readonly Step[]): { now?: Decision; later?: Sent } {
  const among = sharers(session, given);
  const pauses: Sent[] = [];
  const held = given.filter(({ id }) => own(session.children, id)?.state === 'held');
  for (const step of [...held, ...given.filter((one) => !held.includes(one))]) {
    const next = nextOf(session, rules, step, among);
    if (next?.do === 'send' && next.notBefore !== null) pauses.push(next);
    else if (next) return { now: next };
  }
  const [later] = pauses.sort((a, b) => ((a.notBefore ?? '') < (b.notBefore ?? '') ? -1 : 1));
  return later ? { later } : {};
}

/** Steps that what is free is divided among: those nobody works on yet, and those that calls will ask for. */
function sharers(session: Session, given: readonly Step[]): number {
  const idle = given.filter((step) => !isBusy(own(session.children, step.id)));
  const spawning = idle.some((step) => step.call !== undefined) ? spawnedTogether(session) - given.length : 0;
  return idle.length + Math.max(0, spawning);
}

function nextOf(session: Session, rules: Rules, step: Step, among: number): Decision | null {
  const child = own(session.children, step.id);
  if (!child || child.state === 'over')
    return hasFree(session, rules) ? send(session, rules, step, { child, among }) : null;
  return isBusy(child) ? null : answered(session, rules, step, { child, among });
}

const MINUTE_MS = 60_000;

/** When the first of these steps will have taken too long, and what is on record then: it alone has failed. */
function overdue({ run, children }: Session, given: readonly Step[]): { due?: Due } {
  const minutes = run?.limits.step_minutes ?? null;
  if (minutes === null) return {};
  const [first] = given
    .flatMap(({ id }) => {
      const child = own(children, id);
      return child?.state === 'working' && child.since !== undefined ? [{ id, since: Date.parse(child.since) }] : [];
    })
    .sort((a, b) => a.since - b.since);
  if (!first) return {};
  const error = `timed out: it took longer than limits.step_minutes (${minutes}), which is ${Math.round(minutes * 60)} s`;
  const at = new Date(first.since + minutes * MINUTE_MS).toISOString();
  return { due: { at, events: [{ type: 'step.failed', step: first.id, error, by: 'daemon' }] } };
}

type Asked = { child: Child; among: number };

/** A child's reply, understood: its step is done or failed, is tried again, goes on, or asks the person. */
function answered(session: Session, rules: Rules, step: Step, { child, among }: Asked): Decision | null {
  const { reply } = child;
  if (!reply) return null;
  // What its session lost, with its folder or its record, it is given anew.
  if (child.told && reply.reason === LOST)
    return hasFree(session, rules) ? send(session, rules, step, { child, among }) : null;
  switch (reply.status) {
    case 'done': {
      const given = givenUp(step, reply.text);
      if (given?.type === 'step.failed') return again(session, rules, step, { child, among, end: given });
      return { do: 'record', events: [given ?? completion(step, child)] };
    }
    case 'waiting':
      return child.state === 'held' ? goesOn(session, rules, { child, among }) : rest(session, rules, 'waiting');
    case 'paused':
      return child.state === 'held' || reply.reason === 'limit'
        ? goesOn(session, rules, { child, among })
        : rest(session, rules, 'paused');
    default:
      // Whoever says "continue" wants what ended meanwhile to be tried again.
      return child.state === 'held'
        ? goesOn(session, rules, { child, among })
        : again(session, rules, step, { child, among });
  }
}

/** A child goes on where it rested, with what people said to it; without a budget it waits for one. */
function goesOn(session: Session, rules: Rules, { child, among }: Asked): Decision | null {
  return hasFree(session, rules) ? answerTo(session, child, share(session, rules, among)) : null;
}

type Ended = Asked & { end?: EventBody };

/** The next try of a step whose child failed; its end where it was cancelled or has had them all. Without a budget it waits for one. */
function again(session: Session, rules: Rules, step: Step, { child, among, end }: Ended): Decision | null {
  const { attempts, pauseS } = policyOf(session);
  const tries = child.attempt - child.before;
  if (child.reply?.status === 'cancelled' || tries >= attempts) {
    const error = clip(`${child.child}: ${child.reply?.text ?? ''}`, 400);
    return { do: 'record', events: [end ?? { type: 'step.failed', step: step.id, by: 'daemon', error }] };
  }
  if (!hasFree(session, rules)) return null;
  const notBefore = pauseS === undefined ? null : new Date(Date.parse(child.at) + tries * pauseS * 1000).toISOString();
  return send(session, rules, step, { child, among, notBefore });
}

/** A child whose run had no steps of its own may still say that this one cannot be done, or what it lacks. */
function givenUp(step: Step, text: string): EventBody | undefined {
  const sign = readSigns(unwrapped(text)).find((one) => one.kind === 'failed' || one.kind === 'blocked');
  if (sign?.kind !== 'failed' && sign?.kind !== 'blocked') return undefined;
  const type = sign.kind === 'failed' ? 'step.failed' : 'step.blocked';
  return { type, step: step.id, error: clip(sign.reason, 400), by: 'model' };
}

function completion(step: Step, { child, reply }: Child): EventBody {
  return claimOf(step, {
    tier: 'child',
    evidence: `${child} answered`,
    result: clip(reply?.text.trim() ?? '', 2000),
    attachments: [...(reply?.attachments ?? [])],
  });
}

/** All that have stopped in that way by now are told of at once: what is said next is for each of them. */
function rest(session: Session, rules: Rules, status: 'waiting' | 'paused'): Decision {
  const others = Object.values(session.children).filter((it) => it.state === 'replied' && it.reply?.status === status);
  const text = others.map(({ child, reply }) => `${child}: ${reply?.text ?? ''}`).join('\n\n');
  const why = { status, reason: status === 'waiting' ? 'question' : 'child', text };
  return { do: 'record', events: restEvents(session, rules, why) };
}

/**
 * A run at rest does not leave children at work: they are told to pause, stop or end as it did. One that was told less is told again.
 */
export function halting(session: Session): Decision | null {
  const { rest: at, plan } = session;
  if (session.run || !at || at.status === 'waiting' || !plan) return null;
  const command = at.status !== 'paused' ? 'cancel' : at.reason === 'stopped' ? 'stop' : 'pause';
  const child = Object.values(session.children).find((one) => isBusy(one) && haltRank(one.halted) < haltRank(command));
  return child ? tell(session, child, { command }) : null;
}
