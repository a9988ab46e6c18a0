import type { AskCall } from '../protocol/ask-call.ts';
import { ASK_TOOL } from '../protocol/ask-call.ts';
import type { Rules } from '../protocol/config.ts';
import type { EventBody } from '../protocol/event.ts';
import { own } from '../protocol/own.ts';
import { joining } from './answers.ts';
import { depthOf } from './child-name.ts';
import { asked } from './choices.ts';
import { isAskCall, readAsk } from './question.ts';
import { restEvents } from './rest.ts';
import type { Call, Session } from './session.ts';

const ONE_AT_A_TIME = 'Not asked: one question at a time. Ask it when the other one is answered, if you still need to.';
const MEANWHILE =
  'Not asked: the person has just written something, which comes next. Ask again if it does not answer this.';
const NOBODY =
  'Nobody can be asked: you work on one step for a parent session. Decide yourself and say what you assumed, or end with [Blocked: what is missing].';

/**
 * What the open `ask_user` calls of an answer want next, once its other calls have ended: the first question brings the run to
 * rest; what cannot be asked is told why. Empty where there is none.
 */
export function asking(session: Session, rules: Rules): EventBody[] {
  const open = (session.turn?.calls ?? []).filter(
    (call) => isAskCall(call) && (call.state === 'asked' || call.state === 'started'),
  );
  const why = unable(session, rules);
  const first = why === undefined ? open.find((call) => typeof readAsk(call.args) !== 'string') : undefined;
  const other = open.find((call) => call !== first);
  if (other) {
    const read = readAsk(other.args);
    return refused(other, typeof read === 'string' ? read : (why ?? ONE_AT_A_TIME));
  }
  const read = first && readAsk(first.args);
  return first && typeof read === 'object' ? ask(session, rules, first, read) : [];
}

/** Why nobody can be asked now. */
function unable(session: Session, { agents }: Rules): string | undefined {
  if (depthOf(session.name) > 0) return NOBODY;
  const allowed = own(agents, session.run?.agent ?? '')?.tools;
  if (allowed && !allowed.includes(ASK_TOOL.name))
    return `You have no tool ${ASK_TOOL.name}. Decide yourself, or say in plain text what is missing.`;
  return joining(session).length > 0 ? MEANWHILE : undefined;
}

/** The question is on record before anybody sees it. */
function ask(session: Session, rules: Rules, call: Call, { question, choices }: AskCall): EventBody[] {
  const offered = choices ?? [];
  return [
    ...started(call),
    ...restEvents(session, rules, {
      status: 'waiting',
      reason: 'question',
      text: asked(question, offered),
      question: { call: call.key, text: question, choices: offered },
    }),
  ];
}

function refused(call: Call, text: string): EventBody[] {
  return [...started(call), { type: 'tool.finished', call: call.key, ok: false, output: { text }, ms: 0 }];
}

/** A power cut may have left only the start on record. */
function started({ key, name, args, state }: Call): EventBody[] {
  return state === 'asked' ? [{ type: 'tool.started', call: key, name, args, replay: 'safe' }] : [];
}
