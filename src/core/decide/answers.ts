import type { EventBody } from '../../protocol/session/event.ts';
import type { Step } from '../../protocol/session/plan.ts';
import { RUN_END, type RunEndCode } from '../../protocol/session/reply.ts';
import type { Language, Rules } from '../../protocol/settings/effective-settings.ts';
import { MODES } from '../../protocol/settings/run-options.ts';
import { parseCommand, parseModeCommand, undoesFiles } from '../messages/commands.ts';
import { type MessageAction, SESSION_COMMANDS } from '../messages/message-table.ts';
import { replyEvent, replyInWords, replyLanguage } from '../messages/replies.ts';
import { REPLY_WORDING } from '../messages/reply-wording.ts';
import { formatPlanSummary, formatStatus } from '../messages/status-report.ts';
import { shelvePlanEvent } from '../plan/plan-changes.ts';
import { PLAN_COMMAND_WORDING, runPlanCommand } from '../plan/plan-command.ts';
import { findStep, isOpenStep } from '../plan/plan-steps.ts';
import { withdrawQuestionEvents } from '../prompt/chat-messages.ts';
import { sessionAfter } from '../reducers/reduce-event.ts';
import { endRunEvents } from '../runs/end-run.ts';
import { namedShelvedPlan, resumeRunEvents, startRunEvents } from '../runs/run-lifecycle.ts';
import { isChildBusy, isFromAncestor } from '../session/child-session.ts';
import { editEvents } from '../session/sender-rights.ts';
import type { Message } from '../session/session-messages.ts';
import { planLeftPaused } from '../session/session-queries.ts';
import type { Session } from '../session/session-state.ts';
import { answerRestoreCommand, lastClosedStep, restoreOutcome } from './checkpoint-decisions.ts';
import { childFacts } from './close-run.ts';
import { answerBrowserCommand, askMeaning, holdAndAsk } from './human-in-the-loop.ts';

type Action = (session: Session, message: Message, rules: Rules) => EventBody[];

/**
 * The events of each action. `join` and `wait` have none: the message waits for the next model call, or for its turn.
 */
