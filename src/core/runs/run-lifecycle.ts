import { mapGet } from '../../base/collections.ts';
import { truncate } from '../../base/strings.ts';
import type { EventBody } from '../../protocol/session/event.ts';
import type { Plan } from '../../protocol/session/plan.ts';
import { RUN_END } from '../../protocol/session/reply.ts';
import { type Language, type Rules, resolveRules } from '../../protocol/settings/effective-settings.ts';
import { resolveLimits } from '../../protocol/settings/run-options.ts';
import { nextPersonCheck } from '../detect/step-claims.ts';
import { classifyIntent } from '../intent/intent.ts';
import { isConfirmation } from '../messages/approval-answers.ts';
import { parseCommand, textWithoutCommand } from '../messages/commands.ts';
import { boundedGrant, intentOf, wordsContext } from '../messages/message-meaning.ts';
import { replyEvent, replyInWords, standInReplyName } from '../messages/replies.ts';
import { REPLY_WORDING } from '../messages/reply-wording.ts';
import { initialMode } from '../modes/mode-choice.ts';
import { shelvePlanEvent } from '../plan/plan-changes.ts';
import { withdrawQuestionEvents } from '../prompt/chat-messages.ts';
import { sessionAfter } from '../reducers/reduce-event.ts';
import { isChildBusy, isFromAncestor } from '../session/child-session.ts';
import { CHECK_TOOL, checkCallKey } from '../session/internal-calls.ts';
import { limitsOfMessage, type Message } from '../session/session-messages.ts';
import {
  isWaitingForSettings,
  ownLimitsWhenResumed,
  planLeftPaused,
  sessionLanguage,
} from '../session/session-queries.ts';
import { CRASH_LIMIT, type RunEndReason, type Session } from '../session/session-state.ts';
import { planFromTemplate } from '../templates/template-plan.ts';
import type { Decision } from './decision.ts';
import { endRunEvents } from './end-run.ts';

/** Starts a run, next to an open plan if there is one; a template brings its own plan, and shelves the open one. */
export function startRunEvents(session: Session, message: Message, rules: Rules, open?: Plan): EventBody[] {
  const run = { ...runStartedEvent(session, message, rules), ...(open && { paused_plan: open.id }) };
  const { template } = message;
  const before = withdrawQuestionEvents(session, 'the person began something else');
  if (!template || 'fault' in template) return [...before, run];
  return [...before, run, ...(open ? [shelvePlanEvent(open.id)] : []), ...planFromTemplate(session, run, template)];
}

function runStartedEvent(session: Session, message: Message, rules: Rules): EventBody & { type: 'run.started' } {
  const model = message.options?.model ?? session.model ?? rules.model;
  return {
    type: 'run.started',
    message: message.id,
    ...initialMode(session, message, rules),
    limits: resolveLimits(rules.limits, limitsOfMessage(message)),
    ...(model !== undefined && { model }),
    ...(message.options?.agent !== undefined && { agent: message.options.agent }),
    ...(message.options?.folder !== undefined && { folder: message.options.folder }),
  };
}

const firstArgument = (message: Message): string => (parseCommand(message)?.rest ?? '').split(/\s/)[0] ?? '';

/**
 * The id of the shelved plan that a message brings back: the one that "/continue" names; the last one for "back", and
 * for "continue" if nothing else can go on.
 */
export function namedShelvedPlan(session: Session, message: Message): string | undefined {
  if (isFromAncestor(session.name, message.from)) return undefined;
  const first = firstArgument(message);
  if (Object.hasOwn(session.shelvedPlans, first)) return first;
  const context = wordsContext(session);
  const isBack = parseCommand(message) === null && intentOf(message.text, context).isBack === true;
  const isAlone = first === '' && (context.status === 'none' || context.status === 'completed');
  return isBack || isAlone ? Object.keys(session.shelvedPlans).at(-1) : undefined;
}

/** Resumes the run that stopped last, or the named plan. */
export function resumeRunEvents(session: Session, message: Message, rules: Rules): EventBody[] {
  const first = firstArgument(message);
  const fromAbove = isFromAncestor(session.name, message.from);
  const named = namedShelvedPlan(session, message);
  if (!fromAbove && named === undefined && /^plan_\d+/.test(first) && first !== session.plan?.id) {
    const known = Object.keys(session.shelvedPlans);
    return replyInWords(session, message, rules, (words) => words.noSuchPlan(first, known));
  }
  const away =
    named !== undefined && (session.plan?.status === 'paused' || session.plan?.status === 'waiting')
      ? [shelvePlanEvent(session.plan.id)]
      : [];
  const own = message.options?.model ?? (named === undefined ? session.runEnd?.ownModel : undefined);
  const model = own ?? session.model ?? rules.model;
  const beside = fromAbove || named !== undefined || first === session.plan?.id ? undefined : planLeftPaused(session);
  return [
    ...(named === undefined ? [] : withdrawQuestionEvents(session, 'the person took up another plan')),
    ...away,
    {
      type: 'run.resumed',
      message: message.id,
      by: message.by ?? 'person',
      limits: resolveLimits(
        rules.limits,
        ownLimitsWhenResumed(session, message, named),
        boundedGrant(message, rules.limits),
      ),
      ...(named !== undefined && { plan: named }),
      ...(beside !== undefined && { paused_plan: beside }),
      ...(model !== undefined && { model }),
    },
    ...personCheckEvents(session, message),
  ];
}

