import { mapGet } from '../../base/collections.ts';
import { isFromAncestor } from '../session/child-session.ts';
import type { Message } from '../session/session-messages.ts';
import { messageStanding } from '../session/session-queries.ts';
import type { Session } from '../session/session-state.ts';
import { parseCommand, parseModeCommand, textWithoutCommand, undoesFiles } from './commands.ts';
import { doubtAnswer, kindOfWords, namesOtherWork, type WordsContext, wordsContext } from './message-meaning.ts';
import {
  actionIn,
  actionInfo,
  type MessageAction,
  type MessageKind,
  messageInfo,
  SESSION_COMMANDS,
} from './message-table.ts';
import { answersOpenQuestion, isBareContinue } from './questions.ts';

type KnownMessage = { kind: MessageKind } | { unknown: string } | { refused: string } | { forbidden: string };

/** Cached kinds of messages, by the session's state: a long queue is read at every decision. */
const kindCache = new WeakMap<Message, Map<string, KnownMessage>>();

/** A message as the table sees it: its kind, or the name of an unknown command. */
export function messageKind(session: Session, message: Message): KnownMessage {
  if (answersOpenQuestion(session, message)) return { kind: 'task' };
  const context = wordsContext(session);
  const state = `${context.status}${context.isAsked}${context.isShelved}`;
  const before = kindCache.get(message)?.get(state);
  if (before) return before;
  const kind = messageKindAt(context, message);
  kindCache.set(message, (kindCache.get(message) ?? new Map<string, KnownMessage>()).set(state, kind));
  return kind;
}

type UnreadMessage = Pick<Message, 'text' | 'command' | 'template' | 'as' | 'options'> & { id?: string };

function messageKindAt(context: WordsContext, message: UnreadMessage): KnownMessage {
  const command = parseCommand(message);
  if (message.as === 'data') return command ? { forbidden: command.name } : { kind: 'data' };
  if (message.template && 'fault' in message.template) return { refused: message.template.fault };
  if (command) {
    if (parseModeCommand(message)?.is === 'run') return { kind: 'run' };
    const known = SESSION_COMMANDS.get(command.name);
    return known ? { kind: known.kind } : { unknown: command.name };
  }
  if (message.options?.when === 'apart') return { kind: 'run' };
  return { kind: kindOfWords({ id: '', ...message }, context) };
}

/**
 * The queued message in doubt that the model is asked about before anything is done about it; undefined if there is
 * none.
 */
export const messageToInterpret = (session: Session): Message | undefined =>
  session.queue
    .flatMap((id) => mapGet(session.messages, id) ?? [])
    .find((message) => awaitsInterpretation(session, message));

/** An endpoint that has just failed is not asked. */
function awaitsInterpretation(session: Session, message: Message): boolean {
  const kind = messageKind(session, message);
  if (!('kind' in kind) || kind.kind !== 'unclear' || message.meaning !== undefined || session.run?.failure)
    return false;
  const action = actionIn('unclear', messageStanding(session));
  return (action === 'hold_and_ask' || action === 'ask_meaning') && doubtAnswer(session, message) === undefined;
}

export type UrgentMessage = { message: Message; answer: MessageAction | Exclude<KnownMessage, { kind: MessageKind }> };

/** The queued messages that a busy session must not keep waiting, and what is done about each, in order. */
export function urgentMessages(session: Session): UrgentMessage[] {
  if (!session.run) return [];
  return session.queue.flatMap((id): UrgentMessage[] => {
    const message = mapGet(session.messages, id);
    if (!message) return [];
    const kind = messageKind(session, message);
    if (!('kind' in kind)) return [{ message, answer: kind }];
    const answer = kind.kind === 'undo' && undoesFiles(message) ? 'restore' : actionIn(kind.kind, 'running');
    // The model is asked first.
    if (answer === 'hold_and_ask' && awaitsInterpretation(session, message)) return [];
    return actionInfo(answer).duringCall ? [{ message, answer }] : [];
  });
}

