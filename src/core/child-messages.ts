import type { Rules } from '../protocol/config.ts';
import type { FullLimits } from '../protocol/limits.ts';
import type { MessageFile } from '../protocol/message.ts';
import { sessionFolder } from '../protocol/names.ts';
import { own } from '../protocol/own.ts';
import type { Step } from '../protocol/plan.ts';
import { isAtWork } from './beginning.ts';
import { share } from './budget.ts';
import { childName } from './child-name.ts';
import { spokenText } from './commands.ts';
import type { Decision } from './decide.ts';
import { generationOf } from './fold-child.ts';
import { entryOf } from './keyed.ts';
import { policyOf } from './modes/index.ts';
import { wholeOf } from './parts/family.ts';
import { executorOf } from './planner/agents.ts';
import { taskText } from './prompt/task.ts';
import { isBareContinue } from './question.ts';
import { activePlan, type Child, type Session } from './session.ts';
import { sessionLanguage } from './session-language.ts';
import { isSpawnCall } from './spawn-step.ts';

/** A message to a child session. */
export type Sent = Decision & { do: 'send' };

type Giving = { child: Child | undefined; among: number; notBefore?: string | null };

/** A child is given its step: everything it has to know, in one message with an id of its own. */
export function send(session: Session, rules: Rules, step: Step, { child, among, notBefore = null }: Giving): Decision {
  const named = executorOf(step, rules).agent;
  const profile = named === undefined ? undefined : own(rules.agents, named);
  // A step that names nobody is done by whoever gives it away: with no more tools than that one has.
  const agent = named ?? session.run?.agent;
  const folder = child?.folder ?? (isApart(session, step) ? ownFolder(session, step) : undefined);
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
export function spawnedTogether({ run, turn }: Session): number {
  return Math.min(run?.limits.steps ?? 1, turn?.calls.filter(isSpawnCall).length ?? 1);
}

type Sending = Pick<MessageFile, 'text' | 'command' | 'options'>;

/** A child is told something while it has its step. */
export function tell(session: Session, { step, attempt, sent }: Child, message: Sending): Sent {
  return sending(session, step, attempt, `${attempt}.${sent}`, message);
}

/** The plan is part of the id: what was answered to the same step of another plan is no answer to this one. */
function sending(session: Session, step: string, attempt: number, count: string, message: Sending): Sent {
  const child = childName(session.name, step, generationOf(session, step));
  const id = `${step}.${count}-${session.plan?.id.replace(/^plan_/, '') ?? ''}`;
  return { do: 'send', step, child, attempt, notBefore: null, message: { id, from: session.name, ...message } };
}

/**
 * "Continue", with what people said since the child's question was put to them. What they said before that answered something else.
 * It is a command, so that no words of an answer are taken for one.
 */
export function answerTo(session: Session, child: Child, limits: Partial<FullLimits>): Sent {
  const { state, saidBefore = [] } = child;
  const said = (state === 'held' ? session.uncarried : []).flatMap((id) => {
    const message = entryOf(session.messages, id);
    if (!message || message.as === 'data' || saidBefore.includes(id) || isBareContinue(message)) return [];
    return [spokenText(message)];
  });
  const text = said.join('\n\n').trim();
  return tell(session, child, { command: 'continue', ...(text !== '' && { text }), options: { limits } });
}