export const ACTIONS: Readonly<Record<MessageAction, Action>> = {
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
  show_status: (session, message, rules) =>
    replyInWords(session, message, rules, (_, language) => formatStatus(session, language)),
  show_plan: answerPlanCommand,
  show_help: (session, message, rules) =>
    replyInWords(session, message, rules, () =>
      Array.from(SESSION_COMMANDS.values(), ({ usage, help }) => `${usage}: ${help}`).join('\n'),
    ),
  about_mode: answerModeCommand,
  about_model: answerModelCommand,
  about_browser: answerBrowserCommand,
  reply_nothing_asked: (session, message, rules) =>
    replyInWords(session, message, rules, (words) => words.nothingAsked, 'rejected'),
  keep_for_later: (session, message, rules) => replyInWords(session, message, rules, (words) => words.kept, 'joined'),
  reply_nothing_runs: (session, message, rules) => replyInWords(session, message, rules, (words) => words.nothingRuns),
  stop_children: stopAfterPause,
  reply_paused: (session, message, rules) => replyInWords(session, message, rules, (words) => words.alreadyPaused),
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

export const endPlanEvent = (plan: string): EventBody => ({
  type: 'plan.ended',
  plan,
  status: 'cancelled',
  reason: RUN_END.asked,
});

/** A pause lets the calls of child sessions finish; a stop after it does not. */
function stopAfterPause(session: Session, message: Message, rules: Rules): EventBody[] {
  if (session.runEnd?.reason === RUN_END.stopped || !Object.values(session.children).some(isChildBusy))
    return replyInWords(session, message, rules, (words) => words.alreadyPaused);
  return [
    changeRunEnd(session, message.id, 'paused', RUN_END.stopped),
    ...replyInWords(session, message, rules, (words) => words.stopped),
  ];
}

/** `/plan` shows the plan; followed by text, it changes it. */
function answerPlanCommand(session: Session, message: Message, rules: Rules): EventBody[] {
  const { plan } = session;
  const command = (parseCommand(message)?.rest ?? '').trim();
  const [, named] = /^undo(?:\s+(\S+))?$/i.exec(command) ?? [];
  const isUndo = command.toLowerCase() === 'undo';
  if (!plan) {
    const isOrder = command !== '' && !isUndo;
    return replyInWords(session, message, rules, (words) => words.noPlan, isOrder ? 'rejected' : 'done');
  }
  if (command === '') return replyInWords(session, message, rules, (_, language) => formatPlanSummary(plan, language));
  if (isUndo) return reopenLastStep(session, message, rules);
  const closed = named === undefined ? undefined : findStep(plan, named);
  if (closed && closed.status !== 'blocked' && !isOpenStep(plan, closed.id))
    return reopenStep(session, message, rules, closed);
  const words = PLAN_COMMAND_WORDING[replyLanguage(session, message, rules)];
  const done = runPlanCommand(plan, session.lastStepNumber, command, words);
  const events = editEvents(message, done.changes);
  const status = done.isRefused ? 'rejected' : 'done';
  return [...events, ...replyInWords(sessionAfter(session, events), message, rules, () => done.reply, status)];
}

/** Changes how a run that has already stopped ended. */
export function changeRunEnd(
  session: Session,
  message: string,
  status: 'paused' | 'cancelled',
  reason: RunEndCode,
): EventBody {
  const spent = session.runEnd?.spent ?? { iterations: 0, tokens: 0, cost: null };
  return { type: 'run.ended', message, status, reason, text: '', spent };
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
  return reopenStep(session, message, rules, step, outcome);
}

function reopenStep(
  session: Session,
  message: Message,
  rules: Rules,
  step: Step,
  outcome?: ReturnType<typeof restoreOutcome> | null,
): EventBody[] {
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
  const { status, reason, text, files = [] } = runEnd;
  const facts = { status, reason, text, attachments: [...files], ...childFacts(session, runEnd) };
  return replyEvent(session, message.id, facts, language);
}

/** `/mode` shows the mode; followed by a mode, it sets that mode for the next tasks. */
function answerModeCommand(session: Session, message: Message, rules: Rules): EventBody[] {
  const command = parseModeCommand(message) ?? { is: 'show' };
  const known = [...MODES, 'default'].join(', ');
  const words = MODE_WORDING[replyLanguage(session, message, rules)];
  const say = (text: string, status?: 'rejected') => replyInWords(session, message, rules, () => text, status);
  if (command.is === 'unknown') return say(words.noSuchMode(command.name, known), 'rejected');
  if (command.is !== 'set') return say(words.modeIs(session.mode ?? rules.mode, session.mode !== null, known));
  const { mode } = command;
  return [{ type: 'mode.set', mode, message: message.id }, ...say(words.modeSet(mode ?? rules.mode))];
}

/** `/model` shows the model; followed by a name, it sets that model for the next tasks. */
function answerModelCommand(session: Session, message: Message, rules: Rules): EventBody[] {
  const [name = ''] = (parseCommand(message)?.rest ?? '').trim().split(/\s+/);
  const known = [...rules.models, 'default'].join(', ');
  const words = MODE_WORDING[replyLanguage(session, message, rules)];
  const say = (text: string) => replyInWords(session, message, rules, () => text);
  if (name === '') return say(words.modelIs(session.model ?? rules.model ?? '-', session.model !== null, known));
  const model = name.toLowerCase() === 'default' ? null : name;
  const isNamed = model === null || rules.models.includes(model);
  return [
    { type: 'model.set', model, message: message.id },
    ...say(words.modelSet(model ?? rules.model ?? '-', isNamed, known)),
  ];
}

const MODE_WORDING_ENGLISH = {
  modeIs: (mode: string, bySession: boolean, known: string) =>
    `The mode is ${mode}${bySession ? ', set by /mode' : ', from the settings'}. To set it for this session: /mode <mode>. Modes: ${known}.`,
  modelIs: (model: string, bySession: boolean, known: string) =>
    `The model is ${model}${bySession ? ', set by /model' : ', from the settings'}. To set it for this session: /model <name>. Names: ${known}, or what the endpoint calls its models.`,
  modelSet: (model: string, isNamed: boolean, known: string) =>
    `New tasks in this session will use the model ${model}.${isNamed ? '' : ` It is none of the names in the settings (${known}), so the endpoint has to know it.`}`,
  modeSet: (mode: string) => `New tasks in this session will use the mode ${mode}.`,
  noSuchMode: (name: string, known: string) => `Unknown mode "${name}". Modes: ${known}.`,
};

/** What the two commands say. */
const MODE_WORDING: Record<Language, typeof MODE_WORDING_ENGLISH> = {
  en: MODE_WORDING_ENGLISH,
  zh: {
    modeIs: (mode, bySession, known) =>
      `当前模式为 ${mode}（${bySession ? '由 /mode 设定' : '来自设置'}）。为本会话设定：/mode <模式>。可用：${known}。`,
    modelIs: (model, bySession, known) =>
      `当前模型是 ${model}${bySession ? '，由 /model 设定' : '，来自设置'}。为本会话设定：/model <名称>。可用名称：${known}，或接口自己的模型名。`,
    modelSet: (model, isNamed, known) =>
      `本会话今后的任务将使用模型 ${model}。${isNamed ? '' : `它不在设置的名称（${known}）之中，接口必须认识它。`}`,
    modeSet: (mode) => `本会话今后的任务将以 ${mode} 模式进行。`,
    noSuchMode: (name, known) => `未知模式“${name}”。可用：${known}。`,
  },
};
