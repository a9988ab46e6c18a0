import { nearestName } from '../../base/strings.ts';
import type { EventBody } from '../../protocol/session/event.ts';
import { RUN_END, type RunEndCode } from '../../protocol/session/reply.ts';
import type { Rules } from '../../protocol/settings/effective-settings.ts';
import { parseCommand, SESSION_COMMANDS } from '../messages/commands.ts';
import { MESSAGE_ACTIONS, type MessageAction, messageKind } from '../messages/message-actions.ts';
import { withdrawQuestionEvents } from '../messages/questions.ts';
import { replyEvent, replyInWords, replyLanguage } from '../messages/replies.ts';
import { REPLY_WORDING } from '../messages/reply-wording.ts';
import { formatPlanSummary, formatStatus } from '../messages/status-report.ts';
import { shelvePlanEvent } from '../plan/plan-changes.ts';
import { PLAN_COMMAND_USAGE, runPlanCommand } from '../plan/plan-command.ts';
import { endRunEvents } from '../runs/end-run.ts';
import { namedShelvedPlan, resumeRunEvents, startRunEvents } from '../runs/run-lifecycle.ts';
import { isChildBusy, isFromAncestor } from '../session/child-session.ts';
import { editEvents } from '../session/sender-rights.ts';
import type { Message } from '../session/session-messages.ts';
import { planLeftPaused, sessionStatus } from '../session/session-queries.ts';
import type { Session } from '../session/session-state.ts';
import { answerApprovalEvents } from './approval-decisions.ts';
import { answerRestoreCommand, lastClosedStep, restoreOutcome, undoesFiles } from './checkpoint-decisions.ts';
import { answerBrowserCommand, askMeaning, holdAndAsk, settleDoubt } from './human-in-the-loop.ts';
import { answerModeCommand, answerModelCommand } from './mode-commands.ts';
import { sessionAfter } from './turn-events.ts';

/** The events for a queued message when its turn comes, by its action in the answer table. */
export function respondToMessage(session: Session, message: Message, rules: Rules): EventBody[] {
  const kind = messageKind(session, message);
  if ('forbidden' in kind)
    return replyInWords(session, message, rules, (words) => words.forbidden(kind.forbidden), 'rejected');
  if ('refused' in kind) return replyInWords(session, message, rules, () => kind.refused, 'rejected');
  if ('unknown' in kind) {
    const name = kind.unknown;
    const known = Object.values(SESSION_COMMANDS).map((command) => command.usage);
    const nearest = nearestName(name.slice(0, 80), Object.keys(SESSION_COMMANDS));
    return replyInWords(session, message, rules, (words) => words.unknown(name, nearest, known.join(', ')), 'rejected');
  }
  if (kind.kind === 'task' && isFromAncestor(session.name, message.from)) {
    const before = endEarlierTask(session);
    if (before.length > 0) return before;
  }
  const settled = settleDoubt(session, message);
  if (settled.length > 0) return settled;
  const answered = answerApprovalEvents(session, message, kind.kind, rules);
  const action = MESSAGE_ACTIONS[kind.kind][sessionStatus(session)];
  const halting = answered ? [] : stopAbandonedChildren(session, message, action);
  if (halting.length > 0) return halting;
  return answered ?? ACTIONS[action](session, message, rules);
}

/** A child session that is given a task drops the one it had stopped at, first: the message stays in the queue. */
function endEarlierTask(session: Session): EventBody[] {
  const { plan, runEnd, approvals } = session;
  const status = sessionStatus(session);
  if (approvals.open || (status !== 'paused' && status !== 'waiting')) return [];
  return [
    ...withdrawQuestionEvents(session, 'the task was given again'),
    ...(runEnd ? [changeRunEnd(session, runEnd.message, 'cancelled', RUN_END.asked)] : []),
    ...(plan && (plan.status === 'paused' || plan.status === 'waiting') ? [endPlanEvent(plan.id)] : []),
  ];
}

/**
 * Before a message leaves the plan for something else while a child session asks, the others are ordered to stop:
 * nobody would use their results. The message stays in the queue meanwhile.
 */
function stopAbandonedChildren(session: Session, message: Message, action: MessageAction): EventBody[] {
  const leaves =
    action === 'reset' ||
    action === 'start_beside' ||
    (action === 'resume' && namedShelvedPlan(session, message) !== undefined);
  const { runEnd, children } = session;
  if (!leaves || runEnd?.status !== 'waiting') return [];
  if (!Object.values(children).some((child) => child.state === 'working')) return [];
  return [
    ...withdrawQuestionEvents(session, 'the person turned to something else'),
    changeRunEnd(session, runEnd.message, 'paused', RUN_END.stopped),
  ];
}

