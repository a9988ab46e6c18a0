import type { Rules } from '../protocol/config.ts';
import type { EventBody } from '../protocol/event.ts';
import { fullLimits } from '../protocol/limits.ts';
import { depthOf } from './child-name.ts';
import type { Due } from './decide.ts';
import { entryOf } from './keyed.ts';
import { nameOfStandIn, replyTo } from './reply.ts';
import { restEvents } from './rest.ts';
import { SAYINGS } from './sayings.ts';
import type { Session } from './session.ts';
import { sessionLanguage } from './session-language.ts';

const CUT = 'the daemon ended while it ran';
const MINUTE_MS = 60_000;
/** What was set aside is tried again after so long, twice as long after each time that it was in vain, a day at most. */
const FIRST_RETRY_MINUTES = 10;
const LONGEST_RETRY_MINUTES = 24 * 60;

/**
 * What is set aside after too many setbacks: the run, else the message that is owed a reply or is the next one. The session and
 * the daemon go on with the others.
 */
export function parking(session: Session, rules: Rules): EventBody[] {
  const { run, rest, setbacks } = session;
  if (setbacks.count < setbacks.most) return [];
  const language = sessionLanguage(session, rules);
  const words = SAYINGS[language];
  const text = words.lost(setbacks.count, setbacks.error);
  if (run) {
    const again = isRoot(session) ? `${text}\n${words.triedAgain(minutesAfter(setbacks.shelved + 1))}` : text;
    return restEvents(session, rules, { status: 'failed', reason: 'crashes', text: again, cut: CUT });
  }
  const owed = rest && entryOf(session.messages, rest.message);
  const message = owed && !owed.replied ? owed.id : session.queue[0];
  if (message === undefined) return [];
  const said = `${text}\n\n${words.sendAgain}`;
  return [replyTo(session, message, { status: 'failed', reason: 'crashes', text: said, plan: null }, language)];
}

/**
 * A run that was set aside is tried again by itself, when its time has come and nothing else was said since. Its reply was given, so what
 * it comes to is told in one of its own. Of a child session its parent tries again.
 */
export function retrying(session: Session, rules: Rules): { due?: Due } {
  const { rest, setbacks, run } = session;
  if (run || rest?.reason !== 'crashes' || rest.at === undefined || !isRoot(session)) return {};
  const at = new Date(Date.parse(rest.at) + minutesAfter(setbacks.shelved) * MINUTE_MS).toISOString();
  const asked = entryOf(session.messages, rest.message);
  const name = nameOfStandIn(session, 'retry', asked?.name ?? '');
  const model = rules.model;
  const limits = fullLimits(rules.limits, session.handLimits ?? undefined);
  return {
    due: {
      at,
      events: [
        { type: 'run.resumed', message: name, name, by: 'daemon', limits, ...(model !== undefined && { model }) },
      ],
    },
  };
}

const isRoot = ({ name }: Session): boolean => depthOf(name) === 0;

const minutesAfter = (shelved: number): number =>
  Math.min(LONGEST_RETRY_MINUTES, FIRST_RETRY_MINUTES * 2 ** Math.min(Math.max(0, shelved - 1), 20));
