import { mapGet } from '../../base/persistent-collections.ts';
import type { EventBody } from '../../protocol/session/event.ts';
import type { Rules } from '../../protocol/settings/effective-settings.ts';
import { resolveLimits } from '../../protocol/settings/run-options.ts';
import { replyEvent, standInReplyName } from '../messages/replies.ts';
import { REPLY_WORDING } from '../messages/reply-wording.ts';
import { isChildBusy, sessionDepth } from '../session/child-session.ts';
import { sessionLanguage } from '../session/session-queries.ts';
import { CRASH_LIMIT, type Session } from '../session/session-state.ts';
import type { Decision } from './decision.ts';
import { endRunEvents } from './end-run.ts';

const DAEMON_LOST = 'the daemon ended while it ran';
/**
 * What becomes a dead letter after too many crashes: the run, else the message that is owed a reply or is the next one.
 * The session and the daemon go on with the others; "continue" tries a run again.
 */
export function deadLetterEvents(session: Session, rules: Rules): EventBody[] {
  const { run, runEnd, crashes } = session;
  if (crashes.count < CRASH_LIMIT) return [];
  const language = sessionLanguage(session, rules);
  const words = REPLY_WORDING[language];
  const text = words.lost(crashes.count, crashes.lastError ?? '');
  if (run)
    return endRunEvents(session, rules, { status: 'failed', reason: 'crashes', text, whyInterrupted: DAEMON_LOST });
  const owed = runEnd && mapGet(session.messages, runEnd.message);
  const message = owed && !owed.isReplied ? owed.id : session.queue[0];
  if (message === undefined) return [];
  const said = `${text}\n\n${words.sendAgain}`;
  return [replyEvent(session, message, { status: 'failed', reason: 'crashes', text: said, plan: null }, language)];
}

const SETTINGS_REASON = 'settings';

/**
 * A run whose settings do not hold calls no model and no tool: it rests and says why. A child session waits without a
 * word, as its root is held up by the same file and goes on with it.
 */
export function waitForSettings(session: Session, rules: Rules): Decision | null {
  if (rules.settingsFault === null) return null;
  if (sessionDepth(session.name) > 0) return { do: 'rest' };
  const text = REPLY_WORDING[sessionLanguage(session, rules)].settingsWait(rules.settingsFault);
  const cut = 'the settings do not hold';
  return {
    do: 'record',
    events: endRunEvents(session, rules, { status: 'waiting', reason: SETTINGS_REASON, text, whyInterrupted: cut }),
  };
}

/** Whether a run rests until settings hold: its session has to be looked at again by itself. */
export const isWaitingForSettings = ({ run, runEnd }: Session): boolean =>
  !run && runEnd?.status === 'waiting' && runEnd.reason === SETTINGS_REASON;

/**
 * The run goes on once they hold; what it comes to is told by a reply of its own, since its message was told that it
 * waits.
 */
export function resumeAfterSettings(session: Session, rules: Rules): EventBody[] {
  const { runEnd } = session;
  if (rules.settingsFault !== null || !isWaitingForSettings(session) || !runEnd) return [];
  const message = mapGet(session.messages, runEnd.message);
  const name = standInReplyName(session, SETTINGS_REASON, message?.name ?? '');
  const model = message?.options?.model ?? rules.model;
  const limits = resolveLimits(rules.limits, session.limitsByPerson ?? undefined, message?.options?.limits);
  return [{ type: 'run.resumed', by: 'daemon', message: name, name, limits, ...(model !== undefined && { model }) }];
}

/**
 * A run is on, nothing is to be done for it, no time is set for anything, and no child session is at work: it would
 * never go on. No session may come to this; where one does, that is an error of the code.
 */
export const isStalled = ({ run, children }: Session, decision: Decision): boolean =>
  run !== null && decision.do === 'rest' && decision.due === undefined && !Object.values(children).some(isChildBusy);

/** The end of such a run: the person hears of it, and can go on. */
export function endStalledRunEvents(session: Session, rules: Rules): EventBody[] {
  const text = REPLY_WORDING[sessionLanguage(session, rules)].stalled;
  return endRunEvents(session, rules, { status: 'failed', reason: 'stalled', text });
}
