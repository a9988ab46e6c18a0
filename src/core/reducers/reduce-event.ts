import { appendList, listItems, mapGet, mapSet, omitKey } from '../../base/collections.ts';
import type { Event, EventBody, EventOf } from '../../protocol/session/event.ts';
import { inlineText } from '../../protocol/session/log-entry.ts';
import { giveTimeAgain } from '../session/child-session.ts';
import { FRESH_PLAN_PROGRESS } from '../session/progress-state.ts';
import type { Run } from '../session/run-state.ts';
import { withSendersReach } from '../session/sender-rights.ts';
import {
  discardAnsweredTexts,
  dropKey,
  type HistoryItem,
  type Message,
  toTakenDrop,
  withoutText,
} from '../session/session-messages.ts';
import type { Session } from '../session/session-state.ts';
import { titleFromMessage } from '../text/prose.ts';
import { markApprovalSeen, reduceApproval, reduceBrowserHold, reduceChildCalls } from './reduce-approval.ts';
import { reduceChild } from './reduce-child.ts';
import { reduceCrashCounts } from './reduce-crash-counts.ts';
import { isKeptForModel, keepForLater, reduceMeaning } from './reduce-meaning.ts';
import { reducePlan } from './reduce-plan.ts';
import { reduceMode, reduceRunEnd, reduceRunResumed, reduceRunStarted } from './reduce-run.ts';
import { reduceStep } from './reduce-step.ts';
import { reduceModelAnswer, reduceToolCall } from './reduce-turn.ts';
import { checkpointDueAfter, reduceForked, reduceWork } from './reduce-work.ts';

/** Applies an event to a session. Pure and total: the same events always give the same session. */
export function reduceEvent(session: Session, event: Event): Session {
  const due = checkpointDueAfter(session, event);
  const work = due === session.work.due ? session.work : { ...session.work, due };
  const next = { ...session, seq: event.seq, at: event.at, crashes: reduceCrashCounts(session, event), work };
  return addElapsedTime(applyEvent(next, event), event);
}

function applyEvent(session: Session, event: Event): Session {
  switch (event.type) {
    case 'session.opened':
      return session;
    case 'session.forked':
      return reduceForked(session, event);
    case 'recovery.started':
      return recoveryStarted(session, event);
    case 'daemon.stopped':
      return { ...session, lastStopSeq: event.seq };
    case 'message.received':
      return messageReceived(session, event);
    case 'message.interpreted':
    case 'meaning.asked':
      return reduceMeaning(session, event);
    case 'run.started':
      return reduceRunStarted(session, event);
    case 'run.resumed':
      return reduceRunResumed(session, event);
    case 'run.ended':
      return reduceRunEnd(session, event);
    case 'model.set':
      return { ...session, model: event.model };
    case 'mode.chosen':
    case 'mode.set':
      return reduceMode(session, event);
    case 'model.answered':
      return reduceModelAnswer(withSendersReach(session, 'run', event.delivered.map(rightsIn(session))), event);
    case 'model.failed':
      return modelFailed(session, event);
    case 'tool.started':
    case 'tool.finished':
    case 'tool.interrupted':
      return reduceToolCall(session, event);
    case 'approval.asked':
    case 'approval.answered':
      return reduceApproval(session, event);
    case 'browser.taken':
    case 'browser.returned':
      return reduceBrowserHold(session, event);
    case 'work.saved':
    case 'work.restored':
      return reduceWork(session, event);
    case 'child.sent':
    case 'child.replied':
      return reduceChild(session, event);
    case 'child.asked':
      return reduceChildCalls(session, event);
    case 'context.compacted':
      return reduceCompaction(session, event);
    case 'reply.committed':
      return replyCommitted(session, event);
    case 'reply.published':
      return markApprovalSeen(
        { ...session, unpublishedReplies: omitKey(session.unpublishedReplies, event.message) },
        event.message,
      );
    case 'plan.edited':
      return reducePlan(editOrderTaken(session, event), event);
    case 'plan.started':
    case 'plan.revised':
    case 'plan.ended':
      return reducePlan(session, event);
    case 'step.added':
    case 'step.started':
    case 'step.progressed':
    case 'step.claimed':
    case 'step.asked':
    case 'step.completed':
    case 'step.failed':
    case 'step.blocked':
    case 'step.skipped':
    case 'step.reopened':
      return reduceStep(session, event);
    default:
      return event satisfies never;
  }
}

/** The session after these events. */
export const sessionAfter = (session: Session, events: readonly EventBody[]): Session =>
  events.reduce((so, body) => reduceEvent(so, { v: 2, seq: so.seq + 1, epoch: 1, at: so.at, ...body }), session);

const rightsIn =
  ({ messages }: Session) =>
  (id: string) =>
    mapGet(messages, id)?.rights;

const reduceCompaction = (session: Session, { kept, summary }: EventOf<'context.compacted'>): Session =>
  kept === undefined ? resetConversation(session) : compactConversation(session, summary, kept);

/** The subject of a message, in about a line; '' for a command, as `titleFromMessage` has it of one with a slash. */
function goalOfMessage({ text, command, template }: Message): string {
  if (template && 'goal' in template) return template.goal;
  return command === undefined ? text : '';
}

/** Starts the conversation over, without a plan. */
function resetConversation(session: Session): Session {
  return {
    ...session,
    messages: discardAnsweredTexts(session.messages, session.undelivered),
    conversation: appendList(),
    plan: null,
    turn: null,
    runEnd: null,
    question: null,
    doubt: null,
    undelivered: [],
    notices: [],
    ...FRESH_PLAN_PROGRESS,
    jobsEndSeq: session.seq,
  };
}