type Action = (session: Session, message: Message, rules: Rules) => EventBody[];

/**
 * The events of each action. `join` and `wait` have none: the message waits for the next model call, or for its turn.
 */
const ACTIONS: Readonly<Record<MessageAction, Action>> = {
  join: () => [],
  wait: () => [],
  start: startRunEvents,
  start_beside: (session, message, rules) => startRunEvents(session, message, rules, session.plan ?? undefined),
  ask_meaning: askMeaning,
  hold_and_ask: holdAndAsk,
  resume: resumeRunEvents,
  pause_after_call: (session, message, rules) => [
    ...endRunEvents(session, rules, { status: 'paused', reason: RUN_END.asked }),
    ...replyInWords(session, message, rules, (words) => words.pausing),
  ],
  abort_and_pause: (session, message, rules) => [
    ...endRunEvents(session, rules, { status: 'paused', reason: RUN_END.stopped }),
    ...replyInWords(session, message, rules, (words) => words.stopped),
  ],
  abort_and_cancel: (session, message, rules) => [
    ...endRunEvents(session, rules, { status: 'cancelled', reason: RUN_END.asked }),
    ...replyInWords(session, message, rules, (words) => words.cancelled),
  ],
  // The run ends first; the message stays in the queue and is handled when the session is idle.
  abort_and_reset: (session, _message, rules) =>
    endRunEvents(session, rules, { status: 'cancelled', reason: RUN_END.newConversation }),
  mark_paused: (session, message, rules) => [
    ...withdrawQuestionEvents(session, 'the person paused the run'),
    changeRunEnd(session, message.id, 'paused', RUN_END.asked),
    ...replyInWords(session, message, rules, (words) => words.nowPaused),
  ],
  mark_cancelled: cancelEndedRun,
  reopen: reopenLastStep,
  restore: answerRestoreCommand,
  reset: startFreshConversation,
  show_status: answerStatus,
  show_plan: answerPlanCommand,
  show_help: (session, message, rules) =>
    replyInWords(session, message, rules, () =>
      Object.values(SESSION_COMMANDS)
        .map((it) => `${it.usage}: ${it.description}`)
        .join('\n'),
    ),
  about_mode: answerModeCommand,
  about_model: answerModelCommand,
  about_browser: answerBrowserCommand,
  reply_nothing_asked: (session, message, rules) =>
    replyInWords(session, message, rules, (words) => words.nothingAsked, 'rejected'),
  keep_for_later: (session, message, rules) => replyInWords(session, message, rules, (words) => words.kept, 'joined'),
  reply_nothing_runs: (session, message, rules) => replyInWords(session, message, rules, (words) => words.nothingRuns),
  reply_paused: answerAlreadyPaused,
  reply_planned: (session, message, rules) => replyInWords(session, message, rules, () => ''),
  reply_ended: (session, message, rules) => replyInWords(session, message, rules, (words) => words.alreadyEnded),
  reply_nothing_to_continue: answerNothingToContinue,
};

function cancelEndedRun(session: Session, message: Message, rules: Rules): EventBody[] {
  return [
    ...withdrawQuestionEvents(session, 'the person cancelled the run'),
    changeRunEnd(session, message.id, 'cancelled', RUN_END.asked),
    ...(session.plan && planLeftPaused(session) === undefined ? [endPlanEvent(session.plan.id)] : []),
    ...replyInWords(session, message, rules, (words) => words.cancelled),
  ];
}

const endPlanEvent = (plan: string): EventBody => ({
  type: 'plan.ended',
  plan,
  status: 'cancelled',
  reason: RUN_END.asked,
});

function answerStatus(session: Session, message: Message, rules: Rules): EventBody[] {
  const language = replyLanguage(session, message, rules);
  return [replyEvent(session, message.id, { status: 'done', text: formatStatus(session, language) }, language)];
}

function answerAlreadyPaused(session: Session, message: Message, rules: Rules): EventBody[] {
  if (!isStopAfterPause(session, message)) return replyInWords(session, message, rules, (words) => words.alreadyPaused);
  return [
    changeRunEnd(session, message.id, 'paused', RUN_END.stopped),
    ...replyInWords(session, message, rules, (words) => words.stopped),
  ];
}

