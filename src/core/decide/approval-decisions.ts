import { escapeInvisible, truncate } from '../../base/strings.ts';
import type { EventBody } from '../../protocol/session/event.ts';
import { RUN_END } from '../../protocol/session/reply.ts';
import type { Rules } from '../../protocol/settings/effective-settings.ts';
import { callInReply, parseConsent, saysOtherwise } from '../messages/approval-answers.ts';
import { parseCommand, textWithoutCommand } from '../messages/commands.ts';
import { type MessageKind, messageInfo } from '../messages/message-table.ts';
import { replyEvent, standInMessage } from '../messages/replies.ts';
import { REPLY_WORDING } from '../messages/reply-wording.ts';
import { denialKey } from '../reducers/reduce-approval.ts';
import type { DueEvents } from '../runs/decision.ts';
import { endRunEvents } from '../runs/end-run.ts';
import type { PendingApproval, TurnCall } from '../session/run-state.ts';
import type { Message } from '../session/session-messages.ts';
import { sessionLanguage } from '../session/session-queries.ts';
import type { RunEndReason, Session } from '../session/session-state.ts';

/**
 * How often one call may be denied in a run before the run ends: a model that ignores a denial needs a person's help.
 */
const MAX_DENIALS = 3;

/** Ends the run because a call needs a person's approval. Its calls stay open, and the reply asks the question. */
export function endForApprovalEvents(session: Session, rules: Rules): EventBody[] {
  const { open } = session.approvals;
  if (!session.run || !open) return [];
  const text = approvalQuestionText(session, rules, open);
  return endRunEvents(session, rules, { status: 'waiting', reason: RUN_END.approval, text, keepsCalls: true });
}

/** The question to the person: the exact call, why approval is needed, and how to answer. */
function approvalQuestionText(
  session: Session,
  rules: Rules,
  { id, name, why, display, always, expires_at }: PendingApproval,
): string {
  const words = REPLY_WORDING[sessionLanguage(session, rules)];
  const parts = [
    words.asks(id, name, why),
    callInReply(display, words.asksCut(id)),
    words.asksHow(id, always, expires_at),
  ];
  return escapeInvisible(parts.join('\n\n'));
}

/** The time by which a person has to answer the open call, and the events that are due if nobody does. */
export function approvalTimeout(session: Session): { due?: DueEvents } {
  const { open } = session.approvals;
  if (!open) return {};
  return {
    due: {
      at: open.expires_at,
      events: approvalAnsweredEvents(session, { decision: 'deny', by: 'nobody', why: DENIED_UNANSWERED }),
    },
  };
}

/** Tells the model that nobody answered in time. */
export const DENIED_UNANSWERED = 'denied: nobody answered';
export const DENIED_BY_PERSON = 'denied: a person said no';
const DENIED_BY_OTHER_WORDS = 'not approved: the person wrote something else instead, see their message';
const DENIED_WITHDRAWN = 'denied: a person sent something else instead of an answer';

type ApprovalAnswer = Pick<Extract<EventBody, { type: 'approval.answered' }>, 'decision' | 'by' | 'why'> & {
  always?: string | null;
  message?: Message;
  joins?: boolean;
};

/**
 * The answer to the open call, as events. The reply to the message that answered reports how the run ends; if no
 * message answered, a stand-in message gets that reply.
 */
export function approvalAnsweredEvents(
  session: Session,
  { decision, by, why, always, message, joins }: ApprovalAnswer,
): EventBody[] {
  const { open } = session.approvals;
  if (!open) return [];
  return [
    {
      type: 'approval.answered',
      ...{ call: open.call, id: open.id, decision, by, why },
      ...(always && { always }),
      ...(message ? { message: message.id } : standInMessage(session, `approval-${open.id}`, open.run?.message)),
      ...(joins && { joins }),
    },
  ];
}

/** What a message means for the open call; null if it means nothing for it, or no call is open. */
export function answerApprovalEvents(
  session: Session,
  message: Message,
  kind: MessageKind,
  rules: Rules,
): EventBody[] | null {
  const { open } = session.approvals;
  if (!open || session.run) return null;
  const withdrawn = { decision: 'deny', by: 'withdrawn', why: DENIED_WITHDRAWN } as const;
  const { whileAsked } = messageInfo(kind);
  switch (whileAsked) {
    case 'answers':
      return answerByCommand(session, message, kind === 'deny', rules);
    case 'words':
      return answerByWords(session, message, kind === 'continue', rules);
    case 'withdraws':
      // The run resumes, and the next iteration handles the message.
      return [{ type: 'approval.answered', call: open.call, id: open.id, ...withdrawn }];
    case 'denies':
      return approvalAnsweredEvents(session, withdrawn);
    case undefined:
      return null;
    default:
      return whileAsked satisfies never;
  }
}

