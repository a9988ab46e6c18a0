import { mapGet } from '../../base/collections.ts';
import { firstFew, truncate } from '../../base/strings.ts';
import type { EventBody } from '../../protocol/session/event.ts';
import { RUN_END } from '../../protocol/session/reply.ts';
import type { Rules } from '../../protocol/settings/effective-settings.ts';
import { answerForPeople, textOfJsonAnswer } from '../detect/answer-reading.ts';
import { readStatusTags } from '../detect/step-tags.ts';
import { grantedLimits } from '../messages/message-meaning.ts';
import { REPLY_WORDING } from '../messages/reply-wording.ts';
import type { ReplyWording } from '../messages/reply-wording-english.ts';
import {
  formatPlanSummary,
  MAX_NAMED_CHARS,
  planNotes,
  resumingWords,
  stepsBlockedByPerson,
} from '../messages/status-report.ts';
import { openSteps, runningStep, unreachedStepIds } from '../plan/plan-steps.ts';
import { explainNothingReady } from '../plan/step-readiness.ts';
import { answerQuestionEvents } from '../prompt/chat-messages.ts';
import { sessionDepth } from '../session/child-session.ts';
import { checkCallKey, isAskUserCall, isSpawnCall, listingCallKey } from '../session/internal-calls.ts';
import type { Run, Turn, TurnCall } from '../session/run-state.ts';
import { activePlan, endsBackgroundJobs, sessionLanguage } from '../session/session-queries.ts';
import type { RunEndReason, Session } from '../session/session-state.ts';

const MINUTE_MS = 60_000;

/** How many times its limit a run may go where limits are extended. */
export const EXTEND_FACTOR = 5;

/** Ends a run: open calls are closed. `withRunClosed` adds what follows from it. */
export function endRunEvents(session: Session, rules: Rules, why: RunEndReason): EventBody[] {
  const { run } = session;
  if (!run) return [];
  const language = sessionLanguage(session, rules);
  return [
    ...(why.keepsCalls
      ? []
      : interruptOpenCalls(session, why.whyInterrupted ?? REPLY_WORDING[language].byPerson, why.question?.call)),
    {
      type: 'run.ended',
      message: run.message,
      status: why.status,
      reason: why.reason,
      text: runEndText(session, rules, run, why),
      spent: { ...run.spent, ms: run.elapsedMs },
      ...(why.question && { question: why.question }),
    },
    ...(why.asksMeaning ? [{ type: 'meaning.asked' as const, message: run.message }] : []),
  ];
}

/** Closes calls that will not run, or whose progress is unknown; `but` stays open. */
export function interruptOpenCalls(session: Session, why: string, but?: string): EventBody[] {
  const { claim } = session;
  const checks = (claim?.checks ?? []).flatMap((check, place): EventBody[] =>
    claim && check?.state === 'started'
      ? [{ type: 'tool.interrupted', call: checkCallKey(claim, place), outcome: 'unknown', why }]
      : [],
  );
  const openListings = session.fanOut?.state === 'started' ? [listingCallKey(session.fanOut)] : [];
  const listings = openListings.map((call): EventBody => ({ type: 'tool.interrupted', call, outcome: 'unknown', why }));
  const calls = (session.turn?.calls ?? []).flatMap((call) =>
    call.key === but ? [] : interruptCall(session, call, why),
  );
  return [...calls, ...checks, ...listings];
}

/** Closes a call that will not run, or whose progress is unknown; empty if it has ended. */
export function interruptCall(session: Session, call: TurnCall, why: string): EventBody[] {
  if (call.state === 'asked') return [{ type: 'tool.interrupted', call: call.key, outcome: 'not_started', why }];
  if (call.state !== 'started') return [];
  if (isSpawnCall(call)) return [leaveChildRunning(session, call)];
  if (isAskUserCall(call)) return closeUnaskedQuestion(session, call, why);
  return [{ type: 'tool.interrupted', call: call.key, outcome: 'unknown', why }];
}

/** A child session outlives the run's end: its answer comes as the result of its step, in the plan. */
function leaveChildRunning({ plan }: Session, { key, args }: TurnCall): EventBody {
  const step = plan?.steps.find((one) => one.call === key);
  const text = `[${step?.id ?? truncate(args, 80)} has not ended yet; its result will be in the plan]`;
  return { type: 'tool.finished', call: key, ok: true, output: { text }, ms: 0 };
}

/** An answer that had arrived is passed on all the same; a question that nobody saw was never asked. */
function closeUnaskedQuestion(session: Session, { key }: TurnCall, why: string): EventBody[] {
  const answered = session.question?.call === key ? answerQuestionEvents(session) : [];
  if (answered.length > 0) return answered;
  return [{ type: 'tool.interrupted', call: key, outcome: 'not_started', why }];
}