/** Replaces the oldest turns with a summary; the last messages stay as they are. */
function compactConversation(session: Session, summary: string, kept: number): Session {
  const last = listItems(session.conversation).slice(-kept);
  const item = { type: 'summary', nonce: session.promptNonce, text: summary } as const;
  return { ...session, conversation: appendList<HistoryItem>([item, ...last]) };
}

function modelFailed(session: Session, event: EventOf<'model.failed'>): Session {
  const { run, contextWindows } = session;
  if (!run) return session;
  const tries = { ...run.failure?.tries, [event.kind]: (run.failure?.tries?.[event.kind] ?? 0) + 1 };
  const shown = event.window === undefined ? contextWindows : { ...contextWindows, [run.model ?? '']: event.window };
  return {
    ...session,
    contextWindows: shown,
    run: { ...run, failure: { silent_ms: outageDuration(run.failure, event), tries, last: event } },
  };
}

function messageReceived(session: Session, event: EventOf<'message.received'>): Session {
  const message: Message = {
    id: event.id,
    name: event.name,
    at: event.at,
    text: inlineText(event.body),
    sha256: event.file.sha256,
    arrivedDuringRun: session.run !== null,
    isReplied: false,
    ...(event.from !== undefined && { from: event.from }),
    ...(event.command !== undefined && { command: event.command }),
    ...(event.options && { options: event.options }),
    ...(event.attachments && { attachments: event.attachments }),
    ...(event.files && { files: event.files }),
    ...(event.as && { as: event.as }),
    ...(event.by && { by: event.by }),
    ...(event.rights && { rights: event.rights }),
    ...(event.template && { template: event.template }),
    ...(event.planned && { planned: event.planned }),
  };
  return {
    ...session,
    title: session.title ?? titleFromMessage(goalOfMessage(message)),
    messages: mapSet(session.messages, message.id, message),
    replyNames: mapSet(session.replyNames, message.name, true),
    takenDrops: mapSet(session.takenDrops, dropKey(event.file), toTakenDrop(event.seq, event.id, event.file)),
    unanswered: [...session.unanswered, message.id],
    queue: [...session.queue, message.id],
  };
}

function recoveryStarted(session: Session, { at, cut = [] }: EventOf<'recovery.started'>): Session {
  const children = giveTimeAgain(session.children, at);
  return { ...session, children, cuts: [...session.cuts, ...cut], unreportedCuts: [...session.unreportedCuts, ...cut] };
}

/** An order to edit the plan is known like an answered message, so that its file is taken once. */
function editOrderTaken(session: Session, { seq, at, order, file }: EventOf<'plan.edited'>): Session {
  if (order === undefined || !file) return session;
  const name = file.name ?? order;
  const taken = { id: order, name, at, text: '', sha256: file.sha256, arrivedDuringRun: false, isReplied: true };
  return {
    ...session,
    messages: mapSet(session.messages, order, taken),
    replyNames: mapSet(session.replyNames, name, true),
    takenDrops: mapSet(session.takenDrops, dropKey(file), toTakenDrop(seq, order, file)),
  };
}

function replyCommitted(session: Session, event: EventOf<'reply.committed'>): Session {
  const message = mapGet(session.messages, event.message);
  const isKept = message !== undefined && session.queue.includes(message.id) && isKeptForModel(session, event, message);
  const { undelivered, messages } = isKept ? keepForLater(session, message) : session;
  return {
    ...session,
    undelivered,
    messages: message ? mapSet(messages, message.id, answeredMessage(undelivered, message)) : messages,
    replyNames: mapSet(session.replyNames, event.reply.id, true),
    takenDrops: event.file
      ? mapSet(session.takenDrops, dropKey(event.file), toTakenDrop(event.seq, event.message, event.file))
      : session.takenDrops,
    unanswered: session.unanswered.filter((id) => id !== event.message),
    queue: session.queue.filter((id) => id !== event.message),
    unpublishedReplies: { ...session.unpublishedReplies, [event.message]: event.reply },
    // The reply has already reported it.
    planProblem: event.reply.status === 'rejected' ? session.planProblem : null,
    unreportedCuts: event.reply.status === 'rejected' ? session.unreportedCuts : [],
  };
}

/** A message not yet delivered to the model keeps its text, even if it has been answered. */
function answeredMessage(undelivered: readonly string[], message: Message): Message {
  return undelivered.includes(message.id) ? { ...message, isReplied: true } : withoutText(message);
}

/**
 * Adds the duration an event reports to a run. The logged times of day are not compared: a machine's clock may be set
 * back or forward an hour in the middle of a run.
 */
function addElapsedTime(session: Session, event: Event): Session {
  const ms = durationOf(event);
  const { run, stepMs = 0 } = session;
  if (!run || ms <= 0) return session;
  return { ...session, run: { ...run, elapsedMs: run.elapsedMs + ms }, stepMs: run.besidePlan ? stepMs : stepMs + ms };
}

function durationOf(event: Event): number {
  if (event.type === 'model.answered' || event.type === 'tool.finished') return event.ms;
  return event.type === 'model.failed' ? (event.ms ?? 0) + retryDelay(event) : 0;
}

/** How long an endpoint has been silent at this failure, counted from the first failure in the row. */
function outageDuration(before: Run['failure'], event: EventOf<'model.failed'>): number {
  if (!before) return 0;
  // A person may have had it tried earlier.
  const waited = Math.max(0, Date.parse(event.at) - Date.parse(before.last.at));
  return before.silent_ms + Math.min(retryDelay(before.last), waited) + (event.ms ?? 0);
}

/** A budget that is used up says nothing about the endpoint, and waiting for it costs the run no time. */
function retryDelay({ at, retry_at, kind }: EventOf<'model.failed'>): number {
  return retry_at === null || kind === 'budget' ? 0 : Math.max(0, Date.parse(retry_at) - Date.parse(at));
}
