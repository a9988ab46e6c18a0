import { mapGet } from '../../base/collections.ts';
import { isFromAncestor } from '../session/child-session.ts';
import type { Message } from '../session/session-messages.ts';
import type { SessionStatus } from '../session/session-queries.ts';
import { sessionStatus } from '../session/session-queries.ts';
import type { Session } from '../session/session-state.ts';
import { type MessageKind, parseCommand, parseModeCommand, SESSION_COMMANDS, textWithoutCommand } from './commands.ts';
import { doubtAnswer, kindOfWords, namesOtherWork, type WordsContext, wordsContext } from './message-meaning.ts';
import { answersOpenQuestion, isBareContinue } from './questions.ts';

/** What is done about a message. Each action has its function in `respond.ts`. */
export type MessageAction =
  | 'start'
  | 'start_beside'
  | 'ask_meaning'
  | 'hold_and_ask'
  | 'join'
  | 'wait'
  | 'resume'
  | 'pause_after_call'
  | 'abort_and_pause'
  | 'abort_and_cancel'
  | 'abort_and_reset'
  | 'mark_paused'
  | 'mark_cancelled'
  | 'reopen'
  | 'restore'
  | 'reset'
  | 'show_status'
  | 'show_plan'
  | 'show_help'
  | 'about_mode'
  | 'about_model'
  | 'about_browser'
  | 'reply_nothing_asked'
  | 'keep_for_later'
  | 'reply_nothing_runs'
  | 'reply_paused'
  | 'reply_ended'
  | 'reply_planned'
  | 'reply_nothing_to_continue';

// biome-ignore format: a table reads as a table
/** What a message does in each state: the complete behaviour of a session towards people, on one screen. */
export const MESSAGE_ACTIONS: Readonly<Record<MessageKind, Readonly<Record<SessionStatus, MessageAction>>>> = {
  // `none`: there is no run; `failed`: it failed or was cancelled.
  task:     { none: 'start',                     running: 'join',                waiting: 'resume',              paused: 'start_beside',        completed: 'start',                     failed: 'start' },
  run:      { none: 'start',                     running: 'wait',                waiting: 'start_beside',        paused: 'start_beside',        completed: 'start',                     failed: 'start' },
  continue: { none: 'reply_nothing_to_continue', running: 'join',                waiting: 'resume',              paused: 'resume',              completed: 'reply_nothing_to_continue', failed: 'resume' },
  pause:    { none: 'reply_nothing_runs',        running: 'pause_after_call',    waiting: 'mark_paused',         paused: 'reply_paused',        completed: 'reply_nothing_runs',        failed: 'reply_nothing_runs' },
  stop:     { none: 'reply_nothing_runs',        running: 'abort_and_pause',     waiting: 'mark_paused',         paused: 'reply_paused',        completed: 'reply_nothing_runs',        failed: 'reply_nothing_runs' },
  cancel:   { none: 'reply_nothing_runs',        running: 'abort_and_cancel',    waiting: 'mark_cancelled',      paused: 'mark_cancelled',      completed: 'reply_ended',               failed: 'reply_ended' },
  undo:     { none: 'reopen',                    running: 'reopen',              waiting: 'reopen',              paused: 'reopen',              completed: 'reopen',                    failed: 'reopen' },
  restore:  { none: 'restore',                   running: 'restore',             waiting: 'restore',             paused: 'restore',             completed: 'restore',                   failed: 'restore' },
  new:      { none: 'reset',                     running: 'abort_and_reset',     waiting: 'reset',               paused: 'reset',               completed: 'reset',                     failed: 'reset' },
  status:   { none: 'show_status',               running: 'show_status',         waiting: 'show_status',         paused: 'show_status',         completed: 'show_status',               failed: 'show_status' },
  plan:     { none: 'show_plan',                 running: 'show_plan',           waiting: 'show_plan',           paused: 'show_plan',           completed: 'show_plan',                 failed: 'show_plan' },
  mode:     { none: 'about_mode',                running: 'about_mode',          waiting: 'about_mode',          paused: 'about_mode',          completed: 'about_mode',                failed: 'about_mode' },
  model:    { none: 'about_model',               running: 'about_model',         waiting: 'about_model',         paused: 'about_model',         completed: 'about_model',               failed: 'about_model' },
  browser:  { none: 'about_browser',             running: 'about_browser',       waiting: 'about_browser',       paused: 'about_browser',       completed: 'about_browser',             failed: 'about_browser' },
  approve:  { none: 'reply_nothing_asked',       running: 'reply_nothing_asked', waiting: 'reply_nothing_asked', paused: 'reply_nothing_asked', completed: 'reply_nothing_asked',       failed: 'reply_nothing_asked' },
  deny:     { none: 'reply_nothing_asked',       running: 'reply_nothing_asked', waiting: 'reply_nothing_asked', paused: 'reply_nothing_asked', completed: 'reply_nothing_asked',       failed: 'reply_nothing_asked' },
  help:     { none: 'show_help',                 running: 'show_help',           waiting: 'show_help',           paused: 'show_help',           completed: 'show_help',                 failed: 'show_help' },
  unclear:  { none: 'start',                     running: 'hold_and_ask',        waiting: 'resume',              paused: 'ask_meaning',         completed: 'start',                     failed: 'ask_meaning' },
  remind:   { none: 'reply_planned',             running: 'reply_planned',       waiting: 'reply_planned',       paused: 'reply_planned',       completed: 'reply_planned',             failed: 'reply_planned' },
  data:     { none: 'keep_for_later',            running: 'join',                waiting: 'keep_for_later',      paused: 'keep_for_later',      completed: 'keep_for_later',            failed: 'keep_for_later' },
};

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
    const known = Object.hasOwn(SESSION_COMMANDS, command.name) ? SESSION_COMMANDS[command.name] : undefined;
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
  const action = MESSAGE_ACTIONS.unclear[sessionStatus(session)];
  return (action === 'hold_and_ask' || action === 'ask_meaning') && doubtAnswer(session, message) === undefined;
}

