import { getOwn } from '../../base/collections.ts';
import { truncate } from '../../base/strings.ts';
import type { EventBody } from '../../protocol/session/event.ts';
import { RUN_END, type UserQuestion } from '../../protocol/session/reply.ts';
import type { Language, Rules } from '../../protocol/settings/effective-settings.ts';
import { ASK_USER_TOOL, type AskUserArgs } from '../../protocol/tool-calls/own-tools.ts';
import { BROWSER_TOOL_NAME } from '../../protocol/workspace/handover.ts';
import { parseCommand } from '../messages/commands.ts';
import { joiningMessages } from '../messages/message-actions.ts';
import { doubtAnswer } from '../messages/message-meaning.ts';
import { formatQuestion, parseAskCall } from '../messages/questions.ts';
import { replyEvent, replyInWords, replyLanguage } from '../messages/replies.ts';
import { REPLY_WORDING } from '../messages/reply-wording.ts';
import { endRunEvents } from '../runs/end-run.ts';
import { sessionDepth } from '../session/child-session.ts';
import { isAskUserCall } from '../session/internal-calls.ts';
import type { TurnCall } from '../session/run-state.ts';
import type { Message } from '../session/session-messages.ts';
import type { Session } from '../session/session-state.ts';

const ONE_QUESTION_AT_A_TIME =
  'Not asked: one question at a time. Ask it when the other one is answered, if you still need to.';
const PERSON_WROTE_MEANWHILE =
  'Not asked: the person has just written something, which comes next. Ask again if it does not answer this.';
const NOBODY_TO_ASK =
  'Nobody can be asked: you work on one step for a parent session. Decide yourself and say what you assumed, or end with [Blocked: what is missing].';

/**
 * The events for the open `ask_user` calls of an answer, once its other calls have ended: the first question ends the
 * run, and a call that cannot be asked is answered with the reason. Empty if there are no such calls.
 */
export function askUserEvents(session: Session, rules: Rules): EventBody[] {
  const open = (session.turn?.calls ?? []).filter(
    (call) => isAskUserCall(call) && (call.state === 'asked' || call.state === 'started'),
  );
  const why = whyCannotAsk(session, rules);
  const first = why === undefined ? open.find((call) => typeof parseAskCall(call.args) !== 'string') : undefined;
  const other = open.find((call) => call !== first);
  if (other) {
    const read = parseAskCall(other.args);
    return refuseCallEvents(other, typeof read === 'string' ? read : (why ?? ONE_QUESTION_AT_A_TIME));
  }
  const read = first && parseAskCall(first.args);
  return first && typeof read === 'object' ? askQuestionEvents(session, rules, first, read) : [];
}

/** Why nobody can be asked now. */
function whyCannotAsk(session: Session, { agents }: Rules): string | undefined {
  if (sessionDepth(session.name) > 0) return NOBODY_TO_ASK;
  const allowed = getOwn(agents, session.run?.agent ?? '')?.tools;
  if (allowed && !allowed.includes(ASK_USER_TOOL.name))
    return `You have no tool ${ASK_USER_TOOL.name}. Decide yourself, or say in plain text what is missing.`;
  return joiningMessages(session).length > 0 ? PERSON_WROTE_MEANWHILE : undefined;
}

/** Logs the question before anybody sees it. */
function askQuestionEvents(
  session: Session,
  rules: Rules,
  call: TurnCall,
  { question, choices }: AskUserArgs,
): EventBody[] {
  const offered = choices ?? [];
  return [
    ...callStartedEvents(call),
    ...endRunEvents(session, rules, {
      status: 'waiting',
      reason: RUN_END.question,
      text: formatQuestion(question, offered),
      question: { call: call.key, text: question, choices: offered },
    }),
  ];
}

function refuseCallEvents(call: TurnCall, text: string): EventBody[] {
  return [...callStartedEvents(call), { type: 'tool.finished', call: call.key, ok: false, output: { text }, ms: 0 }];
}

/** A power cut may have left only the start of the call in the log. */
function callStartedEvents({ key, name, args, state }: TurnCall): EventBody[] {
  return state === 'asked' ? [{ type: 'tool.started', call: key, name, args, replay: 'safe' }] : [];
}