const isDuring = (when: 'aborts' | 'beside', { answer }: UrgentMessage): boolean =>
  typeof answer === 'string' && actionInfo(answer).duringCall === when;

/** Whether this action ends the run. */
export const endsRun = ({ answer }: UrgentMessage): boolean =>
  typeof answer === 'string' && actionInfo(answer).endsRun === true;

/** The one handled first: a stop goes before milder requests. */
export function mostUrgentMessage(session: Session): UrgentMessage | undefined {
  const urgent = urgentMessages(session);
  return urgent.find((one) => isDuring('aborts', one)) ?? urgent[0];
}

/** What is known of a message that has not been taken. */
type WaitingMessage = Pick<Message, 'text' | 'command' | 'as' | 'options'>;

/** Whether a message is handled before those dropped earlier: a command, or words that stop, pause or undo. */
export function overtakesQueue(session: Session, message: WaitingMessage): boolean {
  if (message.as === 'data' || answersOpenQuestion(session, message)) return false;
  const kind = messageKindAt(wordsContext(session), message);
  if (!('kind' in kind)) return true;
  return kind.kind !== 'run' && ((kind.kind !== 'task' && kind.kind !== 'continue') || parseCommand(message) !== null);
}

/** Whether a message asks for less work: it is taken even on a full disk. */
export function stopsWork(session: Session, message: WaitingMessage): boolean {
  const known = messageKindAt(wordsContext(session), message);
  return message.as !== 'data' && 'kind' in known && messageInfo(known.kind).stopsWork === true;
}

/** Whether a call in flight must be aborted for a message that has arrived. */
export function shouldAbortCall(session: Session): boolean {
  return urgentMessages(session).some((one) => isDuring('aborts', one));
}

/** The first message that can be answered during a call in flight. */
export function answerableDuringCall(session: Session): UrgentMessage | undefined {
  return urgentMessages(session).find((one) => typeof one.answer !== 'string' || isDuring('beside', one));
}

/** Queued messages that the run's next model call delivers. */
export function joiningMessages(session: Session): string[] {
  if (!session.run) return [];
  return session.queue.filter((id) => {
    const message = mapGet(session.messages, id);
    if (!message || !(message.arrivedDuringRun || message.as === 'data' || isSecondContinue(session, message)))
      return false;
    return !waitsForItsTurn(session, message) && actionFor(session, message) === 'join' && hasContent(message);
  });
}

/** "Continue" said twice resumes once: another budget window would be spent without anybody asking for it. */
function isSecondContinue(session: Session, message: Message): boolean {
  return session.run?.isResumed === true && (isBareContinue(message) || parseCommand(message)?.name === 'continue');
}

/** A queued message that joins the run without any text: "/continue" during a run. */
export function emptyJoiningMessage(session: Session): Message | undefined {
  if (!session.run) return undefined;
  return session.queue
    .flatMap((id) => mapGet(session.messages, id) ?? [])
    .find(
      (message) => !hasContent(message) && !waitsForItsTurn(session, message) && actionFor(session, message) === 'join',
    );
}

function hasContent(message: Message): boolean {
  return textWithoutCommand(message).trim() !== '' || message.attachments !== undefined;
}

function actionFor(session: Session, message: Message): MessageAction | null {
  const kind = messageKind(session, message);
  return !('kind' in kind) ? null : actionIn(kind.kind, messageStanding(session));
}

/**
 * "after", "apart", "New task: …" or a mode of its own: not for the current run. The same holds for a message to a
 * child session from its parent, which needs a reply of its own.
 */
function waitsForItsTurn({ name }: Session, message: Message): boolean {
  if (message.as === 'data') return false;
  if (isFromAncestor(name, message.from)) return true;
  return message.meaning === 'task' || namesOtherWork(message);
}