function runEndText(session: Session, rules: Rules, run: Run, why: RunEndReason): string {
  const language = sessionLanguage(session, rules);
  const words = REPLY_WORDING[language];
  const plan = activePlan(session);
  const outcome =
    why.text ??
    (why.status === 'cancelled' ? words.cancelled : why.reason === RUN_END.stopped ? words.stopped : words.pausing);
  const { status } = why;
  const summary =
    plan && status !== 'done' && status !== 'waiting' ? [formatPlanSummary({ ...plan, status }, language)] : [];
  const how = waysOn(session, why, words);
  const needsApproval =
    plan && why.status !== 'done' && why.status !== 'cancelled'
      ? stepsBlockedByPerson(plan, session.editedByPerson)
      : [];
  const blocked = needsApproval.length > 0 ? [words.personBlocked(firstFew(needsApproval).join('; '))] : [];
  const shelved = run.shelvedPlan
    ? [words.shelved(truncate(run.shelvedPlan.goal, MAX_NAMED_CHARS), run.shelvedPlan.id)]
    : [];
  const asSaid = grantedLimits(mapGet(session.messages, run.message));
  const granted = (Object.keys(asSaid) as Array<keyof typeof asSaid>).map((key) =>
    words.granted(`${key} = ${run.limits[key]}`, Number(asSaid[key]) > Number(run.limits[key])),
  );
  const jobs =
    rules.jobs.length > 0 && !endsBackgroundJobs(session.name, why.status)
      ? [words.jobsRun(rules.jobs.join(', '))]
      : [];
  // A child reads the same files; its parent's reply is the one a person reads.
  const settings =
    rules.settingsWarning !== null && sessionDepth(session.name) === 0
      ? [words.settingsNote(rules.settingsWarning)]
      : [];
  return [
    outcome,
    ...(run.standIns ? [words.stoodIn(run.standIns.join('; '))] : []),
    ...(plan ? planNotes(plan, why, rules, words) : []),
    ...summary,
    ...blocked,
    ...how,
    ...granted,
    ...jobs,
    ...shelved,
    ...settings,
  ].join('\n\n');
}

/** What a person can say or do next; none where the text of the end says it. */
function waysOn(session: Session, { status, reason, question }: RunEndReason, words: ReplyWording): string[] {
  if (status === 'paused' || status === 'failed') return resumingWords(status, reason, words);
  // A parent reads the replies of its children, and asks for them.
  if (status !== 'waiting' || question || sessionDepth(session.name) > 0) return [];
  if (reason === RUN_END.blocked) return [words.whenSupplied];
  if (reason !== RUN_END.question) return [];
  const plan = activePlan(session);
  const step = plan && (runningStep(plan) ?? openSteps(plan)[0]);
  const isOwn = step && Object.keys(session.children).length === 0;
  return [words.yourAnswer(isOwn ? `${plan.steps.indexOf(step) + 1}` : null)];
}

/** The reason to stop before another model call, if there is one. */
export function checkLimits(session: Session, rules: Rules): RunEndReason | null {
  const { run } = session;
  if (!run) return null;
  const language = sessionLanguage(session, rules);
  const words = REPLY_WORDING[language];
  const paused = (setting: string, value: number): RunEndReason => ({
    status: 'paused',
    reason: RUN_END.limit,
    text: words.limit(`limits.${setting}`, value),
  });
  const { limits, spent } = run;
  const isExtended = extendsLimit(session, rules);
  const iterations = isExtended ? limits.iterations * EXTEND_FACTOR : limits.iterations;
  if (spent.iterations >= iterations) {
    return isExtended
      ? { status: 'failed', reason: RUN_END.ceiling, text: words.ceiling(iterations, 'limits.iterations') }
      : paused('iterations', iterations);
  }
  if (limits.tokens !== null && spent.tokens >= limits.tokens) return paused('tokens', limits.tokens);
  if (limits.cost !== null && spent.cost === null)
    return { status: 'paused', reason: RUN_END.limit, text: words.costUnknown(limits.cost) };
  if (limits.cost !== null && (spent.cost ?? 0) >= limits.cost) return paused('cost', limits.cost);
  if (limits.minutes !== null && run.elapsedMs >= limits.minutes * MINUTE_MS) return paused('minutes', limits.minutes);
  return null;
}

/** The end of a run whose model does not answer; null while it is still being retried. */
export function checkOutage(session: Session, rules: Rules): RunEndReason | null {
  const failure = session.run?.failure;
  if (!session.run || !failure || failure.last.kind === 'aborted' || failure.last.kind === 'budget') return null;
  const words = REPLY_WORDING[sessionLanguage(session, rules)];
  if (failure.last.retry_at === null)
    return { status: 'failed', reason: failure.last.kind, text: words.failed(failure.last.error) };
  const minutes = session.run.limits.outage_minutes;
  if (failure.silent_ms / MINUTE_MS < minutes) return null;
  return { status: 'paused', reason: RUN_END.outage, text: words.outage(minutes, failure.last.error) };
}

