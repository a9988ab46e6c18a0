import { getOwn } from '../../base/collections.ts';
import type { EventBody } from '../../protocol/session/event.ts';
import { RUN_END } from '../../protocol/session/run-end.ts';
import type { Rules } from '../../protocol/settings/effective-settings.ts';
import type { AskUserArgs } from '../../protocol/tool-calls/own-tools.ts';
import { ASK_USER_TOOL } from '../../protocol/tool-calls/own-tools.ts';
import { joiningMessages } from '../messages/message-actions.ts';
import { formatQuestion, parseAskCall } from '../messages/questions.ts';
import { endRunEvents } from '../runs/end-run.ts';
import { sessionDepth } from '../session/child-session.ts';
import { isAskUserCall } from '../session/internal-calls.ts';
import type { TurnCall } from '../session/run-state.ts';
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
