import { getOwn, mapGet } from '../../base/collections.ts';
import type { PlannerQuery, RunEndStatus } from '../../protocol/session/event.ts';
import type { Plan, Step } from '../../protocol/session/plan.ts';
import { RUN_END, type SessionStanding } from '../../protocol/session/reply.ts';
import type { Language, Rules } from '../../protocol/settings/effective-settings.ts';
import type { Limits } from '../../protocol/settings/run-options.ts';
import { isFromAncestor, sessionDepth } from './child-session.ts';
import { checkCallKey } from './internal-calls.ts';
import { limitsOfMessage, type Message } from './session-messages.ts';
import type { Session } from './session-state.ts';

/** The configured language, else that of the goal or of the current message. */
export function sessionLanguage(session: Session, rules: Pick<Rules, 'language'>): Language {
  if (rules.language) return rules.language;
  const message = session.run ? mapGet(session.messages, session.run.message)?.text : undefined;
  return detectLanguage(
    session.run?.besidePlan ? (message ?? '') : (session.plan?.goal ?? message ?? session.title ?? ''),
  );
}

/** The language the daemon answers in: that of the person's text, out of the two supported. */
export function detectLanguage(text: string): Language {
  return /\p{Script=Han}/u.test(text) && !/[\p{Script=Hiragana}\p{Script=Katakana}]/u.test(text) ? 'zh' : 'en';
}

/**
 * The model of a call: a planner and a summary have those of their role; the work has the one that was named for the
 * run, else that of its role.
 */
export function modelForCall(
  { run, model }: Session,
  { modelFor }: Rules,
  query: PlannerQuery | undefined,
): string | undefined {
  if (query) return (query === 'summary' ? modelFor.summary : modelFor.planner) ?? run?.model;
  return run?.ownModel ?? model ?? modelFor.worker ?? run?.model;
}

/** The context window of the run's model in tokens: the known size, or less if its endpoint has refused less. */
export function contextWindowOf(
  { run, contextWindows }: Session,
  { contextWindow }: Pick<Rules, 'contextWindow'>,
): number {
  return Math.min(contextWindow, getOwn(contextWindows, run?.model ?? '') ?? contextWindow);
}

/**
 * Whether background commands end with a run that ends like this. They continue if the person may resume the run or use
 * what was started; for a child session, nobody would ever hear of them.
 */
export const endsBackgroundJobs = (session: string, status: RunEndStatus): boolean =>
  status === 'cancelled' || (sessionDepth(session) > 0 && (status === 'done' || status === 'failed'));

/** The plan the current run works on; null if it leaves a paused plan alone. */
export function activePlan(session: Session): Plan | null {
  return session.run && !session.run.besidePlan && session.plan?.status === 'running' ? session.plan : null;
}

/**
 * Id of the paused plan that the last run left alone, where that run stopped before its end: whatever is done about a
 * stopped run then concerns that run, and not the plan.
 */
export function planLeftPaused({ plan, runEnd }: Session): string | undefined {
  const open = plan?.status === 'paused' || plan?.status === 'waiting';
  return open && runEnd?.wasBeside && runEnd.status !== 'done' ? plan.id : undefined;
}

/** Whether a run has ended until its settings are valid: the session has to be checked again without a wake. */
export const isWaitingForSettings = ({ run, runEnd }: Session): boolean =>
  !run && runEnd?.status === 'waiting' && runEnd.reason === RUN_END.settings;

/**
 * The own limits of a run that this message resumes, or of the plan that it brings back: those that were named hold
 * until others are. A parent session gives its child new ones each time.
 */
export function ownLimitsWhenResumed(session: Session, message: Message | undefined, plan: string | undefined): Limits {
  const { runEnd, name } = session;
  const isOfPlan =
    session.plan !== null && (plan === session.plan.id || (plan === undefined && !planLeftPaused(session)));
  const ofPlan = isOfPlan && isPlanResumable(session) ? session.limitsByPerson : runEnd?.ownLimits;
  const before = plan !== undefined && !isOfPlan ? getOwn(session.shelvedProgress, plan)?.limitsByPerson : ofPlan;
  const isRenewed = message !== undefined && isFromAncestor(name, message.from);
  return { ...(!isRenewed && before), ...limitsOfMessage(message) };
}

