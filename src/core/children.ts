import type { Rules } from '../protocol/config.ts';
import type { EventBody } from '../protocol/event.ts';
import type { MessageFile } from '../protocol/message.ts';
import { sessionFolder } from '../protocol/names.ts';
import type { Step } from '../protocol/plan.ts';
import { clip } from '../protocol/recorded.ts';
import { beginning, isAtWork } from './beginning.ts';
import { free, isBusy, share } from './budget.ts';
import { childName } from './child-name.ts';
import { claimOf } from './claim.ts';
import type { Decision, Due } from './decide.ts';
import { generationOf } from './fold-child.ts';
import { entryOf } from './keyed.ts';
import { POLICIES, policyOf } from './modes/index.ts';
import { wholeOf } from './parts/family.ts';
import { executorOf } from './planner/agents.ts';
import { taskText } from './prompt/task.ts';
import { restEvents } from './rest.ts';
import { activePlan, type Child, type Session } from './session.ts';
import { sessionLanguage } from './session-language.ts';
import { readSigns } from './signs.ts';
import { isSpawnCall } from './spawn-step.ts';
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
  const isFresh = given.every(({ id }) => (session.children[id]?.state ?? 'over') === 'over');
  const together = isFresh && !policy.slides ? more() : [];
  if (together.length > 0) return { do: 'record', events: together };
  const { now, later } = nextOfThese(session, rules, given);
  if (now) return now;
  const joining = policy.slides ? more() : [];
  if (joining.length > 0) return { do: 'record', events: joining };
  return later ?? (given.length > 0 ? { do: 'rest', ...overdue(session, given) } : null);
}

type Sent = Decision & { do: 'send' };

/** What is to be done for one of these steps now; else the message that is due next. */
function nextOfThese(session: Session, rules: Rules, given: readonly Step[]): { now?: Decision; later?: Sent } {
  const among = sharers(session, given);
  const pauses: Sent[] = [];
  for (const step of given) {
    const next = nextOf(session, rules, step, among);
    if (next?.do === 'send' && next.notBefore !== null) pauses.push(next);
    else if (next) return { now: next };
  }
  const [later] = pauses.sort((a, b) => ((a.notBefore ?? '') < (b.notBefore ?? '') ? -1 : 1));
  return later ? { later } : {};
}

/** Steps that what is free is divided among: those nobody works on yet, and those that calls will ask for. */
function sharers(session: Session, given: readonly Step[]): number {
  const idle = given.filter((step) => !isBusy(session.children[step.id]));
  const spawning = idle.some((step) => step.call !== undefined) ? spawnedTogether(session) - given.length : 0;
  return idle.length + Math.max(0, spawning);
}

function nextOf(session: Session, rules: Rules, step: Step, among: number): Decision | null {
  const child = session.children[step.id];
  if (!child || child.state === 'over') return send(session, rules, step, { child, among });
  return isBusy(child) ? null : answered(session, rules, step, { child, among });
}

const MINUTE_MS = 60_000;

