import { truncate } from '../../base/strings.ts';
import type { EventBody } from '../../protocol/session/event.ts';
import { RUN_END, type UserQuestion } from '../../protocol/session/reply.ts';
import type { Language, Rules } from '../../protocol/settings/effective-settings.ts';
import { doubtAnswer } from '../messages/message-meaning.ts';
import { replyEvent, replyLanguage } from '../messages/replies.ts';
import { REPLY_WORDING } from '../messages/reply-wording.ts';
import { endRunEvents } from '../runs/end-run.ts';
import type { Message } from '../session/session-messages.ts';
import type { Session } from '../session/session-state.ts';

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