/** `/plan` shows the plan; followed by text, it changes it. */
function answerPlanCommand(session: Session, message: Message, rules: Rules): EventBody[] {
  const { plan } = session;
  const command = (parseCommand(message)?.rest ?? '').trim();
  const isUndo = command.toLowerCase() === 'undo';
  if (!plan) {
    const isOrder = command !== '' && !isUndo;
    return replyInWords(session, message, rules, (words) => words.noPlan, isOrder ? 'rejected' : 'done');
  }
  if (command === '') return replyInWords(session, message, rules, (_, language) => formatPlanSummary(plan, language));
  if (isUndo) return reopenLastStep(session, message, rules);
  const done = runPlanCommand(plan, session.lastStepNumber, command);
  const events = editEvents(message, done?.changes ?? []);
  return [
    ...events,
    ...replyInWords(
      sessionAfter(session, events),
      message,
      rules,
      () => done?.reply ?? PLAN_COMMAND_USAGE,
      done && !done.isRefused ? 'done' : 'rejected',
    ),
  ];
}

/** A pause lets the calls of child sessions finish; a stop after it does not. */
function isStopAfterPause(session: Session, message: Message): boolean {
  const kind = messageKind(session, message);
  const isStop = 'kind' in kind && kind.kind === 'stop';
  return isStop && session.runEnd?.reason !== RUN_END.stopped && Object.values(session.children).some(isChildBusy);
}

/** Changes how a run that has already stopped ended. */
function changeRunEnd(
  session: Session,
  message: string,
  status: 'paused' | 'cancelled',
  reason: RunEndCode,
): EventBody {
  return {
    type: 'run.ended',
    message,
    status,
    reason,
    text: '',
    spent: session.runEnd?.spent ?? { iterations: 0, tokens: 0, cost: null },
  };
}

function reopenLastStep(session: Session, message: Message, rules: Rules): EventBody[] {
  // A person who was asked whether the step is done and says no has answered; no other step is meant.
  if (session.claim && session.runEnd?.reason === RUN_END.check && !undoesFiles(message))
    return resumeRunEvents(session, message, rules);
  const outcome = undoesFiles(message) ? restoreOutcome(session, message, rules) : null;
  if (outcome === undefined) return [];
  if (outcome?.is === 'rejected')
    return replyInWords(session, message, rules, ({ restore }) => outcome.text(restore), outcome.is);
  const step = lastClosedStep(session);
  if (!step)
    return replyInWords(session, message, rules, (words) => (session.plan ? words.nothingToUndo : words.noPlan));
  const runs = session.run !== null;
  const events: EventBody[] = [
    { type: 'step.reopened', step: step.id, by: message.by ?? 'person', message: message.id },
  ];
  return [
    ...events,
    ...replyInWords(sessionAfter(session, events), message, rules, (words) =>
      [
        ...(outcome ? [outcome.text(words.restore)] : []),
        runs ? words.reopened(step.description) : words.reopenedWhileIdle(step.description),
      ].join('\n'),
    ),
  ];
}

function startFreshConversation(session: Session, message: Message, rules: Rules): EventBody[] {
  const { plan } = session;
  const open = plan && (plan.status === 'paused' || plan.status === 'waiting' || plan.status === 'running');
  const language = replyLanguage(session, message, rules);
  const words = REPLY_WORDING[language];
  return [
    ...(open ? [shelvePlanEvent(plan.id)] : []),
    { type: 'context.compacted', upto: session.seq, summary: '' },
    replyEvent(
      session,
      message.id,
      { status: 'done', text: plan ? words.freshArchived(plan.goal) : words.fresh, plan: null },
      language,
    ),
  ];
}

/** The bare command has nothing to continue; "continue" with more text is a task like any other. */
function answerNothingToContinue(session: Session, message: Message, rules: Rules): EventBody[] {
  if (isFromAncestor(session.name, message.from)) return [reportLastRun(session, message, rules)];
  const rest = parseCommand(message)?.rest ?? message.text;
  const first = rest.trim().split(/\s/)[0] ?? '';
  if (namedShelvedPlan(session, message) !== undefined) return resumeRunEvents(session, message, rules);
  if (first !== '')
    return Object.hasOwn(session.shelvedPlans, first) || /^plan_\d+$/.test(first)
      ? resumeRunEvents(session, message, rules)
      : startRunEvents(session, message, rules);
  return replyInWords(session, message, rules, (words) => words.nothingToContinue);
}

/** A child reports the result of its last run to its parent; a child without a run has lost its task. */
function reportLastRun(session: Session, message: Message, rules: Rules): EventBody {
  const { runEnd } = session;
  const language = replyLanguage(session, message, rules);
  if (!runEnd) {
    const text = REPLY_WORDING[language].nothingToContinue;
    return replyEvent(session, message.id, { status: 'failed', reason: RUN_END.stateLost, text }, language);
  }
  const { status, reason, text, files = [], exitStatus } = runEnd;
  const facts = { status, reason, text, attachments: [...files], ...(exitStatus !== null && { exit: exitStatus }) };
  return replyEvent(session, message.id, facts, language);
}
