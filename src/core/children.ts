import { EXTEND_FACTOR, type Rules } from '../protocol/config.ts';
import type { EventBody } from '../protocol/event.ts';
import type { FullLimits } from '../protocol/limits.ts';
import type { MessageFile } from '../protocol/message.ts';
import { sessionFolder } from '../protocol/names.ts';
import type { Plan, Step } from '../protocol/plan.ts';
import { clip } from '../protocol/recorded.ts';
import { childless, childName } from './child-name.ts';
import type { Decision, Due } from './decide.ts';
import { claimOf } from './judge.ts';
import { entryOf } from './keyed.ts';
import { POLICIES, policyOf } from './modes/index.ts';
import { executorOf } from './planner/agents.ts';
import { taskText } from './prompt/task.ts';
import { limitReached, restEvents } from './rest.ts';
import { activePlan, type Child, type Session } from './session.ts';
import { sessionLanguage } from './session-language.ts';
import { starting } from './settling.ts';
import { readSigns } from './signs.ts';
import { isSpawnCall } from './spawn-step.ts';
import { ready } from './steps.ts';
import { isGroup, structureOf, undoOf } from './structure.ts';
import { unwrapped } from './text/unwrapped.ts';

/**
 * What the steps given to child sessions need next: a reply to be understood, a child to be sent its task, its answer or
 * "continue", more steps to begin, or patience. Null where no step is given away and none is to be.
 */
export function delegation(session: Session, rules: Rules): Decision | null {
  const plan = activePlan(session);
  const { run } = session;
  if (!plan || !run) return null;
  const policy = POLICIES[plan.mode];
  const stray = Object.values(session.children).find(
    (child) =>
      child.state === 'working' && !plan.steps.some((step) => step.id === child.step && step.status === 'running'),
  );
  if (stray) return tell(session, stray, { command: 'cancel' });
  const given = plan.steps.filter(
    (step) =>
      step.status === 'running' &&
      !isGroup(plan.steps, step.id) &&
      (step.call !== undefined || policy.delegates(session, step, rules)),
  );
  // A power cut may have left the beginning of a super-step half on record: as long as nobody works on it, it is completed.
  const isFresh = given.every(({ id }) => (session.children[id]?.state ?? 'over') === 'over');
  const more = isFresh ? beginning(session, rules, plan, given) : [];
  if (more.length > 0) return { do: 'record', events: more };
  for (const step of given) {
    const child = session.children[step.id];
    if (!child || child.state === 'over') return send(session, rules, step, (child?.attempt ?? 0) + 1);
    const next = child.state === 'replied' || child.state === 'held' ? answered(session, rules, step, child) : null;
    if (next) return next;
  }
  return given.length > 0 ? { do: 'rest', ...overdue(session, given) } : null;
}

/**
 * Steps that begin together: all that are ready, as many as may run at once. Those begun together are waited for together. `given`
 * have begun and nobody works on them yet.
 */
function beginning(session: Session, rules: Rules, plan: Plan, given: readonly Step[]): EventBody[] {
  const { choose, delegates, together } = POLICIES[plan.mode];
  const first = choose(session);
  const running = plan.steps.filter((step) => step.status === 'running' && !isGroup(plan.steps, step.id));
  const joins = together && [...given, ...(first ? [first] : [])].every((step) => !isUndo(plan, step));
  if (!first || running.length > given.length || (given.length > 0 && !joins)) return [];
  if (!delegates(session, first, rules)) return [];
  // What is spent is spent: nothing begins that would be cut short at once.
  if (limitReached(session, rules)) return [];
  const why = childless(session.name);
  if (why !== undefined)
    return [
      { type: 'step.started', step: first.id },
      { type: 'step.failed', step: first.id, by: 'daemon', error: why },
    ];
  const free = ready(plan.steps).filter((step) => delegates(session, step, rules));
  const width = Math.max(0, (session.run?.limits.steps ?? 1) - given.length);
  const chosen = together ? free.slice(0, width) : [first];
  const events = chosen.flatMap((step) => starting(plan, step));
  // Two parts of one group begin it once.
  return events.filter((event, n) => events.findIndex((one) => sameStart(one, event)) === n);
}

const isUndo = (plan: Plan, step: Step): boolean => undoOf(step, structureOf(plan.steps)) !== undefined;

const sameStart = (a: EventBody, b: EventBody): boolean =>
  a.type === 'step.started' && b.type === 'step.started' && a.step === b.step;

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

