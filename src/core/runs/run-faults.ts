import { mapGet } from '../../base/collections.ts';
import type { EventBody } from '../../protocol/session/event.ts';
import { RUN_END } from '../../protocol/session/run-end.ts';
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
 * What becomes a dead letter after too many crashes: the run, else the message that is owed a reply or is next. The
 * session and the daemon continue with the others; "continue" tries the run again.
 */
export function deadLetterEvents(session: Session, rules: Rules): EventBody[] {
  const { run, runEnd, crashes } = session;
  if (crashes.count < CRASH_LIMIT) return [];
  const language = sessionLanguage(session, rules);
  const words = REPLY_WORDING[language];
  const text = words.lost(crashes.count, crashes.lastError ?? '');
  if (run)
    return endRunEvents(session, rules, {
      status: 'failed',
      reason: RUN_END.crashes,
      text,
      whyInterrupted: DAEMON_LOST,
    });
  const owed = runEnd && mapGet(session.messages, runEnd.message);
  const message = owed && !owed.isReplied ? owed.id : session.queue[0];
  if (message === undefined) return [];
  const replyText = `${text}\n\n${words.sendAgain}`;
  return [
    replyEvent(session, message, { status: 'failed', reason: RUN_END.crashes, text: replyText, plan: null }, language),
  ];
}

/**
 * A run whose settings are invalid calls no model and no tool: it ends and says why. A child session waits silently,
 * since its root is held up by the same file and resumes it.
 */
export function waitForSettings(session: Session, rules: Rules): Decision | null {
  if (rules.settingsFault === null) return null;
  if (sessionDepth(session.name) > 0) return { do: 'idle' };
  const text = REPLY_WORDING[sessionLanguage(session, rules)].settingsWait(rules.settingsFault);
  const cut = 'the settings do not hold';
  return {
    do: 'record',
    events: endRunEvents(session, rules, { status: 'waiting', reason: RUN_END.settings, text, whyInterrupted: cut }),
  };
}

/** Whether a run has ended until settings are valid: its session has to be checked again without being asked. */
export const isWaitingForSettings = ({ run, runEnd }: Session): boolean =>
  !run && runEnd?.status === 'waiting' && runEnd.reason === RUN_END.settings;

/** Resumes the run once they are valid; its result gets a reply of its own, since its message was already answered. */
export function resumeAfterSettings(session: Session, rules: Rules): EventBody[] {
  const { runEnd } = session;
  if (rules.settingsFault !== null || !isWaitingForSettings(session) || !runEnd) return [];
  const message = mapGet(session.messages, runEnd.message);
  const name = standInReplyName(session, RUN_END.settings, message?.name ?? '');
  const model = message?.options?.model ?? rules.model;
  const limits = resolveLimits(rules.limits, session.limitsByPerson ?? undefined, message?.options?.limits);
  return [{ type: 'run.resumed', by: 'daemon', message: name, name, limits, ...(model !== undefined && { model }) }];
}

/**
 * Whether a run is active with nothing to do for it, no time set, no child session working, and no person using the
 * browser it waits for: it would never continue. This should never happen; if it does, it is a bug.
 */
export const isStalled = ({ run, children, browserHold }: Session, decision: Decision): boolean =>
  run !== null &&
  decision.do === 'idle' &&
  decision.due === undefined &&
  browserHold === null &&
  !Object.values(children).some(isChildBusy);

/** The end of such a run: the reply says so, and the person can continue. */
export function endStalledRunEvents(session: Session, rules: Rules): EventBody[] {
  const text = REPLY_WORDING[sessionLanguage(session, rules)].stalled;
  return endRunEvents(session, rules, { status: 'failed', reason: RUN_END.stalled, text });
}