/** When the first of these steps will have taken too long, and what is on record then: it alone has failed. */
function overdue({ run, children }: Session, given: readonly Step[]): { due?: Due } {
  const minutes = run?.limits.step_minutes ?? null;
  if (minutes === null) return {};
  const [first] = given
    .flatMap(({ id }) => {
      const child = children[id];
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
  const limits = () => share(session, rules, among);
  switch (reply.status) {
    case 'done':
      return { do: 'record', events: [givenUp(step, reply.text) ?? completion(step, child)] };
    case 'waiting':
      return child.state === 'held'
        ? tell(session, child, { text: spokenSince(session, child), options: { limits: limits() } })
        : rest(session, rules, 'waiting');
    case 'paused':
      if (child.state === 'held' || reply.reason === 'limit')
        return free(session, rules) > 0
          ? tell(session, child, { command: 'continue', options: { limits: limits() } })
          : null;
      return rest(session, rules, 'paused');
    default:
      return again(session, rules, step, { child, among });
  }
}

/** The next try of a step whose child failed; its end where it was cancelled or has had them all. Without a budget it waits for one. */
function again(session: Session, rules: Rules, step: Step, { child, among }: Asked): Decision | null {
  const { attempts, pauseS } = policyOf(session);
  const tries = child.attempt - child.before;
  if (child.reply?.status === 'cancelled' || tries >= attempts) {
    const error = clip(`${child.child}: ${child.reply?.text ?? ''}`, 400);
    return { do: 'record', events: [{ type: 'step.failed', step: step.id, by: 'daemon', error }] };
  }
  if (free(session, rules) === 0) return null;
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

type Giving = { child: Child | undefined; among: number; notBefore?: string | null };

/** A child is given its step: everything it has to know, in one message with an id of its own. */
function send(session: Session, rules: Rules, step: Step, { child, among, notBefore = null }: Giving): Decision {
  const { agent } = executorOf(step, rules);
  const profile = agent === undefined ? undefined : rules.agents[agent];
  const folder = isApart(session, step) ? ownFolder(session, step) : undefined;
  const attempt = (child?.attempt ?? 0) + 1;
  const message: Sending = {
    text: taskText(session, step, sessionLanguage(session, rules), folder),
    options: {
      mode: profile?.mode ?? 'linear',
      limits: share(session, rules, among),
      ...(agent !== undefined && { agent }),
      ...(profile?.model !== undefined && { model: profile.model }),
      ...(folder !== undefined && { folder }),
    },
  };
  return { ...sending(session, step.id, attempt, `${attempt}`, message), notBefore };
}

/** Steps that run together do not write over each other. */
function isApart(session: Session, step: Step): boolean {
  const plan = activePlan(session);
  if (!plan) return false;
  if (step.call !== undefined) return spawnedTogether(session) > 1;
  const { slides, together } = policyOf(session);
  if (slides) return wholeOf(plan, step) !== undefined;
  return together && plan.steps.filter((one) => isAtWork(plan, one) && one.call === undefined).length > 1;
}

/** A folder for this step alone; within a session that has one itself, told apart from those of its family. */
const ownFolder = ({ run }: Session, { id }: Step): string =>
  [...(run?.folder === undefined ? [] : [run.folder]), sessionFolder(id)].join('.');

/** How many steps of `spawn` calls may run at once. */
function spawnedTogether({ run, turn }: Session): number {
  return Math.min(run?.limits.steps ?? 1, turn?.calls.filter(isSpawnCall).length ?? 1);
}

type Sending = Pick<MessageFile, 'text' | 'command' | 'options'>;

function tell(session: Session, { step, attempt, sent }: Child, message: Sending): Sent {
  return sending(session, step, attempt, `${attempt}.${sent}`, message);
}

/** The plan is part of the id: what was answered to the same step of another plan is no answer to this one. */
function sending(session: Session, step: string, attempt: number, count: string, message: Sending): Sent {
  const child = childName(session.name, step, generationOf(session, step));
  const id = `${step}.${count}-${session.plan?.id.replace(/^plan_/, '') ?? ''}`;
  return { do: 'send', step, child, attempt, notBefore: null, message: { id, from: session.name, ...message } };
}

/** What people said to the run that no model call has carried yet: what a child that stopped waits for. */
function spokenSince(session: Session, { step }: Child): string {
  const said = session.uncarried.flatMap((id) => {
    const message = entryOf(session.messages, id);
    return message && message.as !== 'data' ? [message.text] : [];
  });
  const again = session.notices.flatMap((it) => (it.about === 'reopened' && it.step === step ? [it.said] : []));
  return [...again, ...said].join('\n\n').trim() || 'continue';
}

/** A run at rest does not leave children at work: they are told to stop, or to end. */
export function halting(session: Session): Decision | null {
  const { rest: at, plan } = session;
  if (session.run || !at || at.status === 'waiting' || !plan) return null;
  const working = Object.values(session.children).find((child) => child.state === 'working');
  return working ? tell(session, working, { command: at.status === 'paused' ? 'stop' : 'cancel' }) : null;
}