/**
 * The answer to a person's check on which a run waits: yes passes the check, a bare "continue" asks again, anything
 * else is passed on to the model. What was written before the question answers something else: it is asked again.
 */
function personCheckEvents(session: Session, message: Message): EventBody[] {
  const { claim, runEnd } = session;
  const place = claim ? nextPersonCheck(session, claim) : undefined;
  if (!claim || place === undefined || runEnd?.reason !== RUN_END.check || message.arrivedDuringRun) return [];
  const comment = textWithoutCommand(message).trim() || (parseCommand(message)?.name === 'undo' ? 'not done yet' : '');
  if (
    comment === '' ||
    (parseCommand(message) === null && classifyIntent(comment, { planStatus: 'paused' }).kind === 'continue')
  )
    return [];
  const { step, tier } = claim;
  if (!isConfirmation(comment))
    return [{ type: 'step.claimed', step, tier, evidence: truncate(comment, 500), veto: 'check_failed' }];
  const call = checkCallKey(claim, place);
  const args = JSON.stringify(session.plan?.steps.find((one) => one.id === step)?.done_when?.[place]);
  return [
    { type: 'tool.started', call, name: CHECK_TOOL, args, replay: 'safe' },
    { type: 'tool.finished', call, ok: true, output: { text: comment }, ms: 0 },
  ];
}

const DAEMON_LOST = 'the daemon ended while it ran, or this session was moved or copied';
/**
 * What becomes a dead letter after too many crashes: the run, else the message that is owed a reply or is next. The
 * session and the daemon continue with the others; "continue" tries the run again.
 */
export function deadLetterEvents(session: Session, rules: Rules): EventBody[] {
  const { run, runEnd, crashes } = session;
  if (crashes.count < CRASH_LIMIT) return [];
  if (run) return endRunEvents(session, rules, crashRunEnd(session, rules));
  const owed = runEnd && mapGet(session.messages, runEnd.message);
  const message = owed && !owed.isReplied ? owed.id : session.queue[0];
  if (message === undefined) return [];
  const language = sessionLanguage(session, rules);
  const replyText = `${lossText(session, language)}\n\n${REPLY_WORDING[language].sendAgain}`;
  return [
    replyEvent(session, message, { status: 'failed', reason: RUN_END.crashes, text: replyText, plan: null }, language),
  ];
}

const lossText = ({ crashes }: Session, language: Language): string =>
  REPLY_WORDING[language].lost(crashes.count, crashes.lastError ?? '');

/** The end of a run that daemons were lost over. */
export function crashRunEnd(session: Session, rules: Rules): RunEndReason {
  const text = lossText(session, sessionLanguage(session, rules));
  return { status: 'failed', reason: RUN_END.crashes, text, whyInterrupted: DAEMON_LOST };
}

/** The end of a run whose settings are invalid, and what its reply says about them. */
export function settingsRunEnd(session: Session, rules: Rules, fault: string): RunEndReason {
  const text = REPLY_WORDING[sessionLanguage(session, rules)].settingsWait(fault);
  return { status: 'waiting', reason: RUN_END.settings, text, whyInterrupted: 'the settings are invalid' };
}

/** Resumes the run once they are valid; its result gets a reply of its own, since its message was already answered. */
export function resumeAfterSettings(session: Session, rules: Rules): EventBody[] {
  const { runEnd } = session;
  if (rules.settingsFault !== null || !isWaitingForSettings(session) || !runEnd) return [];
  const message = mapGet(session.messages, runEnd.message);
  const name = standInReplyName(session, RUN_END.settings, message?.name ?? '');
  const model = runEnd.ownModel ?? session.model ?? rules.model;
  const beside = planLeftPaused(session);
  const limits = resolveLimits(rules.limits, ownLimitsWhenResumed(session, undefined, undefined));
  return [
    {
      ...{ type: 'run.resumed', by: 'daemon', message: name, name, limits },
      ...(beside !== undefined && { paused_plan: beside }),
      ...(model !== undefined && { model }),
    },
  ];
}

/**
 * Whether a run is active with nothing to do for it, no time set, no child session working, and no person using the
 * browser it waits for: it would never continue. This should never happen; if it does, it is a bug.
 */
export const isStalled = ({ run, children, browserHold }: Session, decision: Decision): boolean =>
  run !== null &&
  decision.do === 'idle' &&
  decision.due === undefined &&
  browserHold === null &&
  !Object.values(children).some(isChildBusy);

type Forked = EventBody & { type: 'session.forked' };

/**
 * The events that end the log of a copied session: that it is a copy, and that its run is paused, so that nothing goes
 * on in two places. A call that waits for approval is withdrawn.
 */
export function copiedSessionEvents(session: Session, forked: Forked): EventBody[] {
  const events: EventBody[] = [forked];
  const { open } = session.approvals;
  if (open) {
    const { call, id } = open;
    const why = 'This session is a copy; ask again if the call is still needed.';
    events.push({ type: 'approval.answered', call, id, decision: 'deny', by: 'withdrawn', why });
  }
  return [
    ...events,
    ...endRunEvents(sessionAfter(session, events), resolveRules(), { status: 'paused', reason: RUN_END.asked }),
  ];
}