/** `/approve 3 always`, `/deny 3`. */
function answerByCommand(session: Session, message: Message, isDenial: boolean, rules: Rules): EventBody[] {
  const { open } = session.approvals;
  const by = message.by ?? 'person';
  const words = (parseCommand(message)?.rest ?? '').toLowerCase().split(/\s+/).filter(Boolean);
  // Of a denial everything else is for the model.
  const named = words.find((word, place) => (isDenial ? place === 0 && /^\d+$/.test(word) : word !== 'always'));
  if (named !== undefined && named !== String(open?.id)) {
    const language = sessionLanguage(session, rules);
    const text = REPLY_WORDING[language].notThatOne(named, open?.id ?? 0);
    return [replyEvent(session, message.id, { status: 'rejected', text }, language)];
  }
  if (isDenial) {
    const says = textWithoutCommand(message).trim() !== '';
    const why = says ? DENIED_BY_OTHER_WORDS : DENIED_BY_PERSON;
    return approvalAnsweredEvents(session, { decision: 'deny', by, why, message, joins: says });
  }
  const always = words.includes('always') ? (open?.always ?? null) : null;
  return approvalAnsweredEvents(session, { decision: 'allow', by, why: '', always, message });
}

/**
 * Plain words: yes, no, or another wish ("no, use the copy"), which denies and is passed on to the model. Any other
 * words decide nothing: they are kept for the model, and the call waits on.
 */
function answerByWords(session: Session, message: Message, isContinue: boolean, rules: Rules): EventBody[] {
  const { open } = session.approvals;
  const text = textWithoutCommand(message);
  const consent = message.attachments ? null : parseConsent(text);
  if (consent === 'deny')
    return approvalAnsweredEvents(session, { decision: 'deny', by: 'chat', why: DENIED_BY_PERSON, message });
  if (consent !== null) {
    const always = consent === 'always' ? (open?.always ?? null) : null;
    return approvalAnsweredEvents(session, { decision: 'allow', by: 'chat', why: '', always, message });
  }
  if (!open) return [];
  const isOtherWish = message.attachments === undefined && saysOtherwise(text);
  if (!isContinue && isOtherWish)
    return approvalAnsweredEvents(session, {
      decision: 'deny',
      by: 'chat',
      why: DENIED_BY_OTHER_WORDS,
      message,
      joins: true,
    });
  const language = sessionLanguage(session, rules);
  const question = approvalQuestionText(session, rules, open);
  const reason = isContinue ? RUN_END.approval : RUN_END.unclear;
  const reply = isContinue ? question : `${REPLY_WORDING[language].noAnswer}\n\n${question}`;
  return [replyEvent(session, message.id, { status: 'waiting', reason, text: reply, approval: open.id }, language)];
}

/** A rule denies the call, so nobody is asked. */
export function denyByRuleEvent(call: string, why: string): EventBody {
  return { type: 'approval.answered', call, decision: 'deny', by: 'rule', why: `denied: ${why}` };
}

/**
 * Whether a message was written before its sender could know of the open call. Its plain words do not answer the call,
 * and the message waits as well.
 */
export function waitsForApproval(session: Session, message: Message, kind: MessageKind | null): boolean {
  const { approvals, childCalls } = session;
  const { queuedBefore } = approvals.open ?? childCalls;
  return kind !== null && messageInfo(kind).whileAsked === 'words' && queuedBefore.includes(message.id);
}

/** The verdict on a call that has not started; null if there is none. */
export function approvalVerdictOn({ approvals: { lastDecided } }: Session, { key }: Pick<TurnCall, 'key'>) {
  return lastDecided?.call === key ? lastDecided : null;
}

/** Answers a call that may not run with the reason; the model continues from there. */
export function deniedCallEvents(session: Session, call: TurnCall): EventBody[] {
  const last = call.state === 'asked' ? approvalVerdictOn(session, call) : null;
  if (last?.verdict.decision !== 'deny') return [];
  return [{ type: 'tool.finished', call: call.key, ok: false, output: { text: last.verdict.why }, ms: 0 }];
}

/** Ends the run if the same call has been denied so often that continuing is pointless. */
export function checkDenials(session: Session, rules: Rules): RunEndReason | null {
  const { denials, lastDecided } = session.approvals;
  const [key, times] = Object.entries(denials).find(([, count]) => count >= MAX_DENIALS) ?? [];
  if (key === undefined || times === undefined) return null;
  const words = REPLY_WORDING[sessionLanguage(session, rules)];
  const is = lastDecided && denialKey(lastDecided) === key ? lastDecided : null;
  const rule = JSON.stringify({ allow: is?.always ?? key.split('\n')[0] });
  const text = words.deniedAgain(times, truncate(escapeInvisible(key.replace('\n', ' ')), 400), rule);
  return { status: 'paused', reason: RUN_END.denied, text };
}