/** `/browser` says who uses the browser; `take` and `return` change that. */
export function answerBrowserCommand(session: Session, message: Message, rules: Rules): EventBody[] {
  const { browserHold: hold } = session;
  const { from } = message;
  const sender = from !== undefined && { from };
  const order = (parseCommand(message)?.rest ?? '').trim().toLowerCase();
  const isTheirs = hold !== null && hold.from === (from ?? null);
  const reply = (text: Parameters<typeof replyInWords>[3], status: 'done' | 'rejected' = 'done') =>
    replyInWords(session, message, rules, text, status);
  if (order === 'take') {
    if (hold && !isTheirs) return reply(({ browser }) => browser.heldBy(hold.from, hold.since), 'rejected');
    if (hold) return reply(({ browser }) => browser.taken);
    if (!rules.browser.isOpen) return reply(({ browser }) => browser.notOpen, 'rejected');
    return [{ type: 'browser.taken', message: message.id, ...sender }, ...reply(({ browser }) => browser.taken)];
  }
  if (order === 'return') {
    if (!hold) return reply(({ browser }) => browser.notTaken);
    const returned = { type: 'browser.returned' as const, by: 'person' as const, ...sender };
    return [{ ...returned, reason: 'given_back' }, ...reply(({ browser }) => browser.returned)];
  }
  if (order !== '') return reply(({ browser }) => browser.usage, 'rejected');
  if (hold) return reply(({ browser }) => browser.heldBy(hold.from, hold.since));
  return reply(({ browser }) => (rules.browser.isOpen ? browser.agentHasIt : browser.notOpen));
}

/** The end of a hold that nobody ended: the person is gone, or the browser. */
export function browserLostEvents({ browserHold }: Session, { browser: { lost } }: Rules): EventBody[] {
  return browserHold && lost ? [{ type: 'browser.returned', by: 'daemon', reason: lost }] : [];
}

/** A call for the browser waits while a person uses it. */
export const waitsForBrowser = ({ browserHold }: Session, call: TurnCall): boolean =>
  browserHold !== null && call.name === BROWSER_TOOL_NAME && call.state === 'asked';

/** Such a call does not begin once the browser is back: the model chose it for pages that may have changed since. */
export function outdatedBrowserCallEvents({ browserHold, notices }: Session, call: TurnCall): EventBody[] {
  const isOutdated = browserHold === null && notices.some(({ about }) => about === 'browser');
  if (!isOutdated || call.name !== BROWSER_TOOL_NAME || call.state !== 'asked') return [];
  return [{ type: 'tool.interrupted', call: call.key, outcome: 'not_started', why: BROWSER_WAS_USED }];
}

const BROWSER_WAS_USED =
  'a person used the browser meanwhile, so its pages may have changed; look again (snapshot) before you act';

/** Code points of a goal or a message shown in a question. */
const MAX_SHOWN = 200;

/** What to do about words in doubt while nothing runs: ask, and leave the plan and the words as they are. */
export function askMeaning(session: Session, message: Message, rules: Rules): EventBody[] {
  const words = REPLY_WORDING[replyLanguage(session, message, rules)];
  const goal = truncate(session.plan?.goal ?? session.title ?? '', MAX_SHOWN);
  return [{ type: 'meaning.asked', message: message.id }, doubtReply(session, message, rules, words.goOnOrNew(goal))];
}

/** Words in doubt that begin like a stop: nothing more begins, and the person is asked. */
export function holdAndAsk(session: Session, message: Message, rules: Rules): EventBody[] {
  const words = REPLY_WORDING[replyLanguage(session, message, rules)];
  return [
    ...endRunEvents(session, rules, { status: 'paused', reason: RUN_END.unclear }),
    { type: 'meaning.asked', message: message.id },
    doubtReply(session, message, rules, words.stopOrGoOn(truncate(message.text.trim(), MAX_SHOWN))),
  ];
}

function doubtReply(session: Session, message: Message, rules: Rules, text: string): EventBody {
  const language = replyLanguage(session, message, rules);
  const question = doubtQuestion(text, language);
  return replyEvent(session, message.id, { status: 'waiting', reason: RUN_END.unclear, text, question }, language);
}

/** The question as frontends show it, with the two answers. */
export const doubtQuestion = (text: string, language: Language): UserQuestion => ({
  text,
  choices: [...REPLY_WORDING[language].doubtChoices],
});

/** A message that says what the words in doubt mean takes their place; empty for any other message. */
export function settleDoubt(session: Session, message: Message): EventBody[] {
  const meaning = doubtAnswer(session, message);
  if (!session.doubt || meaning === undefined) return [];
  return [{ type: 'message.interpreted', message: session.doubt.id, meaning, by: 'person', answer: message.id }];
}