/**
 * Ends the run if the same call with the same result is repeated even after a hint and a request for another approach.
 */
export function checkRepeatedCalls(session: Session, rules: Rules): RunEndReason | null {
  const { run } = session;
  if (!run || run.limits.repeats === 0 || run.repeatedCall.count < run.limits.repeats + 2) return null;
  const words = REPLY_WORDING[sessionLanguage(session, rules)];
  const output = session.turn?.calls.at(-1)?.outputHead ?? '';
  return {
    status: 'paused',
    reason: RUN_END.repeats,
    text: words.repeats(run.repeatedCall.call, run.repeatedCall.count, output),
  };
}

/** Steps are open and none of them can start: people wrote a cycle or an unknown need, and only they can fix it. */
export function checkNothingReady(session: Session, rules: Rules): RunEndReason | null {
  const plan = activePlan(session);
  if (!plan || openSteps(plan).length === 0 || runningStep(plan)) return null;
  const language = sessionLanguage(session, rules);
  const words = REPLY_WORDING[language];
  const text = [words.nothingReady, ...explainNothingReady(plan, language), words.fixPlan].join('\n');
  return { status: 'waiting', reason: RUN_END.needs, text };
}

/** How a run ends at an answer without tool calls; null if it continues. */
export function checkFinished(session: Session, rules: Rules): RunEndReason | null {
  const { run, turn } = session;
  if (!run || !turn || turn.calls.length > 0) return null;
  const plan = activePlan(session);
  const said = answerForPeople(turn, sessionLanguage(session, rules));
  if (turn.unfinished !== undefined) return unfinishedEnd(session, turn.unfinished, said, rules);
  if (turn.isBlocked) return { status: 'waiting', reason: RUN_END.blocked, text: said };
  if (plan && openSteps(plan).length > 0)
    return run.idleAnswers >= 2
      ? { status: 'waiting', reason: RUN_END.question, text: textWithRefusal(session, rules) }
      : null;
  if (plan?.steps.some((step) => step.status === 'blocked' && step.call === undefined))
    return { status: 'waiting', reason: RUN_END.blocked, text: said };
  const failed = plan ? unreachedStepIds(plan, session.replacedSteps) : [];
  if (failed.length > 0) return { status: 'failed', reason: `not reached: ${failed.join(', ')}`, text: said };
  const stated = (plan?.steps ?? []).length === 0 ? endStatedWithoutSteps(session, turn, said) : null;
  if (stated) return stated;
  // A parent keeps only the last answer of its child: it takes the beginning, rather than what a "continue" adds to it.
  if (turn.isTruncated && sessionDepth(session.name) === 0)
    return { status: 'paused', reason: RUN_END.limit, text: said };
  return { status: 'done', reason: plan && plan.steps.length > 0 ? RUN_END.completed : RUN_END.answered, text: said };
}

/** Half an answer is never the end of a run, in a child session neither. */
function unfinishedEnd(session: Session, finish: string, said: string, rules: Rules): RunEndReason {
  const note = REPLY_WORDING[sessionLanguage(session, rules)].unfinished(finish);
  return { status: 'paused', reason: RUN_END.unfinished, text: `${said}\n\n${note}`.trim() };
}

/** The status the model gave the task itself, if there are no steps. The step of a child is its parent's. */
function endStatedWithoutSteps({ name }: Session, turn: Turn, text: string): RunEndReason | null {
  const tags = sessionDepth(name) > 0 ? [] : readStatusTags(textOfJsonAnswer(turn.text));
  const tag = tags.findLast((one) => one.kind === 'failed' || one.kind === 'blocked');
  if (tag?.kind === 'blocked') return { status: 'waiting', reason: RUN_END.blocked, text };
  return tag?.kind === 'failed'
    ? { status: 'failed', reason: `not reached: ${truncate(tag.reason, 200)}`, text }
    : null;
}

/** The model's text; and, if its claim was refused, why: otherwise the person would believe it. */
function textWithRefusal(session: Session, rules: Rules): string {
  const { turn, plan } = session;
  const step = plan?.steps.find((one) => one.id === turn?.refusedClaim?.step);
  const language = sessionLanguage(session, rules);
  const words = REPLY_WORDING[language];
  const said = turn ? answerForPeople(turn, language) : '';
  if (!turn?.refusedClaim || !step) return said;
  const { veto, evidence } = turn.refusedClaim;
  // For a claim without any work, the evidence is the text above.
  return `${said}\n\n${words.refused(step.description, veto === 'no_work' ? words.noWork : evidence)}`;
}

/** Whether a limit is extended instead of pausing the run. Only the parent may extend the budget of a child. */
export const extendsLimit = ({ name }: Session, { onLimit }: Rules): boolean =>
  onLimit === 'extend' && sessionDepth(name) === 0;