/** Whether the current plan is the one that stopped: a completed plan stays completed whatever else is resumed. */
export function isPlanResumable({ plan, runEnd }: Session): boolean {
  return plan?.status === 'paused' || plan?.status === 'waiting' || (plan !== null && runEnd?.plan === plan.id);
}

/** What a run waits for by itself, and until when (ISO 8601): it goes on then. */
export type RunWait = { what: 'budget' | 'model limit' | 'model'; until: string };

/** A pause between two tries that is shorter is none that people would want to see, in ms. */
const SHORT_WAIT_MS = 5000;

/** Null while a run works. `model limit`: the endpoint said when it may be asked again; `model`: it does not answer. */
export function runWait({ run }: Session): RunWait | null {
  const last = run?.failure?.last;
  if (!last?.retry_at || Date.parse(last.retry_at) - Date.parse(last.at) < SHORT_WAIT_MS) return null;
  const what = last.kind === 'budget' ? 'budget' : last.kind === 'overloaded' ? 'model limit' : 'model';
  return { what, until: last.retry_at };
}

/** The standing of a session as a new message meets it: the columns of the table in `message-table.ts`. */
export type MessageStanding = Exclude<SessionStanding, 'cancelled' | 'unreadable'>;

/**
 * A cancelled run can be resumed like a failed one, so messages are handled alike. Of a plan that a person has closed
 * nothing is left to resume.
 */
export function messageStanding(session: Session): MessageStanding {
  const standing = sessionStanding(session);
  if (standing !== 'cancelled') return standing;
  return session.plan?.reason === CLOSED_BY_HAND ? 'completed' : 'failed';
}

/** Why a plan is over whose last step a person has closed. */
export const CLOSED_BY_HAND = 'closed by hand';

/**
 * The state of a session, the same for every frontend. A stopped run determines it until another one ends with an
 * answer; an open plan outlives runs that leave it alone, and what people do to an idle plan counts from then on.
 */
export function sessionStanding({ run, plan, runEnd }: Session): Exclude<SessionStanding, 'unreadable'> {
  if (run) return 'running';
  const open = plan?.status === 'paused' || plan?.status === 'waiting' ? plan.status : null;
  const isOfRun = plan !== null && runEnd?.plan === plan.id;
  if (open && (!runEnd || runEnd.status === 'done')) return open;
  // A person may have closed its last steps since the run stopped.
  if (isOfRun && (plan.status === 'completed' || plan.status === 'cancelled')) return plan.status;
  switch (runEnd?.status) {
    case undefined:
      return 'none';
    case 'done':
      if (plan?.status === 'failed' || plan?.status === 'cancelled') return plan.status;
      return plan ? 'completed' : 'none';
    case 'paused':
    case 'waiting':
      return runEnd.status;
    case 'failed':
    case 'cancelled':
      // A person has reopened a step since.
      return open && isOfRun ? open : runEnd.status;
  }
}

/**
 * The id of a plan that starts with the event after `seq`: the time of the last event in ms, which comes from the log,
 * so that the same log gives the same id. Never an id already in use.
 */
export function newPlanId(session: Session): string {
  let at = Date.parse(session.at) || session.seq;
  const known = new Set([session.plan?.id, ...Object.keys(session.shelvedPlans)]);
  while (known.has(`plan_${at}`)) at += 1;
  return `plan_${at}`;
}

/** The full outcome of a step: its child's whole answer, else the result in the plan. */
export function stepOutcome({ children }: Session, { id, result }: Step): string {
  const reply = getOwn(children, id)?.reply;
  return reply?.status === 'done' ? reply.text.trim() : (result ?? '');
}

/**
 * Calls that were requested and have not begun, by key, and the names of replies that are not committed: a file of one
 * of them shows that the event log has lost its end.
 */
export function pendingWorkOf({ turn, claim, unanswered, messages }: Session) {
  const checks = claim?.checks.flatMap((check, n) => (check ? [] : [checkCallKey(claim, n)])) ?? [];
  const calls = turn?.calls.filter(({ state }) => state === 'asked').map(({ key }) => key) ?? [];
  const replies = unanswered.flatMap((message) => {
    const name = mapGet(messages, message)?.name;
    return name === undefined ? [] : [{ name, message }];
  });
  return { calls: [...calls, ...checks], replies };
}
