import { getOwn } from '../../base/collections.ts';
import { truncate } from '../../base/strings.ts';
import type { EventBody } from '../../protocol/session/event.ts';
import type { Plan } from '../../protocol/session/plan.ts';
import { RUN_END } from '../../protocol/session/run-end.ts';
import type { Rules } from '../../protocol/settings/effective-settings.ts';
import { resolveLimits } from '../../protocol/settings/run-options.ts';
import { nextPersonCheck } from '../detect/step-claims.ts';
import { isConfirmation } from '../messages/approval-answers.ts';
import { parseCommand, textWithoutCommand } from '../messages/commands.ts';
import { classifyIntent } from '../messages/intent.ts';
import { withdrawQuestionEvents } from '../messages/questions.ts';
import { replyInWords } from '../messages/replies.ts';
import { initialMode } from '../modes/mode-choice.ts';
import { shelvePlanEvent } from '../plan/plan-changes.ts';
import { isFromAncestor } from '../session/child-session.ts';
import { CHECK_TOOL, checkCallKey } from '../session/internal-calls.ts';
import type { Message } from '../session/session-messages.ts';
import type { Session } from '../session/session-state.ts';
import { planFromTemplate } from '../templates/template-plan.ts';

/** Starts a run, next to an open plan if there is one; a template brings its own plan, and shelves the open one. */
export function startRunEvents(session: Session, message: Message, rules: Rules, open?: Plan): EventBody[] {
  const run = { ...runStartedEvent(session, message, rules), ...(open && { paused_plan: open.id }) };
  const { template } = message;
  const before = withdrawQuestionEvents(session, 'the person began something else');
  if (!template || 'fault' in template) return [...before, run];
  return [...before, run, ...(open ? [shelvePlanEvent(open.id)] : []), ...planFromTemplate(session, run, template)];
}

function runStartedEvent(session: Session, message: Message, rules: Rules): EventBody & { type: 'run.started' } {
  const model = message.options?.model ?? rules.model;
  const { template } = message;
  const limits = template && 'text' in template ? template.limits : undefined;
  return {
    type: 'run.started',
    message: message.id,
    ...initialMode(session, message, rules),
    limits: resolveLimits(rules.limits, limits, message.options?.limits),
    ...(model !== undefined && { model }),
    ...(message.options?.agent !== undefined && { agent: message.options.agent }),
    ...(message.options?.folder !== undefined && { folder: message.options.folder }),
  };
}

/** Resumes the current plan, or the named one if it was shelved. */
export function resumeRunEvents(session: Session, message: Message, rules: Rules): EventBody[] {
  const [first = ''] = (parseCommand(message)?.rest ?? '').split(/\s/);
  const fromAbove = isFromAncestor(session.name, message.from);
  const named = !fromAbove && Object.hasOwn(session.shelvedPlans, first) ? first : undefined;
  if (!fromAbove && named === undefined && /^plan_\d+/.test(first) && first !== session.plan?.id) {
    const known = Object.keys(session.shelvedPlans);
    return replyInWords(session, message, rules, (words) => words.noSuchPlan(first, known));
  }
  const away =
    named !== undefined && (session.plan?.status === 'paused' || session.plan?.status === 'waiting')
      ? [shelvePlanEvent(session.plan.id)]
      : [];
  const {
    model: _,
    mode: __,
    mode_reason: ___,
    agent: ____,
    folder: _____,
    ...began
  } = runStartedEvent(session, message, rules);
  const model = message.options?.model ?? rules.model;
  const { limitsByPerson } = (named === undefined ? session : getOwn(session.shelvedProgress, named)) ?? {};
  return [
    ...(named === undefined ? [] : withdrawQuestionEvents(session, 'the person took up another plan')),
    ...away,
    {
      ...began,
      type: 'run.resumed',
      by: 'person',
      limits: resolveLimits(rules.limits, limitsByPerson ?? undefined, message.options?.limits),
      ...(named !== undefined && { plan: named }),
      ...(model !== undefined && { model }),
    },
    ...personCheckEvents(session, message),
  ];
}

/**
 * The answer to a person's check on which a run waits: yes passes the check, a bare "continue" asks again, anything
 * else is passed on to the model.
 */
function personCheckEvents(session: Session, message: Message): EventBody[] {
  const { claim, runEnd } = session;
  const place = claim ? nextPersonCheck(session, claim) : undefined;
  if (!claim || place === undefined || runEnd?.reason !== RUN_END.check) return [];
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
