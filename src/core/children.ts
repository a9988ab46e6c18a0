import type { Rules } from '../protocol/config.ts';
import type { EventBody } from '../protocol/event.ts';
import type { FullLimits } from '../protocol/limits.ts';
import type { MessageFile } from '../protocol/message.ts';
import { sessionFolder } from '../protocol/names.ts';
import type { Plan, Step } from '../protocol/plan.ts';
import { clip } from '../protocol/recorded.ts';
import { sha256 } from '../protocol/sha256.ts';
import type { Decision } from './decide.ts';
import { claimOf } from './judge.ts';
import { entryOf } from './keyed.ts';
import { POLICIES } from './modes/index.ts';
import { executorOf } from './planner/agents.ts';
import { taskText } from './prompt/task.ts';
import { restEvents } from './rest.ts';
import { activePlan, type Child, type Session } from './session.ts';
import { sessionLanguage } from './session-language.ts';
import { ready } from './steps.ts';

/** How deep sessions may have children of their own (JManus allows 20; five are more than a person follows). */
export const DEEPEST = 5;
const NAME_BYTES = 255;

/** The session that works on a step of another: `<parent>~<step>`. */
export function childName(parent: string, step: string): string {
  const name = `${parent}~${sessionFolder(step)}`;
  // A path of five long names outgrows what a folder may be called; its hash does not.
  return new TextEncoder().encode(name).length <= NAME_BYTES
    ? name
    : `${parent.slice(0, 60)}~h${sha256(name).slice(0, 40)}`;
}

export const depthOf = (session: string): number => session.split('~').length - 1;

/**
 * What the steps given to child sessions need next: a reply to be understood, a child to be sent its task, its answer or
 * "continue", more steps to begin, or patience. Null where no step is given away and none is to be.
 */
export function delegation(session: Session, rules: Rules): Decision | null {
  const plan = activePlan(session);
  const { run } = session;
  if (!plan || !run) return null;
  const policy = POLICIES[plan.mode];
  const given = plan.steps.filter((step) => step.status === 'running' && policy.delegates(session, step, rules));
  for (const step of given) {
    const child = session.children[step.id];
    if (!child) return send(session, rules, step, 1);
    const next = child.state === 'replied' || child.state === 'held' ? answered(session, rules, step, child) : null;
    if (next) return next;
  }
  const more = beginning(session, rules, plan, given);
  if (more.length > 0) return { do: 'record', events: more };
  return given.length > 0 ? { do: 'rest' } : null;
}

/** Steps that begin together: all that are ready, as many as may run at once. Those begun together are waited for together. */
function beginning(session: Session, rules: Rules, plan: Plan, given: readonly Step[]): EventBody[] {
  if (given.length > 0) return [];
  const first = POLICIES[plan.mode].choose(session);
  if (!first || plan.steps.some((step) => step.status === 'running')) return [];
  if (!POLICIES[plan.mode].delegates(session, first, rules)) return [];
  if (depthOf(session.name) >= DEEPEST)
    return [
      { type: 'step.started', step: first.id },
      { type: 'step.failed', step: first.id, by: 'daemon', error: `sessions may be ${DEEPEST} deep, no deeper` },
    ];
  const together = ready(plan.steps).filter((step) => POLICIES[plan.mode].delegates(session, step, rules));
  const width = session.run?.limits.steps ?? 1;
  const chosen = POLICIES[plan.mode].together ? together.slice(0, width) : [first];
  return chosen.map((step) => ({ type: 'step.started', step: step.id }));
}

/** A child's reply, understood: its step is done or failed, is tried again, goes on, or asks the person. */
function answered(session: Session, rules: Rules, step: Step, child: Child): Decision | null {
  const { reply } = child;
  if (!reply) return null;
  const { attempts } = POLICIES[activePlan(session)?.mode ?? 'linear'];
  switch (reply.status) {
    case 'done':
      return { do: 'record', events: [completion(step, child)] };
    case 'waiting':
      return child.state === 'held'
        ? tell(session, step, child, { text: spokenSince(session) })
        : rest(session, rules, child, 'waiting');
    case 'paused':
      if (child.state === 'held' || reply.reason === 'limit')
        return left(session) > 0
          ? tell(session, step, child, { command: 'continue', options: { limits: share(session, 1) } })
          : null;
      return rest(session, rules, child, 'paused');
    default:
      if (child.attempt < attempts && left(session) > 0) return send(session, rules, step, child.attempt + 1);
      return {
        do: 'record',
        events: [
          { type: 'step.failed', step: step.id, by: 'daemon', error: clip(`${child.child}: ${reply.text}`, 400) },
        ],
      };
  }
}

function completion(step: Step, { child, reply }: Child): EventBody {
  return claimOf(step, {
    tier: 'child',
    evidence: `${child} answered`,
    result: clip(reply?.text.trim() ?? '', 2000),
    attachments: [...(reply?.attachments ?? [])],
  });
}

function rest(session: Session, rules: Rules, { child, reply }: Child, status: 'waiting' | 'paused'): Decision {
  const why = { status, reason: status === 'waiting' ? 'question' : 'child', text: `${child}: ${reply?.text ?? ''}` };
  return { do: 'record', events: restEvents(session, rules, why) };
}

/** A child is given its step: everything it has to know, in one message with an id of its own. */
function send(session: Session, rules: Rules, step: Step, attempt: number): Decision {
  const { agent } = executorOf(step, rules.agents);
  const profile = agent === undefined ? undefined : rules.agents[agent];
  const together = session.run?.limits.steps ?? 1;
  const alone = Object.values(session.children).filter((child) => child.state === 'working').length === 0;
  const message: Sending = {
    text: taskText(session, step, sessionLanguage(session, rules)),
    options: {
      mode: profile?.mode ?? 'linear',
      limits: share(session, POLICIES[activePlan(session)?.mode ?? 'linear'].together ? together : 1),
      ...(agent !== undefined && { agent }),
      ...(profile?.model !== undefined && { model: profile.model }),
      ...((POLICIES[activePlan(session)?.mode ?? 'linear'].together || !alone) && { folder: sessionFolder(step.id) }),
    },
  };
  return sending(session, step, attempt, `${step.id}.${attempt}`, message);
}

type Sending = Pick<MessageFile, 'text' | 'command' | 'options'>;

function tell(session: Session, step: Step, child: Child, message: Sending): Decision {
  return sending(session, step, child.attempt, `${step.id}.${child.attempt}.${child.sent}`, message);
}

function sending(session: Session, step: Step, attempt: number, id: string, message: Sending): Decision {
  const child = session.children[step.id]?.child ?? childName(session.name, step.id);
  return { do: 'send', step: step.id, child, attempt, message: { id, from: session.name, ...message } };
}

/** Iterations the run may still spend. */
function left({ run }: Session): number {
  return run ? Math.max(0, run.limits.iterations - run.spent.iterations) : 0;
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

/** What people said to the run that no model call has carried yet: the answer a child waits for. */
function spokenSince(session: Session): string {
  const said = session.uncarried.flatMap((id) => entryOf(session.messages, id)?.text ?? []).join('\n\n');
  return said.trim() || 'continue';
}

/** A run at rest does not leave children at work: they are told to stop, or to end. */
export function halting(session: Session): Decision | null {
  const { rest: at, plan } = session;
  if (session.run || !at || at.status === 'waiting' || !plan) return null;
  const working = Object.values(session.children).find((child) => child.state === 'working');
  const step = plan.steps.find((one) => one.id === working?.step);
  if (!working || !step) return null;
  return tell(session, step, working, { command: at.status === 'paused' ? 'stop' : 'cancel' });
}
