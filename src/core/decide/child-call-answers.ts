import type { EventBody } from '../../protocol/session/event.ts';
import { RUN_END } from '../../protocol/session/reply.ts';
import type { Rules } from '../../protocol/settings/effective-settings.ts';
import { childCallsText, isCallOf, openChildCalls, resumeRestingEvents, standIn } from '../children/child-calls.ts';
import { parseConsent, saysOtherwise } from '../messages/approval-answers.ts';
import { parseCommand, textWithoutCommand } from '../messages/commands.ts';
import { messageKind } from '../messages/message-actions.ts';
import { type MessageKind, messageInfo } from '../messages/message-table.ts';
import { replyEvent } from '../messages/replies.ts';
import { REPLY_WORDING } from '../messages/reply-wording.ts';
import type { Decision } from '../runs/decision.ts';
import type { Message } from '../session/session-messages.ts';
import { sessionLanguage } from '../session/session-queries.ts';
import type { Session } from '../session/session-state.ts';

type OpenCall = Session['childCalls']['calls'][number];
/** What a message decides about which calls. `words`: said besides, and passed on. */
type Answer = { calls: OpenCall[]; decision: 'allow' | 'always' | 'deny'; words: string };

/**
 * What a message means for the calls of child sessions that a run waits for: its answer is sent to each of their
 * sessions, then the run goes on once none is left. Null if no run waits for such calls, or the message is about
 * something else.
 */
export function decideChildCallAnswer(session: Session, message: Message, rules: Rules): Decision | null {
  const kind = messageKind(session, message);
  if (!session.childCalls.run || session.run || !('kind' in kind)) return null;
  // The run goes on, and ends for the message. The calls end with their sessions.
  if (messageInfo(kind.kind).whileAsked === 'withdraws') return resume(session, {});
  const answer = readAnswer(session, message, kind.kind);
  if (answer === null) return null;
  if (answer === 'ask again') return { do: 'record', events: [questionReply(session, message, rules)] };
  if (answer === 'no answer') return { do: 'record', events: [noAnswerReply(session, message, rules)] };
  if ('unknown' in answer) return { do: 'record', events: [unknownCallReply(session, message, answer.unknown, rules)] };
  const [next] = answer.calls;
  if (next) return sendAnswer(session, next, answer, message);
  // Every call that it is about has its answer.
  if (kind.kind === 'run') return resume(session, standIn(session));
  if (openChildCalls(session).length > 0) return { do: 'record', events: [questionReply(session, message, rules)] };
  return resume(session, { message: message.id, ...(answer.words !== '' && { joins: true }) });
}

const resume = (session: Session, by: { message?: string; name?: string; joins?: true }): Decision => ({
  do: 'record',
  events: resumeRestingEvents(session, by),
});

function readAnswer(
  session: Session,
  message: Message,
  kind: MessageKind,
): Answer | 'ask again' | 'no answer' | { unknown: string } | null {
  const open = openChildCalls(session);
  const asked = open.filter((call) => call.isShown);
  const text = textWithoutCommand(message).trim();
  switch (kind) {
    case 'approve':
    case 'deny': {
      const { names, isAlways, said } = readCommand(session, message, kind);
      const calls = names.length === 0 ? asked : namedCalls(open, names);
      // Once it has its answer, a call is known no more by its name.
      if (calls.length === 0 && names.length > 0 && namedCalls(session.childCalls.calls, names).length === 0)
        return { unknown: names.join(' ') };
      return { calls, decision: kind === 'deny' ? 'deny' : isAlways ? 'always' : 'allow', words: said };
    }
    case 'run':
      return { calls: open, decision: 'deny', words: '' };
    case 'task':
    case 'unclear':
    case 'continue': {
      const consent = message.attachments ? null : parseConsent(text);
      if (consent !== null) return { calls: asked, decision: consent, words: '' };
      if (kind === 'continue' && open.length > 0) return 'ask again';
      if (kind !== 'continue' && open.length > 0 && !saysOtherwise(text)) return 'no answer';
      return { calls: asked, decision: 'deny', words: kind === 'continue' ? '' : text };
    }
    default:
      return null;
  }
}

/** The calls that a command names, and what else is in it: "always", or of a denial what the model is to hear. */
function readCommand({ childCalls }: Session, message: Message, kind: 'approve' | 'deny') {
  const rest = (parseCommand(message)?.rest ?? '').trim();
  const words = rest.split(/\s+/).filter(Boolean);
  if (kind === 'approve') {
    const names = words.filter((word) => word.toLowerCase() !== 'always');
    return { names, isAlways: names.length < words.length, said: '' };
  }
  const isName = (word: string): boolean =>
    /^\d+$/.test(word) || word.includes('~') || childCalls.calls.some(({ session }) => session.endsWith(`~${word}`));
  const other = words.findIndex((word) => !isName(word));
  const names = words.slice(0, Math.min(2, other === -1 ? words.length : other));
  return { names, isAlways: false, said: rest.replace(new RegExp(`^(?:\\S+\\s*){${names.length}}`), '') };
}

/** `demo~one 1`, `demo~one`, `one`; and `1`, if only one of the calls has that number. */
function namedCalls(calls: readonly OpenCall[], names: readonly string[]): OpenCall[] {
  const number = names.find((name) => /^\d+$/.test(name));
  const session = names.find((name) => name !== number);
  const found = calls.filter(
    (call) =>
      (number === undefined || String(call.id) === number) &&
      (session === undefined || call.session === session || call.session.endsWith(`~${session}`)),
  );
  return session === undefined && found.length > 1 ? [] : found;
}

/** The call is named by its number: another one that waits there by then is not answered. */
function sendAnswer(session: Session, call: OpenCall, { decision, words }: Answer, { by }: Message): Decision {
  const child = Object.values(session.children).find(({ name }) => isCallOf(call.session, name));
  const own = call.session.slice(call.session.lastIndexOf('~') + 1).replace(/\+\d+$/, '');
  const text = [String(call.id), ...(decision === 'always' ? ['always'] : []), ...(words === '' ? [] : [words])].join(
    ' ',
  );
  return {
    do: 'send',
    step: child?.step ?? own,
    child: call.session,
    attempt: child?.attempt ?? 1,
    notBefore: null,
    message: {
      id: `${own}.answer${call.id}-${call.hash.slice(0, 12)}`,
      from: session.name,
      ...(by && { by }),
      command: decision === 'deny' ? 'deny' : 'approve',
      text,
    },
  };
}

/** Words that decide nothing are kept for the model. */
function noAnswerReply(session: Session, message: Message, rules: Rules): EventBody {
  const language = sessionLanguage(session, rules);
  const text = `${REPLY_WORDING[language].noAnswer}\n\n${childCallsText(session, rules)}`;
  return replyEvent(session, message.id, { status: 'waiting', reason: RUN_END.unclear, text }, language);
}

function questionReply(session: Session, message: Message, rules: Rules): EventBody {
  const facts = { status: 'waiting' as const, reason: RUN_END.approval, text: childCallsText(session, rules) };
  return replyEvent(session, message.id, facts, sessionLanguage(session, rules));
}

function unknownCallReply(session: Session, message: Message, named: string, rules: Rules): EventBody {
  const language = sessionLanguage(session, rules);
  const waiting = openChildCalls(session).map((call) => `${call.session} ${call.id}`);
  const text = REPLY_WORDING[language].notThoseOf(named, waiting.join(', '));
  return replyEvent(session, message.id, { status: 'rejected', text }, language);
}