/** Actions carried out at once during a run, ahead of the queue. */
const HANDLED_AT_ONCE: ReadonlySet<MessageAction> = new Set<MessageAction>([
  'pause_after_call',
  'abort_and_pause',
  'abort_and_cancel',
  'abort_and_reset',
  'hold_and_ask',
  'reopen',
  'restore',
  'show_status',
  'show_plan',
  'show_help',
  'about_mode',
  'about_model',
  'about_browser',
  'reply_nothing_asked',
  'reply_planned',
]);

export type UrgentMessage = { message: Message; answer: MessageAction | Exclude<KnownMessage, { kind: MessageKind }> };

/** The queued messages that a busy session must not keep waiting, and what is done about each, in order. */
export function urgentMessages(session: Session): UrgentMessage[] {
  if (!session.run) return [];
  return session.queue.flatMap((id): UrgentMessage[] => {
    const message = mapGet(session.messages, id);
    if (!message) return [];
    const kind = messageKind(session, message);
    if (!('kind' in kind)) return [{ message, answer: kind }];
    const answer = MESSAGE_ACTIONS[kind.kind].running;
    // The model is asked first.
    if (answer === 'hold_and_ask' && awaitsInterpretation(session, message)) return [];
    return HANDLED_AT_ONCE.has(answer) ? [{ message, answer }] : [];
  });
}

const ABORTING_ACTIONS: ReadonlySet<unknown> = new Set<MessageAction>([
  'abort_and_pause',
  'abort_and_cancel',
  'abort_and_reset',
]);
const SHOWING_ACTIONS: ReadonlySet<unknown> = new Set<MessageAction>([
  // During a run it is refused.
  'restore',
  'show_status',
  'show_plan',
  'show_help',
  'about_mode',
  'about_model',
  'about_browser',
  'reply_nothing_asked',
  'reply_planned',
]);

/** Whether this action ends the run. */
export const endsRun = (answer: UrgentMessage['answer']): boolean =>
  answer === 'pause_after_call' || answer === 'hold_and_ask' || ABORTING_ACTIONS.has(answer);

/** The one handled first: a stop goes before milder requests. */
export function mostUrgentMessage(session: Session): UrgentMessage | undefined {
  const urgent = urgentMessages(session);
  return urgent.find(({ answer }) => ABORTING_ACTIONS.has(answer)) ?? urgent[0];
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
  return message.as !== 'data' && 'kind' in known && STOPPING_KINDS.has(known.kind);
}
const STOPPING_KINDS: ReadonlySet<unknown> = new Set(['pause', 'stop', 'cancel']);

/** Whether a call in flight must be aborted for a message that has arrived. */
export function shouldAbortCall(session: Session): boolean {
  return urgentMessages(session).some(({ answer }) => ABORTING_ACTIONS.has(answer));
}

/** The first message that can be answered during a call in flight. */
export function answerableDuringCall(session: Session): UrgentMessage | undefined {
  return urgentMessages(session).find(({ answer }) => typeof answer !== 'string' || SHOWING_ACTIONS.has(answer));
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
  return !('kind' in kind) ? null : MESSAGE_ACTIONS[kind.kind][sessionStatus(session)];
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