/** A child's reply, understood: its step is done or failed, is tried again, goes on, or asks the person. */
function answered(session: Session, rules: Rules, step: Step, child: Child): Decision | null {
  const { reply } = child;
  if (!reply) return null;
  const { attempts } = policyOf(session);
  switch (reply.status) {
    case 'done':
      return { do: 'record', events: [givenUp(step, reply.text) ?? completion(step, child)] };
    case 'waiting':
      return child.state === 'held'
        ? tell(session, child, { text: spokenSince(session, child) })
        : rest(session, rules, 'waiting');
    case 'paused':
      if (child.state === 'held' || reply.reason === 'limit')
        return left(session, rules) > 0
          ? tell(session, child, { command: 'continue', options: { limits: share(session, 1) } })
          : null;
      return rest(session, rules, 'paused');
    default:
      // With nothing left to spend it is tried again after the run has rested at its limit.
      if (child.attempt < attempts)
        return left(session, rules) > 0 ? send(session, rules, step, child.attempt + 1) : null;
      return {
        do: 'record',
        events: [
          { type: 'step.failed', step: step.id, by: 'daemon', error: clip(`${child.child}: ${reply.text}`, 400) },
        ],
      };
  }
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

/** A child is given its step: everything it has to know, in one message with an id of its own. */
function send(session: Session, rules: Rules, step: Step, attempt: number): Decision {
  const { agent } = executorOf(step, rules);
  const profile = agent === undefined ? undefined : rules.agents[agent];
  const among = besides(session, step);
  const message: Sending = {
    text: taskText(session, step, sessionLanguage(session, rules)),
    options: {
      mode: profile?.mode ?? 'linear',
      limits: share(session, among),
      ...(agent !== undefined && { agent }),
      ...(profile?.model !== undefined && { model: profile.model }),
      ...(among > 1 && { folder: ownFolder(session, step) }),
    },
  };
  return sending(session, step.id, attempt, `${step.id}.${attempt}`, message);
}

/** A folder for this step alone; within a session that has one itself, told apart from those of its family. */
const ownFolder = ({ run }: Session, { id }: Step): string =>
  [...(run?.folder === undefined ? [] : [run.folder]), sessionFolder(id)].join('.');

/** How many steps may run at once with this one, itself included. */
function besides(session: Session, step: Step): number {
  const width = session.run?.limits.steps ?? 1;
  if (step.call === undefined) return policyOf(session).together ? Math.max(1, begunWith(session).length) : 1;
  const calls = session.turn?.calls.filter(isSpawnCall).length ?? 1;
  return Math.max(1, Math.min(width, calls));
}

/** Steps of the plan that child sessions work on now: those begun together. */
function begunWith(session: Session): Step[] {
  const { steps } = activePlan(session) ?? { steps: [] };
  return steps.filter((step) => step.status === 'running' && step.call === undefined && !isGroup(steps, step.id));
}

type Sending = Pick<MessageFile, 'text' | 'command' | 'options'>;

function tell(session: Session, { step, attempt, sent }: Child, message: Sending): Decision {
  return sending(session, step, attempt, `${step}.${attempt}.${sent}`, message);
}

function sending(session: Session, step: string, attempt: number, id: string, message: Sending): Decision {
  const child = childName(session.name, step);
  return { do: 'send', step, child, attempt, message: { id, from: session.name, ...message } };
}

/** Iterations the run may still spend. */
function left({ run }: Session, { onLimit }: Rules): number {
  const factor = onLimit === 'extend' ? EXTEND_FACTOR : 1;
  return run ? Math.max(0, run.limits.iterations * factor - run.spent.iterations) : 0;
}

/** What one of several children may spend of what is left. Budgets are the root's: nothing is given twice. */
function share(session: Session, among: number): Partial<FullLimits> {
  const { limits, spent } = session.run ?? { limits: null, spent: null };
  if (!limits || !spent) return {};
  const part = (all: number | null, used: number | null) =>
    all === null ? null : Math.max(1, Math.floor((all - (used ?? 0)) / among));
  return {
    ...limits,
    iterations: part(limits.iterations, spent.iterations) ?? 1,
    tokens: part(limits.tokens, spent.tokens),
    cost: limits.cost === null ? null : Math.max(0.000001, (limits.cost - (spent.cost ?? 0)) / among),
  };
}

/** What people said to the run that no model call has carried yet: what a child that stopped waits for. */
function spokenSince(session: Session, { step }: Child): string {
  const said = session.uncarried.flatMap((id) => entryOf(session.messages, id)?.text ?? []);
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
