import type { Rules } from '../protocol/config.ts';
import type { EventBody } from '../protocol/event.ts';
import { entryOf } from './keyed.ts';
import { replyTo } from './reply.ts';
import { restEvents } from './rest.ts';
import { SAYINGS } from './sayings.ts';
import type { Session } from './session.ts';
import { sessionLanguage } from './session-language.ts';

/** Daemons a message may cost before it is put aside (rule R20; mail systems call it a poison message). */
const MOST_SETBACKS = 3;
const CUT = 'the daemon ended while it ran';

/**
 * What is put aside after too many setbacks: the run, else the message that is owed a reply or is the next one. The session and
 * the daemon go on with the others.
 */
export function parking(session: Session, rules: Rules): EventBody[] {
  const { run, rest, setbacks } = session;
  if (setbacks.count < MOST_SETBACKS) return [];
  const language = sessionLanguage(session, rules);
  const words = SAYINGS[language];
  const text = words.lost(setbacks.count, setbacks.error);
  if (run) return restEvents(session, rules, { status: 'failed', reason: 'crashes', text, cut: CUT });
  const owed = rest && entryOf(session.messages, rest.message);
  const message = owed && !owed.replied ? owed.id : session.queue[0];
  if (message === undefined) return [];
  const said = `${text}\n\n${words.sendAgain}`;
  return [replyTo(session, message, { status: 'failed', reason: 'crashes', text: said, plan: null }, language)];
}
